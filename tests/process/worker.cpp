#include "worker.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "events.hpp"

namespace rank_program {
namespace {

// More than a rank has sockets: some have the lowest numbers that are free.
std::vector<int> open_files() {
  std::vector<int> files;
  for (std::int64_t number = 0; number < 64; ++number) {
    files.push_back(::memfd_create("worker", MFD_CLOEXEC));
    (void)!::pwrite(files.back(), &number, sizeof number, 0);
  }
  return files;
}

std::int64_t changed(const std::vector<int>& files) {
  std::int64_t count = 0, number = 0;
  for (const int file : files) {
    std::int64_t found = -1;
    if (::pread(file, &found, sizeof found, 0) != sizeof found || found != number++) ++count;
  }
  return count;
}

[[noreturn]] void work(pid_t parent) {
  const std::vector<int> files = open_files();
  sigset_t end_of_parent;
  ::sigemptyset(&end_of_parent);
  ::sigaddset(&end_of_parent, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &end_of_parent, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::getppid() != parent) ::_exit(0);
  Event("worker").number("pid", ::getpid());
  int signal = 0;
  ::sigwait(&end_of_parent, &signal);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
  }
  Event("worker_end").number("changed", changed(files));
  ::_exit(0);
}

}  // namespace

void start_worker() {
  const pid_t parent = ::getpid();
  if (::fork() == 0) work(parent);
}

}  // namespace rank_program
