#pragma once
// Tiling: how long a vector is cut so that several passes over the plan overlap. A pure function of what all ranks know
// alike.

#include <cstddef>

#include "runtime/engine/execution.hpp"

namespace fabring {

struct TilingRules {
  std::size_t segment_bytes = std::size_t{256} << 10;  ///< largest message
  std::size_t smallest_bytes = std::size_t{64} << 10;  ///< messages are not cut below this to gain overlap
  std::uint32_t depth = 3;                             ///< tiles in flight
};

Tiling choose_tiling(const PreparedPlan& plan, std::size_t count, std::size_t element_bytes, const TilingRules& rules);

}  // namespace fabring
