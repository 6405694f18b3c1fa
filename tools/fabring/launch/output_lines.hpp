#pragma once
// OutputLines: forwards what ranks print, whole lines at a time, so that the lines of many ranks do not cut into each
// other; optionally with the rank and the time in front.

#include <cstddef>
#include <string>
#include <string_view>

namespace fabring::tools {

struct OutputStyle {
  bool tag = false;        ///< "[3] "
  bool timestamp = false;  ///< "12:34:56.789 " (local time)
  bool end_last = false;   ///< stdout ends with a newline, though ranks did not print one: a line of ours follows
};

/// One stream of one rank.
class OutputLines {
 public:
  OutputLines(int rank, OutputStyle style) : rank_(rank), style_(style) {}
  /// Takes what was read and returns what may be written now: all lines that have ended.
  std::string take(std::string_view bytes);
  /// The end of the stream: the rest, with the newline it lacks when tagged.
  std::string finish();

 private:
  std::string prefix() const;
  std::string decorated(std::string_view lines) const;
  int rank_;
  OutputStyle style_;
  std::string partial_;
};

}  // namespace fabring::tools
