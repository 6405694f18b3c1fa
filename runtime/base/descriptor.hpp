#pragma once
// Descriptor: closes a file descriptor at the end of its life.

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/close_on_fork.hpp"

namespace fabring {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  /// Of a socket: children of fork() do not keep it, see close_on_fork.hpp.
  static Descriptor not_for_children(int fd) {
    close_on_fork::add(fd);
    return Descriptor(fd);
  }

  int fd() const { return fd_; }  ///< -1: none
  void close() {
    if (fd_ < 0) return;
    close_on_fork::remove(fd_);
    ::close(fd_);
    fd_ = -1;
  }
  /// Of a socket: its other end sees the end now, also while children of fork() have copies of it.
  void hang_up() {
    if (fd_ >= 0) (void)::shutdown(fd_, SHUT_RDWR);
    close();
  }

 private:
  int fd_ = -1;
};

}  // namespace fabring
