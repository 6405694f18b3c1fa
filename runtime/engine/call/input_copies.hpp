#pragma once
// InputCopies: memory for copies of inputs, and how much of it the calls of an engine hold. Those of one prepared call
// share theirs, which it keeps while nothing runs. Any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace fabring {

class InputCopies {
 public:
  /// Counted until the last holder lets go, who may outlive this. Null: this machine does not have so much.
  std::shared_ptr<std::byte[]> make(std::size_t bytes) const {
    std::byte* const memory = new (std::nothrow) std::byte[bytes];
    if (memory == nullptr) return nullptr;
    held_->fetch_add(bytes);
    return {memory, [held = held_, bytes](std::byte* at) {
              delete[] at;
              held->fetch_sub(bytes);
            }};
  }
  std::uint64_t held() const { return held_->load(); }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> held_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace fabring
