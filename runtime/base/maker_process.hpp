#pragma once
// MakerProcess: which process made an object. A child of fork() has copies of all objects, and of descriptors but those
// of close_on_fork.hpp; what it does to a connection, or to an epoll instance, happens to its parent's.

#include <sys/types.h>
#include <unistd.h>

namespace fabring {

class MakerProcess {
 public:
  bool is_this_one() const { return pid_ == ::getpid(); }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace fabring
