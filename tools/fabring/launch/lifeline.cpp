#include "tools/fabring/launch/lifeline.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace fabring::tools {
namespace {

constexpr pid_t all_well = 0;

[[noreturn]] void keep(int socket) {
  ::setsid();  // no terminal's signals, and not in the launcher's group
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // It must not hold the launcher's output open: whoever reads that waits for its end.
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  // Nor anything else of the launcher's.
  if (socket != 3) socket = ::dup2(socket, 3);
  ::close_range(4, ~0U, 0);
  std::vector<pid_t> groups;
  pid_t value = all_well;
  while (true) {
    const ssize_t got = ::read(socket, &value, sizeof(value));
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof(value))) break;  // the launcher is gone
    if (value == all_well) ::_exit(0);
    if (value > 0) groups.push_back(value);
    if (value < 0) groups.erase(std::remove(groups.begin(), groups.end(), -value), groups.end());
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Result<Lifeline> Lifeline::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status(ErrorCode::unavailable, std::string("cannot make a socket pair: ") + std::strerror(errno));
  const pid_t keeper = ::fork();
  if (keeper < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Status(ErrorCode::unavailable, std::string("cannot start a process: ") + std::strerror(errno));
  }
  if (keeper == 0) {
    ::close(ends[1]);
    keep(ends[0]);
  }
  ::close(ends[0]);
  Lifeline line;
  line.keeper_ = keeper;
  line.socket_ = ends[1];
  return line;
}

Lifeline::Lifeline(Lifeline&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)), socket_(std::exchange(other.socket_, -1)) {}

Lifeline::~Lifeline() {
  if (keeper_ < 0) return;
  tell(all_well);
  ::close(socket_);
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Lifeline::entrust(pid_t group) { tell(group); }
void Lifeline::release(pid_t group) { tell(-group); }

void Lifeline::tell(pid_t value) {
  ::send(socket_, &value, sizeof(value), MSG_NOSIGNAL);  // to a keeper that is gone: nothing can be done
}

}  // namespace fabring::tools
