#pragma once
// How much of its buffers a call uses on one rank, which many collectives do only on the root.

#include <cstddef>

#include "fabring/types.hpp"
#include "runtime/engine/call/call.hpp"

namespace fabring {

struct BufferNeeds {
  std::size_t in = 0;  ///< elements that the input spans; 0: not used here
  std::size_t out = 0;
  bool in_place = false;         ///< is there a place for the one in the other?
  std::ptrdiff_t out_in_in = 0;  ///< elements from `in` to `out` when in place
};

/// Of a call whose lengths are known; not of tensors.
BufferNeeds buffer_needs(const Call& call, Rank self, int ranks);

}  // namespace fabring
