#pragma once
// Node order: the ranks of each node one after the other, nodes by their lowest rank. Flat algorithms that owe nothing
// to the order of the ranks, and whose messages go to neighbours, go by it, so that a launcher that deals ranks to
// hosts in turn costs nothing. Where the ranks of each node are neighbours it is the order of the ranks. Internal to
// collectives/.

#include <span>

#include "collectives/builder.hpp"

namespace fabring {

/// All ranks.
Group in_node_order(const PlanBuilder& plan, std::span<const int> node_of);
/// The root, the ranks beside it on its node, then the other nodes from the next one on: a tree from the root down
/// leaves its node as seldom as if the root were the first rank there.
Group from_root(const PlanBuilder& plan, std::span<const int> node_of);

}  // namespace fabring
