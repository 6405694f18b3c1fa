#pragma once
// SharedCopy: memcpy to where a peer reads.

#include <cstddef>

#include "transports/shm/store_choice.hpp"

namespace fabring::shm {

class SharedCopy {
 public:
  explicit SharedCopy(const StoreChoice& choice = {}) : choice_(choice) {}
  /// Whoever sees a later release store of this thread sees the bytes.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  Stores best() const { return choice_.best(); }

 private:
  StoreChoice choice_;
};

/// As memcpy, past the caches where the processor can.
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace fabring::shm
