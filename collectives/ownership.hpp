#pragma once
// Who has what before and after a collective: the blocks of its input and output that belong to a rank. Plans that move
// one vector (Plan::blocks == 0) are one block, number 0.

#include <cstdint>

#include "collectives/plan.hpp"
#include "fabring/types.hpp"

namespace fabring {

/// Blocks [first, last).
struct BlockSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool empty() const { return first >= last; }
  bool contains(BlockSpan other) const { return other.empty() || (first <= other.first && other.last <= last); }
};

/// Plan::blocks of a collective: 0, n, or 2n for alltoall.
std::uint32_t block_count(Collective collective, int ranks);
/// Blocks that the bytes of a call are, wherever a size is one number (prices, tables, `fabring perf`): 1 for a vector,
/// n for blocks; of an alltoall n too, as input and output, which its plan counts, are as long.
std::uint32_t blocks_of_call(const Plan& plan);
bool has_root(Collective collective);  ///< reduce, broadcast, gather, scatter
bool reduces(Collective collective);   ///< allreduce, reduce, reduce_scatter

/// What this rank may read of its input, and must write and may read of its output.
BlockSpan input_blocks(const Plan& plan);
BlockSpan output_blocks(const Plan& plan);

/// The blocks that `range` has something of; none for a range of no parts.
BlockSpan blocks_of(const Plan& plan, RangeId range);

}  // namespace fabring
