#pragma once
// SignalSource: signals as something poll() can wait for. They are blocked in the calling thread,
// and in those it starts from then on. A thread that a library started before takes its share of them.

#include <signal.h>
#include <sys/signalfd.h>

#include <initializer_list>
#include <optional>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring::tools {

/// Means what the program makes of it (write a checkpoint), not that it is to end.
inline bool is_for_the_program(int number) { return number == SIGUSR1 || number == SIGUSR2; }

class SignalSource {
 public:
  /// Also ignores SIGPIPE: a reader that went away is an error of write(). SIGHUP stays ignored if it is (nohup);
  /// SIGCHLD does not. Errors: unavailable.
  static Result<SignalSource> open(std::initializer_list<int> numbers);
  int fd() const { return descriptor_.fd(); }
  /// The next one that came; none when there is no more.
  std::optional<int> next();

 private:
  Descriptor descriptor_;
};

}  // namespace fabring::tools
