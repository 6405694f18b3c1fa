#pragma once
// A child (a rank, or the way to another host) started in a process group of its own, with pipes for its output, ended
// with its launcher. The launcher must have one thread only (fork), and it keeps the ended process unreaped, so that
// the group's number can not be given to a stranger while signals may still go to it.

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/base/settings.hpp"

namespace fabring::tools {

struct ChildStart {
  std::vector<std::string> command;
  Environment environment;
  std::vector<int> cpus;  ///< empty: not bound
  int input = -1;         ///< becomes its stdin; -1: it reads /dev/null
};

/// How a process ended: an exit status or a signal.
struct Ending {
  int exit_status = 0;
  int signal = 0;
  bool fine() const { return exit_status == 0 && signal == 0; }
  int code() const { return signal != 0 ? 128 + signal : exit_status; }
  std::string to_string() const;  ///< "exited with status 3", "was killed by signal 9 (Killed)"
};

class ChildProcess {
 public:
  static constexpr std::size_t descriptors = 3;  ///< that a running one takes: its output, its errors, its end
  ChildProcess() = default;
  ~ChildProcess();  // kills the group
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;

  /// Errors: unavailable; the command cannot be executed, or no process or pipe is to be had.
  static Result<ChildProcess> start(const ChildStart& start);

  pid_t pid() const { return pid_; }
  int output() const { return output_; }  ///< read end of its stdout; -1 after close_output
  int errors() const { return errors_; }
  void close_output();
  void close_errors();

  /// Readable once it has ended, for poll(); -1 where the kernel has none (before 5.3): there only SIGCHLD tells.
  int end() const { return end_.fd(); }
  /// Looks whether it has ended, without waiting and without reaping.
  std::optional<Ending> ending();
  /// To the whole process group; safe also after the rank has ended.
  void signal(int number) const;
  /// Kills what is left of the group and reaps.
  void finish();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  Descriptor end_;
  std::optional<Ending> ending_;
};

}  // namespace fabring::tools
