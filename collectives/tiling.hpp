#pragma once
// Tiling: how long a vector is cut so that several passes over the plan overlap. A pure function of what all ranks know
// alike; the engine runs by it and the simulation predicts by it.

#include <cstddef>
#include <cstdint>

namespace fabring {

/// How a call is cut. Depends only on what all ranks know alike, except `depth`, which is local.
struct Tiling {
  std::uint32_t tiles = 1;
  std::uint32_t depth = 1;
};

struct TilingRules {
  std::size_t segment_bytes = std::size_t{256} << 10;  ///< largest message
  std::size_t smallest_bytes = std::size_t{64} << 10;  ///< messages are not cut below this to gain overlap
  std::uint32_t depth = 3;                             ///< tiles in flight
};

/// `largest_message`: Plan::largest_message. `count`: elements of the vector, or of each block.
Tiling choose_tiling(std::uint64_t largest_message, std::size_t count, std::size_t element_bytes,
                     const TilingRules& rules);

/// Larger messages wait for the receiver's grant; smaller ones travel in a record (runtime/transfer).
inline constexpr std::size_t eager_message_bytes = std::size_t{8} << 10;
/// Slots for incoming blocks of one operation: enough to keep both directions busy, few enough to stay in the
/// second-level cache.
inline constexpr std::size_t most_reduce_slots = 8;

}  // namespace fabring
