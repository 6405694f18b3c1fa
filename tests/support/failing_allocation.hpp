#pragma once
// FailingAllocation: operator new that finds no memory when a test says so. A program that links its source has it for
// all that it does.

#include <cstddef>

namespace fabring::fixture {

/// Of what this thread allocates while it lives the allocation of this number, counted from 1, throws std::bad_alloc;
/// or all of at least so many bytes do.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::size_t number);
  static FailingAllocation of_at_least(std::size_t bytes);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  /// How many have failed.
  std::size_t failed() const;

 private:
  FailingAllocation(std::size_t number, std::size_t least_bytes);
};

}  // namespace fabring::fixture
