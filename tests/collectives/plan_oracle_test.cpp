#include "tests/collectives/plan_oracle.hpp"

#include <gtest/gtest.h>

#include "collectives/check.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

// The check says the plans are right; running them with real data in random orders must agree.
TEST(PlanOracle, RunsEveryAlgorithmToTheSameRightResultOnAllRanks) {
  const std::vector<test::NodeOf> worlds{test::flat(1),          test::flat(2),
                                         test::flat(3),          test::flat(6),
                                         test::nodes_of({2, 2}), test::nodes_of({3, 1, 2}),
                                         test::nodes_of({1, 4}), {0, 1, 2, 0, 1, 2, 0, 1, 0}};
  std::uint64_t seed = 1;
  for (const auto& nodes : worlds) {
    for (const Algorithm algorithm : all_algorithms()) {
      for (const bool avg : {false, true}) {
        const auto plans = test::plans_of(algorithm, nodes, avg ? ReduceOp::avg : ReduceOp::sum);
        for (const std::size_t count : {0, 1, 5, 13}) {
          for (const bool in_place : {false, true}) {
            ASSERT_EQ(test::run_oracle(plans, count, in_place, avg && nodes.size() > 1, ++seed), "")
                << name(algorithm) << " " << test::text(nodes) << " count " << count << " seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fabring
