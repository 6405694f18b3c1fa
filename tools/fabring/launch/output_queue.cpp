#include "tools/fabring/launch/output_queue.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace fabring::tools {

bool OutputQueue::flush() {
  while (!empty()) {
    // A pipe or socket that poll() calls writable takes this much without blocking.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return true;
    const ssize_t written = ::write(fd_, bytes_.data() + written_, std::min<std::size_t>(size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (written < 0) {
      bytes_.clear();
      written_ = 0;
      return false;
    }
    written_ += static_cast<std::size_t>(written);
    if (written_ == bytes_.size() || written_ > (1U << 20)) {
      bytes_.erase(0, written_);
      written_ = 0;
    }
  }
  return true;
}

Descriptor own_way_to_terminal(int fd) {
  if (::isatty(fd) == 0) return {};
  return Descriptor(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace fabring::tools
