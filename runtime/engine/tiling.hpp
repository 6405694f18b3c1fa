#pragma once
// Tiling: how long data are cut so that several passes over the plan overlap. Pure functions of what all ranks know
// alike (where only pairs of ranks know lengths, each pair alike).
//
// A vector is cut evenly into `tiles`. Blocks are cut into slices of `slice` elements: tile t is slice t of every
// block, empty for blocks that are over by then.

#include <cstddef>
#include <cstdint>

#include "collectives/tiling.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/prepared_plan.hpp"

namespace fabring {

struct Tiling {
  std::uint32_t tiles = 1;
  std::uint32_t depth = 1;  ///< tiles under way at once; local
  std::size_t slice = 0;    ///< elements; with blocks only
};

Tiling choose_tiling(const PreparedPlan& plan, const Call& call, const TilingRules& rules);

}  // namespace fabring
