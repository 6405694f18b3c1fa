#pragma once
// ForkedChild: a child that keeps copies of the descriptors of this process and does nothing with them.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fabring {

/// A fork of which no handler of pthread_atfork hears, so that the child keeps copies of our sockets too.
inline pid_t fork_unheard() { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }

class ForkedChild {
 public:
  enum class Copies { of_all, of_all_but_ours };  ///< ours: close_on_fork.hpp

  explicit ForkedChild(Copies copies = Copies::of_all) : pid_(copies == Copies::of_all ? fork_unheard() : ::fork()) {
    if (pid_ != 0) return;
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  ~ForkedChild() {
    if (!started()) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool started() const { return pid_ > 0; }

 private:
  pid_t pid_;
};

}  // namespace fabring
