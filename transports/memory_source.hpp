#pragma once
// MemorySource: where an engine gets memory that is better than any other for its endpoint (shared memory: peers read
// and write it directly). May outlive the endpoint. Any thread.

#include <cstddef>
#include <functional>
#include <limits>

namespace fabring {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// A block aligned to a page; null when there is none left: ordinary memory does as well, only slower.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Asked with the bytes that are still to come; false: no more of them.
  using MayGoOn = std::function<bool(std::size_t to_come)>;
  static constexpr std::size_t step_bytes = std::size_t{256} << 20;
  /// The same where allocating makes the pages exist. Many take seconds, in which others take memory too: asks after
  /// each step of them. Null also when it may not go on, and then nothing is left of it.
  virtual std::byte* allocate_in_steps(std::size_t bytes, const MayGoOn&) { return allocate(bytes); }
  /// `block` came from allocate(bytes). False, and nothing happens, if it did not.
  virtual bool release(std::byte* block, std::size_t bytes) = 0;
  /// No more than this can ever be had at once.
  virtual std::size_t limit() const { return std::numeric_limits<std::size_t>::max(); }
};

}  // namespace fabring
