#pragma once
// Worlds of ranks for the tests of plans: how ranks lie on nodes, and all ranks' plans of an algorithm.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/algorithms.hpp"

namespace fabring::test {

using NodeOf = std::vector<int>;

/// Nodes with these numbers of ranks, in the order of the ranks.
inline NodeOf nodes_of(const std::vector<int>& ranks_per_node) {
  NodeOf nodes;
  for (std::size_t node = 0; node < ranks_per_node.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(ranks_per_node[node]), static_cast<int>(node));
  }
  return nodes;
}

inline NodeOf flat(int ranks) { return NodeOf(static_cast<std::size_t>(ranks), 0); }

/// 1 to 5 nodes of 1 to 8 ranks, at most 24 ranks; unequal nodes; nodes whose ranks are interleaved.
inline std::vector<NodeOf> grid_of_worlds() {
  std::vector<NodeOf> worlds;
  for (int nodes = 1; nodes <= 5; ++nodes) {
    for (int local = 1; local <= 8 && nodes * local <= 24; ++local) {
      worlds.push_back(nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), local)));
    }
  }
  for (const auto& shape : std::vector<std::vector<int>>{
           {2, 1}, {1, 2}, {2, 1, 1}, {3, 1, 2}, {1, 4}, {4, 3}, {8, 3}, {5, 7, 2}, {3, 4, 5, 6}, {1, 1, 8}}) {
    worlds.push_back(nodes_of(shape));
  }
  worlds.push_back({0, 1, 0, 1});
  worlds.push_back({1, 0, 1, 0, 1});
  worlds.push_back({7, 3, 3, 7, 5, 3, 7, 3});
  worlds.push_back({0, 1, 2, 0, 1, 2, 0, 1, 0});
  return worlds;
}

inline std::vector<Plan> plans_of(Algorithm algorithm, const NodeOf& node_of, ReduceOp op = ReduceOp::sum) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < static_cast<Rank>(node_of.size()); ++rank) {
    auto plan = make_plan({algorithm, rank, node_of, op});
    EXPECT_TRUE(plan.has_value());
    if (plan) plans.push_back(std::move(*plan));
  }
  return plans;
}

inline std::string text(const NodeOf& node_of) {
  std::string text = "nodes";
  for (const int node : node_of) text += " " + std::to_string(node);
  return text;
}

}  // namespace fabring::test
