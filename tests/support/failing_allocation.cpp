#include "tests/support/failing_allocation.hpp"

#include <cstdlib>
#include <limits>
#include <new>

namespace fabring::fixture {
namespace {

struct Plan {
  std::size_t until = 0;  // 0: none
  std::size_t least_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t failed = 0;
};
thread_local Plan plan;

bool fails(std::size_t bytes) {
  if ((plan.until == 0 || --plan.until != 0) && bytes < plan.least_bytes) return false;
  ++plan.failed;
  return true;
}

void* allocate(std::size_t bytes) { return fails(bytes) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes); }

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto aligned = static_cast<std::size_t>(alignment);
  return fails(bytes) ? nullptr : std::aligned_alloc(aligned, (bytes + aligned - 1) / aligned * aligned);
}

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

FailingAllocation::FailingAllocation(std::size_t number, std::size_t least_bytes) { plan = {number, least_bytes, 0}; }
FailingAllocation::FailingAllocation(std::size_t number)
    : FailingAllocation(number, std::numeric_limits<std::size_t>::max()) {}
FailingAllocation FailingAllocation::of_at_least(std::size_t bytes) { return {0, bytes}; }
FailingAllocation::~FailingAllocation() { plan = {}; }
std::size_t FailingAllocation::failed() const { return plan.failed; }

}  // namespace fabring::fixture

using fabring::fixture::allocate;
using fabring::fixture::or_throw;

void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return or_throw(allocate(bytes, alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return or_throw(allocate(bytes, alignment)); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
