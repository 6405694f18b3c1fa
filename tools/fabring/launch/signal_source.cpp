#include "tools/fabring/launch/signal_source.hpp"

#include <cerrno>
#include <cstring>

namespace fabring::tools {

Result<SignalSource> SignalSource::open(std::initializer_list<int> numbers) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t handled;
  ::sigemptyset(&handled);
  for (int number : numbers) {
    struct sigaction inherited {};
    ::sigaction(number, nullptr, &inherited);
    const bool ignored = inherited.sa_handler == SIG_IGN;
    if (ignored && number == SIGHUP) continue;                     // nohup; a blocked signal would come all the same
    if (ignored && number == SIGCHLD) ::signal(SIGCHLD, SIG_DFL);  // else nobody would learn how children ended
    ::sigaddset(&handled, number);
  }
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  SignalSource source;
  source.descriptor_ = Descriptor(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (source.fd() < 0)
    return Status(ErrorCode::unavailable, std::string("cannot receive signals: ") + std::strerror(errno));
  return source;
}

std::optional<int> SignalSource::next() {
  signalfd_siginfo info{};
  if (::read(fd(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return {};
  return static_cast<int>(info.ssi_signo);
}

}  // namespace fabring::tools
