// What plans keep in scratch fits there, however many nodes there are and however unequal they are.
#include "collectives/cost/kept_by_hierarchical.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "collectives/cost/message_length.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t long_call = std::uint64_t{1} << 30;

/// All areas of this plan together, for a tile whose longest message on any rank has so many bytes.
std::size_t areas_of(const Plan& plan, double message_bytes) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, static_cast<std::size_t>(message_bytes / longest_message_bytes(plan.largest_message, 1)), extents);
  std::vector<std::size_t> areas(plan.scratch.size());
  scratch_lengths(plan, extents, areas);
  return std::accumulate(areas.begin(), areas.end(), std::size_t{0});
}

std::vector<int> and_one_of(int ranks, std::vector<int> nodes) {
  nodes.push_back(ranks);
  return nodes;
}

struct ManyRanks {
  std::vector<int> nodes;
  std::vector<Rank> ranks;  // whose plans are tried; none: of all
};

TEST(KeptByHierarchical, NoTileOfAnyFormTakesMoreThanHalfOfScratchMemory) {
  Machine machine = *find_machine("100g");
  const std::vector<ManyRanks> worlds{
      {std::vector<int>(256, 2), {0, 1, 201}},
      {std::vector<int>(40, 40), {0, 41}},
      {and_one_of(1, std::vector<int>(17, 8)), {}},
      {and_one_of(8, std::vector<int>(130, 1)), {0, 130, 131, 137}},
      {{200, 150}, {0, 199, 200, 349}},
  };
  for (const auto& [nodes, ranks] : worlds) {
    const test::NodeOf node_of = test::nodes_of(nodes);
    std::vector<Rank> tried = ranks;
    for (Rank rank = 0; ranks.empty() && rank < static_cast<Rank>(node_of.size()); ++rank) tried.push_back(rank);
    for (const test::Form form : test::all_forms()) {
      const auto rules = rules_on(machine, form.collective, name(form.algorithm), shape_of(node_of), long_call);
      for (const Rank rank : tried) {
        const auto plan = make_plan({form.algorithm, rank, node_of, ReduceOp::sum, form.collective});
        if (!plan || plan->scratch.empty()) continue;
        // A fold over unequal runs takes two thirds.
        const std::size_t most =
            form.algorithm == Algorithm::fold ? rules.scratch_bytes * 2 / 3 : rules.scratch_bytes / 2;
        EXPECT_LE(areas_of(*plan, static_cast<double>(rules.segment_bytes)), most)
            << text(form) << ", " << nodes.size() << " nodes, the first of " << nodes[0] << ", rank " << rank;
      }
    }
  }
}

TEST(KeptByHierarchical, IsWhatPlansKeepAtMost) {
  std::vector<test::NodeOf> worlds = test::grid_of_worlds();
  worlds.push_back(test::nodes_of({8, 8, 8, 8, 8, 1}));
  worlds.push_back(test::nodes_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 8}));
  for (const auto& node_of : worlds) {
    for (const test::Form form : test::all_forms()) {
      if (form.algorithm != Algorithm::hierarchical) continue;
      const std::size_t kept = kept_by_hierarchical(form.collective, name(form.algorithm), shape_of(node_of));
      constexpr std::size_t few = 4;
      constexpr double message = 840 * 1024;
      for (const Plan& plan : test::plans_of(form, node_of)) {
        if (plan.largest_message == 0) continue;
        EXPECT_LE(static_cast<double>(areas_of(plan, message)),
                  message * static_cast<double>(kept == 0 ? few : kept) * 1.001)
            << text(form) << ", " << test::text(node_of) << ", rank " << plan.rank;
      }
    }
  }
}

TEST(KeptByHierarchical, AllreduceAndReduceKeepAFewMessagesHoweverUnequalNodesAre) {
  for (const auto& node_of : test::grid_of_worlds()) {
    for (const Collective collective : {Collective::allreduce, Collective::reduce}) {
      const std::size_t most = collective == Collective::allreduce ? 0 : 3;
      for (const Plan& plan : test::plans_of({collective, Algorithm::hierarchical}, node_of))
        EXPECT_LE(plan.scratch.size(), most)
            << name(collective) << ", " << test::text(node_of) << ", rank " << plan.rank;
    }
  }
}

TEST(KeptByHierarchical, LeavesMessagesOfFewNodesAsTheyAre) {
  const TilingRules rules;
  const auto segment = [&](const WorldShape& shape) {
    return for_kept_by_hierarchical(rules, Collective::reduce_scatter, "hierarchical", shape).segment_bytes;
  };
  EXPECT_EQ(segment({128, 64, 2, 2}), rules.segment_bytes);
  EXPECT_EQ(segment({256, 128, 2, 2}), rules.segment_bytes / 2);
  EXPECT_EQ(segment({512, 512, 1, 1}), rules.segment_bytes) << "a ring";
}

// Prices and simulation have no more tiles under way than the engine.
TEST(KeptByHierarchical, HasNoMoreTilesUnderWayThanFit) {
  TilingRules rules;
  rules.depth = 12;
  const auto depth = [&](int nodes, double message) {
    return depth_in_scratch(rules, Collective::reduce_scatter, "hierarchical", {2 * nodes, nodes, 2, 2}, message);
  };
  constexpr double whole = 256 << 10;
  EXPECT_EQ(depth(8, whole), 12u);
  EXPECT_EQ(depth(32, whole), 4u);
  EXPECT_EQ(depth(64, whole), 2u);
  EXPECT_EQ(depth(64, whole / 8), 12u) << "of short messages";
  EXPECT_EQ(depth(512, whole), 1u);
}

}  // namespace
}  // namespace fabring
