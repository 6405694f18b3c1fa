#pragma once
// Output: where a subcommand writes what it makes: a file, or stdout. It is opened before the work, so that what cannot
// be written is said at once, and touched only by the first write: what fails in between costs nobody a file.

#include <atomic>
#include <cstdio>
#include <string>

#include "fabring/status.hpp"

namespace fabring::tools {

class Output {
 public:
  Output() = default;
  ~Output();  ///< takes away a file that open() made and nothing was written to
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// A file that can be written; stdout for "" and "-". `option`: where the path came from. Errors: unavailable, with
  /// path and reason.
  Status open(const std::string& path, const std::string& option = "--output");
  /// Whether another process could open it. Nothing of it is seen at a named pipe, whose reader takes the first who
  /// closes for the end. Errors: as open().
  static Status check(const std::string& path, const std::string& option = "--output");
  /// The first one replaces what the file had.
  void write(const std::string& text);
  /// Errors: what was written did not get there (disk full, closed pipe).
  Status finish();
  /// For a process that ends as it is: takes away the files that were made and are not finished.
  static void take_away_unfinished();

 private:
  std::FILE* file_ = stdout;
  std::string path_, option_;
  bool made_ = false;     // by open()
  bool written_ = false;  // by write()
  std::atomic<bool> finished_ = false;
};

/// invalid_argument: a picture ("--svg -") would follow the report on stdout. Fine where `output` names a file for
/// that.
Status check_picture(const std::string& option, const std::string& path, const std::string& output);

}  // namespace fabring::tools
