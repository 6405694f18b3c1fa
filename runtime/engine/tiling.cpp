#include "runtime/engine/tiling.hpp"

#include <algorithm>

namespace fabring {

Tiling choose_tiling(const PreparedPlan& prepared, const Call& call, const TilingRules& rules) {
  const Plan& plan = prepared.plan;
  std::size_t count = call.count;
  if (!call.counts.empty()) count = *std::max_element(call.counts.begin(), call.counts.end());
  Tiling tiling;
  tiling.slice = std::max<std::size_t>(count, 1);
  if (count == 0 || plan.largest_message == 0) return tiling;
  // Longest message if everything were one tile; the plan gives it as a share of the vector or of a block.
  const double message = longest_message_bytes(plan.largest_message, size_of(call.type));
  std::size_t tiles = 1;
  if (lengths_by_pair(call)) {
    // The lengths differ by pair of ranks, so slices must not depend on them.
    tiling.slice =
        std::max<std::size_t>(static_cast<std::size_t>(static_cast<double>(rules.segment_bytes) / message), 1);
    tiles = (count + tiling.slice - 1) / tiling.slice;
  } else {
    tiles = tile_count(message, count, rules);
    tiling.slice = (count + tiles - 1) / tiles;
    if (plan.blocks != 0) tiles = (count + tiling.slice - 1) / tiling.slice;
  }
  tiling.tiles = static_cast<std::uint32_t>(tiles);
  tiling.depth = std::min(tiling.tiles, rules.depth);
  return tiling;
}

}  // namespace fabring
