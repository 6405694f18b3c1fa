#pragma once
// Descriptor: closes a file descriptor at the end of its life.

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

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

  int fd() const { return fd_; }  ///< -1: none
  void close() {
    if (fd_ >= 0) ::close(fd_);
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
