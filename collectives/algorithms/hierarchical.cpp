#include <utility>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

const std::vector<Rank>& node_with(const Lanes& lanes, std::span<const int> node_of, Rank rank) {
  const auto same_node = [&](const auto& node) {
    return node_of[static_cast<std::size_t>(node.front())] == node_of[static_cast<std::size_t>(rank)];
  };
  std::size_t i = 0;
  while (!same_node(lanes.nodes[i])) ++i;
  return lanes.nodes[i];
}

/// The ranks that have this lane, one per node.
Group rail(const Lanes& lanes, int lane, Rank self) {
  std::vector<Rank> ranks;
  ranks.reserve(lanes.nodes.size());
  for (const auto& node : lanes.nodes) {
    ranks.push_back(node[static_cast<std::size_t>(lanes.position_of(lane, static_cast<int>(node.size())))]);
  }
  return {std::move(ranks), self};
}

}  // namespace

void hierarchical(PlanBuilder& plan, ReduceOp op, std::span<const int> node_of) {
  const Lanes lanes = make_lanes(node_of);
  const Group node(node_with(lanes, node_of, plan.rank()), plan.rank());
  const int ranks = node.size();
  // A lane for each rank: part i of a ring over the node is lane i. Otherwise each rank's lanes go to it directly.
  const bool ring_inside = ranks == lanes.count;
  std::vector<RangeId> shares;
  for (int i = 0; i < ranks; ++i) {
    shares.push_back(plan.parts(plan.whole(), lanes.first_lane(i, ranks), lanes.last_lane(i, ranks), lanes.count));
  }

  if (ring_inside) {
    ring_reduce_scatter(plan, node, plan.whole());
  } else {
    direct_reduce_scatter(plan, node, shares);
  }
  for (int lane = lanes.first_lane(node.index(), ranks); lane < lanes.last_lane(node.index(), ranks); ++lane) {
    const Group nodes = rail(lanes, lane, plan.rank());
    const RangeId range = plan.part(plan.whole(), lane, lanes.count);
    const RangeId mine = ring_reduce_scatter(plan, nodes, range);
    finish_if_avg(plan, op, mine);
    ring_all_gather(plan, nodes, range);
  }
  if (ring_inside) {
    ring_all_gather(plan, node, plan.whole());
  } else {
    direct_all_gather(plan, node, shares);
  }
}

}  // namespace fabring
