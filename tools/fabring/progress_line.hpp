#pragma once
// ProgressLine: one line on stderr that says what is being done, each time in place of what it said before, and nothing
// in the end. Only on a terminal that can take it back: a pipe or a file gets nothing.

#include <string>

namespace fabring::tools {

class ProgressLine {
 public:
  /// Begins with "fabring SUBCOMMAND: ".
  explicit ProgressLine(const std::string& subcommand);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// One line, ASCII; what is wider than the terminal is cut.
  void show(const std::string& text);
  /// Before anything else is written to the terminal.
  void clear();
  /// The same for who does not know whether there is one.
  static void clear_any();

 private:
  const std::string head_;
  const bool on_terminal_;
  bool shown_ = false;
};

}  // namespace fabring::tools
