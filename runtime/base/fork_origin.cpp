#include "runtime/base/fork_origin.hpp"

#include <pthread.h>

namespace fabring {

constinit std::atomic<std::uint32_t> forks_so_far{0};

namespace {

void count_fork() { forks_so_far.fetch_add(1, std::memory_order_relaxed); }

// As long as the library is loaded. Without memory for it a child is not told from its parent.
[[maybe_unused]] const int counting = ::pthread_atfork(nullptr, nullptr, count_fork);

}  // namespace
}  // namespace fabring
