#pragma once
// The TCP sockets of this process, asked of the kernel: also those that an object keeps to itself.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

namespace fabring::tests {

/// Those in this state of the kernel's (TCP_ESTABLISHED).
inline std::vector<int> sockets_in(int state) {
  std::vector<int> found;
  tcp_info info{};
  for (int fd = 3; fd < 1024; ++fd) {
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == state) found.push_back(fd);
  }
  return found;
}

inline std::chrono::milliseconds user_timeout_of(int fd) {
  int value = -1;
  socklen_t length = sizeof value;
  ::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length);
  return std::chrono::milliseconds(value);
}

}  // namespace fabring::tests
