#include "topology/trial.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace fabring {
namespace {

constexpr char it_passed = 'p', it_refused = 'r';

[[noreturn]] void try_and_tell(const std::function<bool()>& attempt, int answer) {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) {
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
  }
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(20);
  const char said = attempt() ? it_passed : it_refused;
  ::_exit(::write(answer, &said, 1) == 1 ? 0 : 1);
}

Status no_child(const char* what, int error) {
  std::string text = std::string("cannot start a process to try it in: ") + what + ": " + std::strerror(error);
  if (error == EAGAIN) text += "; raise the limit on processes (ulimit -u, pids.max)";
  if (error == EMFILE) text += "; raise the limit on open files (ulimit -n)";
  return {ErrorCode::unavailable, std::move(text)};
}

}  // namespace

Result<Trial> try_in_child(const std::function<bool()>& attempt) {
  // The answer does not come as an exit code: where SIGCHLD is ignored nobody learns that, and a sanitizer has its own.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return no_child("pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    for (const int end : ends) ::close(end);
    return no_child("fork", error);
  }
  if (child == 0) try_and_tell(attempt, ends[1]);
  ::close(ends[1]);
  char said = 0;
  while (::read(ends[0], &said, 1) < 0 && errno == EINTR) {
  }
  ::close(ends[0]);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return said == it_passed ? Trial::passed : said == it_refused ? Trial::refused : Trial::crashed;
}

}  // namespace fabring
