#pragma once
// Where the edges of trees lead from node to node: what the price of a tree over several nodes depends on.

#include <cstdint>

#include "collectives/cost/node_blocks.hpp"

namespace fabring::cost {

enum class Trees : std::uint8_t {
  binomial,
  two_binary,            ///< the two in-order binary trees of double_tree.cpp
  two_binary_below_root  ///< the same over all ranks but one, which is above both: of a broadcast
};

struct Crossings {
  std::int64_t of_a_node = 0;    ///< edges from node to node that end at the busiest one, in all trees
  std::int64_t to_children = 0;  ///< of those the ones that lead down, at the node that has most of these
  std::int64_t on_a_way = 0;     ///< from a rank to the root, the most
  std::int64_t depth = 0;        ///< edges on the longest way, crossing or not
};

/// Kept until this thread asks for another shape: a table prices one for every size.
const Crossings& crossings(const NodeBlocks& blocks, Trees trees);

}  // namespace fabring::cost
