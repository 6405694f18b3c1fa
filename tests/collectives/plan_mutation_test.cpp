#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "collectives/check.hpp"
#include "tests/collectives/plan_mutations.hpp"
#include "tests/collectives/plan_oracle.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using test::Fault;

struct Count {
  int mutants = 0;
  int caught = 0;
  int equivalent = 0;
};

/// Survivors that do no harm: a dependency that another path implies, and an order of operands that is only another
/// right one because a single rank computes it for all. The first is proved, the second left to the oracle.
bool provably_equivalent(Fault fault, const std::vector<Plan>& plans, const Plan& original, std::size_t count,
                         bool avg) {
  if (fault == Fault::drop_dependency) {
    return test::orders_at_least(plans[static_cast<std::size_t>(original.rank)], original);
  }
  if (fault != Fault::flip_operands) return false;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    if (!test::run_oracle(plans, count, seed % 2 == 0, avg, seed).empty()) return false;
  }
  return true;
}

TEST(PlanMutation, TheCheckCatchesEverySingleFaultThatMatters) {
  constexpr std::size_t count = 61;  // no part of any range is empty
  constexpr int mutants_each = 14;
  const std::vector<test::NodeOf> worlds{test::flat(2),          test::flat(3),
                                         test::flat(5),          test::flat(8),
                                         test::nodes_of({2, 2}), test::nodes_of({3, 1, 2}),
                                         test::nodes_of({1, 4}), test::nodes_of({2, 1, 1}),
                                         {0, 1, 0, 1},           test::nodes_of({4, 3})};
  std::array<Count, test::fault_count> counts{};
  std::mt19937_64 random(20250101);
  for (const auto& nodes : worlds) {
    for (const Algorithm algorithm : all_algorithms()) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
        auto plans = test::plans_of(algorithm, nodes, op);
        ASSERT_TRUE(check_allreduce(plans, count, op).has_value());
        for (int i = 0; i < mutants_each * test::fault_count; ++i) {
          const auto fault = static_cast<Fault>(i % test::fault_count);
          Plan& victim = plans[random() % plans.size()];
          const Plan original = victim;
          const auto mutation = test::mutate(victim, fault, random);
          if (!mutation) continue;
          Count& tally = counts[static_cast<std::size_t>(fault)];
          ++tally.mutants;
          const auto report = check_allreduce(plans, count, op);
          if (!report) {
            ++tally.caught;
            EXPECT_FALSE(report.error().message().empty());
          } else if (provably_equivalent(fault, plans, original, count, op == ReduceOp::avg)) {
            ++tally.equivalent;
          } else {
            ADD_FAILURE() << "survived: " << mutation->what << " of " << name(algorithm) << ", " << name(op) << ", "
                          << test::text(nodes);
          }
          victim = original;
        }
      }
    }
  }
  int mutants = 0;
  for (int i = 0; i < test::fault_count; ++i) {
    const Count& tally = counts[static_cast<std::size_t>(i)];
    mutants += tally.mutants;
    std::printf("[ %-16s %5d mutants, %5d caught, %4d equivalent ]\n",
                std::string(test::name(static_cast<Fault>(i))).c_str(), tally.mutants, tally.caught, tally.equivalent);
    EXPECT_GT(tally.caught, 0) << test::name(static_cast<Fault>(i));
  }
  EXPECT_GT(mutants, 5000);
}

}  // namespace
}  // namespace fabring
