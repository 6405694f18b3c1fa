#include "tests/collectives/plan_oracle.hpp"

#include <gtest/gtest.h>

#include "collectives/ownership.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

// The check says the plans are right; running them with real data in random orders must agree.
TEST(PlanOracle, RunsEveryFormToItsRightResultOnAllRanks) {
  const std::vector<test::NodeOf> worlds{test::flat(1),
                                         test::flat(2),
                                         test::flat(3),
                                         test::flat(4),
                                         test::flat(6),
                                         test::nodes_of({2, 2}),
                                         test::nodes_of({3, 1, 2}),
                                         test::nodes_of({1, 4}),
                                         {0, 1, 2, 0, 1, 2, 0, 1, 0}};
  std::uint64_t seed = 1;
  for (const auto& nodes : worlds) {
    for (const test::Form form : test::all_forms()) {
      for (const bool avg : {false, true}) {
        if (avg && !reduces(form.collective)) continue;
        const auto root = static_cast<Rank>(seed % nodes.size());
        const auto plans = test::plans_of(form, nodes, avg ? ReduceOp::avg : ReduceOp::sum, root);
        if (plans.empty()) continue;
        std::vector<Counts> counts{Counts(0), Counts(1), Counts(5), Counts(13)};
        if (plans[0].blocks != 0 && !needs_equal_blocks(form.collective, form.algorithm)) {
          counts.emplace_back(test::different_lengths(plans[0]));
        }
        for (const Counts& count : counts) {
          for (const bool in_place : {false, true}) {
            ASSERT_EQ(test::run_oracle(plans, count, in_place, avg && nodes.size() > 1, ++seed), "")
                << test::text(form) << " " << test::text(nodes) << " root " << root << " count " << count.uniform
                << " seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fabring
