#pragma once
// ForkOrigin: whether an object was made in this process, or by its parent before a fork(). For bindings, which do not
// see the engine's (runtime/base/fork_origin.hpp): each module counts forks from when it is loaded.

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace fabring::bindings {

class ForkOrigin {
 public:
  bool is_here() const { return forks_ == forks_so_far.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<std::uint32_t> forks_so_far{0};
  static inline const int counting = ::pthread_atfork(nullptr, nullptr, [] { ++forks_so_far; });

  std::uint32_t forks_ = forks_so_far.load(std::memory_order_relaxed);
};

}  // namespace fabring::bindings
