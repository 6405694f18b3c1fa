#include "collectives/algorithms/node_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/algorithms/lanes.hpp"

namespace fabring {
namespace {

std::vector<Rank> ranks_in_node_order(std::span<const int> node_of) {
  std::vector<Rank> ranks(node_of.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (std::is_sorted(node_of.begin(), node_of.end())) return ranks;  // the usual case
  ranks.clear();
  for (const auto& node : make_lanes(node_of).nodes) ranks.insert(ranks.end(), node.begin(), node.end());
  return ranks;
}

}  // namespace

Group in_node_order(const PlanBuilder& plan, std::span<const int> node_of) {
  return {ranks_in_node_order(node_of), plan.rank()};
}

Group from_root(const PlanBuilder& plan, std::span<const int> node_of) {
  std::vector<Rank> ranks = ranks_in_node_order(node_of);
  const auto node = [&](Rank rank) { return node_of[static_cast<std::size_t>(rank)]; };
  const auto beside_root = [&](Rank rank) { return node(rank) == node(plan.root()); };
  std::rotate(ranks.begin(), std::find_if(ranks.begin(), ranks.end(), beside_root), ranks.end());
  const auto others = std::find_if_not(ranks.begin(), ranks.end(), beside_root);
  std::rotate(ranks.begin(), std::find(ranks.begin(), others, plan.root()), others);
  return {std::move(ranks), plan.rank()};
}

}  // namespace fabring
