#include "bindings/python/core/handle.hpp"

#include <pthread.h>

#include <atomic>

namespace fabring::python {
namespace {

std::atomic<std::uint64_t> generation{0};

}  // namespace

std::uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

void watch_forks() {
  (void)::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace fabring::python
