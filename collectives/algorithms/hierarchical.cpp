#include <algorithm>
#include <utility>

#include "collectives/algorithms/forms.hpp"
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

/// The lanes of each rank of a node with this many.
std::vector<RangeId> shares_of(PlanBuilder& plan, const Lanes& lanes, int ranks) {
  std::vector<RangeId> shares;
  for (int i = 0; i < ranks; ++i) {
    shares.push_back(plan.parts(plan.whole(), lanes.first_lane(i, ranks), lanes.last_lane(i, ranks), lanes.count));
  }
  return shares;
}

/// Inside a node of several ranks travel the lanes of one rank, between nodes a node's part of one lane.
std::uint64_t longest_message(const Lanes& lanes) {
  const auto part_of = [](std::uint64_t whole, std::uint64_t parts) { return (whole + parts - 1) / parts; };
  const std::uint64_t lane = part_of(message_unit, static_cast<std::uint64_t>(lanes.count));
  std::uint64_t longest = lanes.nodes.size() > 1 ? part_of(lane, lanes.nodes.size()) : 0;
  for (const auto& node : lanes.nodes) {
    if (node.size() == 1) continue;
    longest = std::max(longest, lane * part_of(static_cast<std::uint64_t>(lanes.count), node.size()));
  }
  return longest;
}

}  // namespace

void allreduce_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Lanes lanes = make_lanes(request.node_of);
  const Group node(node_with(lanes, request.node_of, plan.rank()), plan.rank());
  const int ranks = node.size();
  // A lane for each rank: part i of a ring over the node is lane i. Otherwise each rank's lanes go to it directly.
  const bool ring_inside = ranks == lanes.count;
  const auto shares = shares_of(plan, lanes, ranks);
  plan.bound_messages(longest_message(lanes));

  if (ring_inside) {
    ring_reduce_scatter(plan, node, shares);
  } else {
    direct_reduce_scatter(plan, node, shares);
  }
  for (int lane = lanes.first_lane(node.index(), ranks); lane < lanes.last_lane(node.index(), ranks); ++lane) {
    const Group nodes = rail(lanes, lane, plan.rank());
    const auto parts = cut(plan, plan.part(plan.whole(), lane, lanes.count), nodes.size());
    ring_reduce_scatter(plan, nodes, parts);
    finish_if_avg(plan, request.op, parts[at(nodes.index())]);
    ring_all_gather(plan, nodes, parts);
  }
  if (ring_inside) {
    ring_all_gather(plan, node, shares);
  } else {
    direct_all_gather(plan, node, shares);
  }
}

}  // namespace fabring
