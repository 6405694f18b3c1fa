#pragma once
// Where the edges of trees lead from node to node: what the price of a tree over several nodes depends on.

#include <cstdint>

namespace fabring::cost {

struct Crossings {
  std::int64_t of_a_node = 0;  ///< that end at the busiest one, in all trees
  std::int64_t on_a_way = 0;   ///< from a rank to the root, the most
};

/// Of the binomial tree (`trees` 1), or of the two in-order binary trees of double_tree.cpp (2), over n ranks. Ranks
/// lie on nodes in blocks, the largest (`most`) first. Kept until this thread asks for another shape: a table prices
/// one for every size.
const Crossings& crossings(std::int64_t n, std::int64_t nodes, std::int64_t most, std::int64_t trees);

}  // namespace fabring::cost
