#pragma once
// ForkOrigin: whether an object was made in this process, or by its parent before a fork(). As MakerProcess, but
// without asking the kernel, for what is asked with every call. Forks are counted by a handler of pthread_atfork: a
// child that vfork(), _Fork() or clone() alone has made is not told from its parent.

#include <atomic>
#include <cstdint>

namespace fabring {

/// How many forks lie between this process and the one that loaded the library.
extern constinit std::atomic<std::uint32_t> forks_so_far;

class ForkOrigin {
 public:
  bool is_here() const { return forks_ == forks_so_far.load(std::memory_order_relaxed); }

 private:
  std::uint32_t forks_ = forks_so_far.load(std::memory_order_relaxed);
};

}  // namespace fabring
