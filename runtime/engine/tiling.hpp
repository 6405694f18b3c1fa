#pragma once
// Tiling: how long data are cut so that several passes over the plan overlap. Pure functions of what all ranks know
// alike (where only pairs of ranks know lengths, each pair alike).
//
// A vector is cut evenly into `tiles`. Blocks are cut into slices of `slice` elements: tile t is slice t of every block,
// empty for blocks that are over by then.

#include <cstddef>
#include <cstdint>

#include "runtime/engine/call.hpp"
#include "runtime/engine/prepared_plan.hpp"

namespace fabring {

struct Tiling {
  std::uint32_t tiles = 1;
  std::uint32_t depth = 1;  ///< tiles under way at once; local
  std::size_t slice = 0;    ///< elements; with blocks only
};

struct TilingRules {
  std::size_t segment_bytes = std::size_t{256} << 10;  ///< largest message
  std::size_t smallest_bytes = std::size_t{64} << 10;  ///< messages are not cut below this to gain overlap
  std::uint32_t depth = 3;                             ///< tiles in flight
};

Tiling choose_tiling(const PreparedPlan& plan, const Call& call, const TilingRules& rules);

}  // namespace fabring
