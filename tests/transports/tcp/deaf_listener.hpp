#pragma once
// DeafListener: an address at which nobody answers.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace fabring {

/// A listener whose queue is full, so that the kernel drops what would connect: as a path that loses every packet.
class DeafListener {
 public:
  DeafListener() {
    socklen_t length = sizeof at_;
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at_), length), 0);
    EXPECT_EQ(::listen(fd_, 0), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at_), &length), 0);
    fill();
  }
  ~DeafListener() {
    for (const int fd : fillers_) ::close(fd);
    ::close(fd_);
  }
  DeafListener(const DeafListener&) = delete;
  DeafListener& operator=(const DeafListener&) = delete;
  void fill() {
    fillers_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fillers_.back(), reinterpret_cast<sockaddr*>(&at_), sizeof at_), 0);
  }
  /// The next one that waits; -1 if none does.
  int accept() { return ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }
  std::string address() const { return "127.0.0.1:" + std::to_string(ntohs(at_.sin_port)); }

 private:
  const int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in at_{};
  std::vector<int> fillers_;
};

}  // namespace fabring
