#pragma once
// ForkedChild: a child that keeps copies of all descriptors of this process and does nothing with them.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fabring {

class ForkedChild {
 public:
  ForkedChild() : pid_(::fork()) {
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
