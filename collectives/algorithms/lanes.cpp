#include "collectives/algorithms/lanes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace fabring {
namespace {

std::vector<std::vector<Rank>> ranks_by_node(std::span<const int> node_of) {
  std::vector<Rank> order(node_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto node = [&](Rank rank) { return node_of[static_cast<std::size_t>(rank)]; };
  std::stable_sort(order.begin(), order.end(), [&](Rank a, Rank b) { return node(a) < node(b); });
  std::vector<std::vector<Rank>> nodes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || node(order[i]) != node(order[i - 1])) nodes.emplace_back();
    nodes.back().push_back(order[i]);
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return nodes;
}

}  // namespace

std::int64_t lane_count(std::int64_t fewest, std::int64_t most) {
  const auto lanes_of_busiest = [&](std::int64_t count) { return (count + fewest - 1) / fewest; };
  std::int64_t best = fewest;
  for (std::int64_t count = fewest; count <= most; ++count) {
    if (lanes_of_busiest(count) * best <= lanes_of_busiest(best) * count) best = count;
  }
  return best;
}

Lanes make_lanes(std::span<const int> node_of) {
  Lanes lanes;
  lanes.nodes = ranks_by_node(node_of);
  std::int64_t fewest = 0;
  std::int64_t most = 0;
  for (const auto& node : lanes.nodes) {
    const auto ranks = static_cast<std::int64_t>(node.size());
    fewest = fewest == 0 ? ranks : std::min(fewest, ranks);
    most = std::max(most, ranks);
  }
  lanes.count = static_cast<int>(lane_count(fewest, most));
  return lanes;
}

}  // namespace fabring
