#pragma once
// Worlds of ranks for the tests of plans: how ranks lie on nodes, and all ranks' plans of an algorithm.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
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

/// 1 to 5 nodes of 1 to 8 ranks, at most 24 ranks, and 6 to 16 nodes of few ranks (hierarchical plans are others above
/// 4 nodes); unequal nodes; nodes whose ranks are interleaved.
inline std::vector<NodeOf> grid_of_worlds() {
  std::vector<NodeOf> worlds;
  for (int nodes = 1; nodes <= 5; ++nodes) {
    for (int local = 1; local <= 8 && nodes * local <= 24; ++local) {
      worlds.push_back(nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), local)));
    }
  }
  for (const auto& shape : std::vector<std::vector<int>>{{2, 1},
                                                         {1, 2},
                                                         {2, 1, 1},
                                                         {3, 1, 2},
                                                         {1, 4},
                                                         {4, 3},
                                                         {8, 3},
                                                         {5, 7, 2},
                                                         {3, 4, 5, 6},
                                                         {1, 1, 8},
                                                         {2, 2, 2, 2, 2, 2},
                                                         {3, 3, 3, 3, 3, 3, 3, 3},
                                                         {2, 2, 2, 2, 2, 2, 2, 2, 2},
                                                         {1, 2, 1, 3, 1, 2},
                                                         {3, 2, 4, 2, 3, 1, 2, 3},
                                                         {2, 1, 2, 1, 1, 3, 1, 2, 4},
                                                         {4, 1, 1, 1, 1}}) {
    worlds.push_back(nodes_of(shape));
  }
  worlds.push_back(nodes_of(std::vector<int>(16, 2)));
  worlds.push_back({0, 1, 0, 1});
  worlds.push_back({1, 0, 1, 0, 1});
  worlds.push_back({7, 3, 3, 7, 5, 3, 7, 3});
  worlds.push_back({0, 1, 2, 0, 1, 2, 0, 1, 0});
  worlds.push_back({4, 1, 6, 0, 1, 2, 5, 4, 3, 0, 6, 2, 6});
  return worlds;
}

/// A collective by an algorithm it has.
struct Form {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
};

inline std::string text(Form form) {
  return std::string(name(form.collective)) + "_by_" + std::string(name(form.algorithm));
}
inline void PrintTo(Form form, std::ostream* out) { *out << text(form); }

inline std::vector<Form> all_forms() {
  std::vector<Form> forms;
  for (int collective = 0; collective < collective_count; ++collective) {
    for (const Algorithm algorithm : all_algorithms()) {
      const Form form{static_cast<Collective>(collective), algorithm};
      if (has_algorithm(form.collective, algorithm)) forms.push_back(form);
    }
  }
  return forms;
}

/// All ranks' plans; none if the algorithm does not do this number of ranks.
inline std::vector<Plan> plans_of(Form form, const NodeOf& node_of, ReduceOp op = ReduceOp::sum, Rank root = 0) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < static_cast<Rank>(node_of.size()); ++rank) {
    auto plan = make_plan({form.algorithm, rank, node_of, op, form.collective, root});
    if (!plan && rank == 0 && plan.error().code() == ErrorCode::unsupported) return {};
    EXPECT_TRUE(plan.has_value()) << text(form) << ": " << plan.error().message();
    if (plan) plans.push_back(std::move(*plan));
  }
  return plans;
}

inline std::vector<Plan> plans_of(Algorithm algorithm, const NodeOf& node_of, ReduceOp op = ReduceOp::sum) {
  return plans_of({Collective::allreduce, algorithm}, node_of, op);
}

/// Lengths of blocks that are all different, for a collective over n ranks: those with blocks only.
inline std::vector<std::size_t> different_lengths(const Plan& plan) {
  const auto n = static_cast<std::size_t>(plan.size);
  std::vector<std::size_t> lengths(plan.collective == Collective::alltoall ? n * n : plan.blocks);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 3 + (i * 7) % (lengths.size() * 7 + 1);
  return lengths;
}

/// The same with every third block empty and one much longer than all others.
inline std::vector<std::size_t> skewed_lengths(const Plan& plan) {
  std::vector<std::size_t> lengths = different_lengths(plan);
  for (std::size_t i = 0; i < lengths.size(); i += 3) lengths[i] = 0;
  if (!lengths.empty()) lengths[lengths.size() / 2] = 5000;
  return lengths;
}

inline std::string text(const NodeOf& node_of) {
  std::string text = "nodes";
  for (const int node : node_of) text += " " + std::to_string(node);
  return text;
}

}  // namespace fabring::test
