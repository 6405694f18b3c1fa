#pragma once
// Which exchanges between ranks whose numbers differ in one bit lead from node to node: what the price of halving and
// doubling depends on where nodes are no blocks of 2^k ranks.

#include <array>
#include <cstdint>

#include "collectives/cost/node_blocks.hpp"

namespace fabring::cost {

struct ExchangeCrossings {
  /// By bit: of the node that has most, the ranks whose partner is on another. Ranks that are no power of two are
  /// paired first (Folded in algorithms/pieces.hpp), and one of each pair takes part.
  std::array<std::int64_t, 32> flows{};
  std::int64_t paired = 0;  ///< pairs on two nodes, of the node that has most
};

/// Kept until this thread asks for another shape.
const ExchangeCrossings& exchange_crossings(const NodeBlocks& blocks);

}  // namespace fabring::cost
