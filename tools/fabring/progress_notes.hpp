#pragma once
// ProgressNotes: a line on stderr now and then, while a long run says nothing else. For ranks of a job, whose stderr is
// often a pipe to whoever started them; a command by itself has ProgressLine.

#include <chrono>
#include <string>

namespace fabring::tools {

class ProgressNotes {
 public:
  /// At most every `pause`, the first one a `pause` from now. Lines begin with "fabring SUBCOMMAND: ".
  ProgressNotes(std::string subcommand, std::chrono::milliseconds pause);
  void say(const std::string& text);

 private:
  const std::string subcommand_;
  const std::chrono::milliseconds pause_;
  std::chrono::steady_clock::time_point said_ = std::chrono::steady_clock::now();
};

}  // namespace fabring::tools
