#include "collectives/tiling.hpp"

#include <algorithm>

#include "collectives/plan.hpp"

namespace fabring {

Tiling choose_tiling(std::uint64_t largest_message, std::size_t count, std::size_t element_bytes,
                     const TilingRules& rules) {
  Tiling tiling;
  if (count == 0 || largest_message == 0) return tiling;
  // Largest message if the whole vector were one tile; the plan gives it as a share.
  const double share = static_cast<double>(largest_message) / static_cast<double>(message_unit);
  const double bytes = static_cast<double>(count) * static_cast<double>(element_bytes) * share;
  // Enough tiles that no message is longer than a segment, and `depth` of them if the messages stay worth their while.
  const auto needed = static_cast<std::size_t>(bytes / static_cast<double>(rules.segment_bytes) + 0.999);
  const auto overlap =
      std::min<std::size_t>(rules.depth, static_cast<std::size_t>(bytes / static_cast<double>(rules.smallest_bytes)));
  const std::size_t tiles =
      std::clamp<std::size_t>(std::max(needed, overlap), 1, std::min<std::size_t>(count, 1u << 30));
  tiling.tiles = static_cast<std::uint32_t>(tiles);
  tiling.depth = std::min(tiling.tiles, rules.depth);
  return tiling;
}

}  // namespace fabring
