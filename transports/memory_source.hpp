#pragma once
// MemorySource: where an engine gets memory that is better than any other for its endpoint (shared memory: peers read
// and write it directly). May outlive the endpoint. Any thread.

#include <cstddef>
#include <limits>

namespace fabring {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// A block aligned to a page; null when there is none left: ordinary memory does as well, only slower.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// `block` came from allocate(bytes). False, and nothing happens, if it did not.
  virtual bool release(std::byte* block, std::size_t bytes) = 0;
  /// No more than this can ever be had at once.
  virtual std::size_t limit() const { return std::numeric_limits<std::size_t>::max(); }
};

}  // namespace fabring
