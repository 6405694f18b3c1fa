#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "collectives/check.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

class PlanProof : public testing::TestWithParam<Algorithm> {};

TEST_P(PlanProof, HoldsOverTheGridOfWorldsCountsAndOperations) {
  std::size_t proofs = 0;
  std::size_t steps = 0;
  for (const auto& nodes : test::grid_of_worlds()) {
    const std::size_t n = nodes.size();
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      const auto plans = test::plans_of(GetParam(), nodes, op);
      for (const std::size_t count : std::set<std::size_t>{0, 1, 2, 7, n - 1, n, n + 1, 64, 129}) {
        const auto report = check_allreduce(plans, count, op);
        ASSERT_TRUE(report.has_value()) << report.error().message() << "\n  " << test::text(nodes) << ", count "
                                        << count;
        ++proofs;
        steps += report->steps;
      }
    }
  }
  std::printf("[ %zu proofs, %zu steps ]\n", proofs, steps);
}

TEST_P(PlanProof, HoldsForCountsNoMachineHas) {
  const auto plans = test::plans_of(GetParam(), test::nodes_of({3, 1, 2}));
  for (const std::size_t count : {std::size_t{1} << 40, ~std::size_t{0} / 2}) {
    const auto report = check_allreduce(plans, count, ReduceOp::sum);
    EXPECT_TRUE(report.has_value()) << report.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, PlanProof, testing::ValuesIn(all_algorithms().begin(), all_algorithms().end()),
                         [](const auto& which) { return std::string(name(which.param)); });

}  // namespace
}  // namespace fabring
