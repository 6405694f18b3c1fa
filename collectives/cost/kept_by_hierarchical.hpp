#pragma once
// What hierarchical plans keep in scratch, in closed form. It follows from how many nodes there are and how large they
// are, which tiling.hpp does not know.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/cost/machine.hpp"

namespace fabring {

/// How many messages of a tile's greatest length the areas of no rank are longer than, together. 0: of another
/// algorithm, or it keeps nothing or a few.
std::size_t kept_by_hierarchical(Collective collective, std::string_view algorithm, const WorldShape& shape);

/// The rules with messages short enough that those areas take half of scratch memory at most.
TilingRules for_kept_by_hierarchical(TilingRules rules, Collective collective, std::string_view algorithm,
                                     const WorldShape& shape);

/// How many tiles are under way of those whose longest message has `message_bytes`: rules.depth, or fewer if the areas
/// of so many do not fit into scratch memory.
std::uint32_t depth_in_scratch(const TilingRules& rules, Collective collective, std::string_view algorithm,
                               const WorldShape& shape, double message_bytes);

}  // namespace fabring
