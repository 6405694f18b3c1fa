#pragma once
// MemorySource: where an engine gets the memory that it receives into, if its endpoint has some that peers can fill
// better than any other (shared memory: they write there directly). May outlive the endpoint. Any thread.

#include <cstddef>

namespace fabring {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// A block aligned to a page; null when there is none left: ordinary memory does as well, only slower.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// `block` came from allocate(bytes). False, and nothing happens, if it did not.
  virtual bool release(std::byte* block, std::size_t bytes) = 0;
};

}  // namespace fabring
