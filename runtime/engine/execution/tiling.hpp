#pragma once
// Tiling: how long data are cut so that several passes over the plan overlap. Pure functions of what all ranks know
// alike (where only pairs of ranks know lengths, each pair alike).
//
// A vector is cut evenly into `tiles`, or each of its `parts` is (TilingRules::by_parts). Blocks are cut into slices of
// `slice` elements: tile t is slice t of every block, empty for blocks that are over by then. Of several tensors, each
// long one is cut for itself, and all short ones together as if they were one vector (Cuts).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/tiling.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

/// The tiles of a grouped allreduce.
struct Cuts {
  static constexpr std::uint32_t together = ~std::uint32_t{0};
  struct Tile {
    std::uint32_t tensor = together;  ///< of Call::tensors; or a part of those that travel together
    Extent part;                      ///< elements of it
  };
  std::vector<Tile> tiles;
  std::vector<std::uint32_t> short_ones;  ///< tensors that travel together, one after the other
  std::vector<std::size_t> begins;        ///< where each of these begins in what they are together, and the end
  std::uint32_t largest = 0;              ///< tile
};

struct Tiling {
  std::uint32_t tiles = 1;
  std::uint32_t depth = 1;                ///< tiles under way at once; local
  std::size_t slice = 0;                  ///< elements; with blocks only
  std::uint32_t parts = 0;                ///< tile t is slice t of each of so many parts of the vector; 0: part t of it
  std::size_t eager_bytes = 0;            ///< longer messages wait for the receiver's grant
  std::shared_ptr<const Cuts> cuts = {};  ///< of tensors only

  std::uint32_t largest() const { return cuts ? cuts->largest : 0; }  ///< tile
};

/// Are the operands in scratch, where they are packed or converted, instead of in the caller's buffers? Of a grouped
/// allreduce: also those of long tensors?
inline bool is_packed(const Call& call) {
  return call.wire_type.has_value() || (call.tensors && call.op == ReduceOp::premul_sum);
}

/// Is the input multiplied into scratch first, a whole tile of it? (What is packed is multiplied as it is packed.)
inline bool is_scaled(const Call& call) {
  return call.op == ReduceOp::premul_sum && !is_packed(call) &&
         (call.collective == Collective::allreduce || call.collective == Collective::reduce ||
          call.collective == Collective::reduce_scatter);
}

/// Is a whole tile of the operands in scratch, whatever the algorithm keeps there?
inline bool keeps_tiles_in_scratch(const Call& call) { return is_packed(call) || is_scaled(call); }

Tiling choose_tiling(const PreparedPlan& plan, const Call& call, const TilingRules& rules);

}  // namespace fabring
