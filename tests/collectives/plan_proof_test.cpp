#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "collectives/check.hpp"
#include "collectives/ownership.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

class PlanProof : public testing::TestWithParam<test::Form> {};

std::vector<test::NodeOf> worlds_of_nodes() {
  std::vector<test::NodeOf> worlds;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33}) worlds.push_back(test::flat(ranks));
  const auto grid = test::grid_of_worlds();
  worlds.insert(worlds.end(), grid.begin(), grid.end());
  return worlds;
}

std::set<Rank> roots_for(Collective collective, const test::NodeOf& nodes) {
  const auto n = static_cast<Rank>(nodes.size());
  if (!has_root(collective)) return {0};
  std::set<Rank> roots{0, n / 2, n - 1};
  for (Rank root = 0; root < n && n <= 9; ++root) roots.insert(root);
  return roots;
}

std::vector<Counts> counts_for(const Plan& plan, Algorithm algorithm) {
  const auto n = static_cast<std::size_t>(plan.size);
  std::vector<Counts> counts;
  for (const std::size_t count : std::set<std::size_t>{0, 1, n - 1, n, n + 1, 127}) counts.emplace_back(count);
  if (plan.blocks == 0) return counts;
  counts = {Counts(0), Counts(1), Counts(n + 1)};
  if (needs_equal_blocks(plan.collective, algorithm)) return counts;
  counts.emplace_back(test::different_lengths(plan));
  counts.emplace_back(test::skewed_lengths(plan));
  return counts;
}

TEST_P(PlanProof, HoldsOverTheGridOfWorldsRootsCountsAndOperations) {
  const auto [collective, algorithm] = GetParam();
  std::size_t proofs = 0;
  std::size_t steps = 0;
  for (const auto& nodes : worlds_of_nodes()) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      if (op == ReduceOp::avg && !reduces(collective)) continue;
      for (const Rank root : roots_for(collective, nodes)) {
        const auto plans = test::plans_of(GetParam(), nodes, op, root);
        if (plans.empty()) continue;
        for (const Counts& counts : counts_for(plans[0], algorithm)) {
          const auto report = check_plans(plans, counts, op);
          ASSERT_TRUE(report.has_value())
              << report.error().message() << "\n  " << test::text(nodes) << ", root " << root << ", count "
              << counts.uniform << (counts.blocks.empty() ? "" : " (blocks of different lengths)");
          ++proofs;
          steps += report->steps;
        }
      }
    }
  }
  EXPECT_GT(proofs, 20u);
  std::printf("[ %zu proofs, %zu steps ]\n", proofs, steps);
}

TEST_P(PlanProof, HoldsForCountsNoMachineHas) {
  for (const auto& nodes : {test::nodes_of({3, 1, 2}), test::nodes_of({2, 2})}) {
    const auto plans = test::plans_of(GetParam(), nodes);
    if (plans.empty()) continue;
    const std::size_t blocks = std::max<std::size_t>(plans[0].blocks, 1);
    for (const std::size_t count : {std::size_t{1} << 40, ~std::size_t{0} / 2 / blocks}) {
      const auto report = check_plans(plans, count, ReduceOp::sum);
      EXPECT_TRUE(report.has_value()) << report.error().message();
    }
  }
}

const std::vector<test::Form> forms = test::all_forms();
INSTANTIATE_TEST_SUITE_P(Forms, PlanProof, testing::ValuesIn(forms),
                         [](const auto& which) { return test::text(which.param); });

}  // namespace
}  // namespace fabring
