#include "collectives/prove.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/every_count.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

// Rank 0 sends the second half; rank 1 takes it as the last two quarters.
std::vector<Plan> second_half_as_two_quarters() {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("test", rank, 2, Collective::broadcast);
    const RangeId first = plan.part(0, 0, 2), half = plan.part(0, 1, 2), quarters = plan.parts(0, 2, 4, 4);
    if (rank == 0) {
      plan.send(1, first);
      plan.send(1, half);
    } else {
      plan.recv(0, first);
      plan.recv(0, quarters);
    }
    if (rank == 0) plan.settle(0);
    plans.push_back(std::move(plan).build());
  }
  return plans;
}

TEST(Prove, FindsTheCountAtWhichPlansBreak) {
  const auto plans = second_half_as_two_quarters();
  ASSERT_TRUE(check_plans(plans, std::size_t{1} << 20, ReduceOp::sum)) << "one count hides it";
  const auto proof = prove_plans(plans, ReduceOp::sum);
  ASSERT_FALSE(proof);
  EXPECT_THAT(proof.error().message(),
              AllOf(HasSubstr("with 2 elements: "), HasSubstr("step "), HasSubstr("message 1")));
}

TEST(Prove, CountsAreAroundTheRanksAndAroundAMebi) {
  const auto counts = counts_to_prove(test::plans_of(Algorithm::ring, test::flat(11)));
  for (const std::size_t count : {0, 1, 2, 10, 11, 12, 127, 1 << 20, (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3})
    EXPECT_THAT(counts, Contains(count));
  EXPECT_THAT(counts, Contains((1 << 20) + 10)) << "all remainders of 11 parts";
  EXPECT_THAT(counts_to_prove(test::plans_of({Collective::barrier, Algorithm::binomial}, test::flat(3))),
              testing::ElementsAre(0));
}

TEST(Prove, APeriodIsThatOfAllParts) {
  EXPECT_EQ(period_of_bounds(test::plans_of(Algorithm::ring, test::flat(6)), 100), 6U);
  EXPECT_EQ(period_of_bounds(test::plans_of(Algorithm::halving_doubling, test::flat(8)), 100), 8U);
  EXPECT_EQ(period_of_bounds(test::plans_of(Algorithm::recursive_doubling, test::flat(8)), 100), 1U);
  EXPECT_EQ(period_of_bounds(test::plans_of(Algorithm::ring, test::flat(6)), 5), 0U);
  EXPECT_EQ(period_of_bounds(test::plans_of({Collective::all_gather, Algorithm::ring}, test::flat(6)), 5), 1U);
}

// The second 11th of the first 11th is as long as the 13th of 121 but for 12 elements more than a multiple of 121.
TEST(Prove, LengthsAreProvedAtEveryCount) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("test", rank, 2, Collective::broadcast);
    if (rank == 0) {
      plan.send(1, 0);
      plan.send(1, plan.part(plan.part(0, 0, 11), 1, 11));
      plan.settle(0);
    } else {
      plan.recv(0, 0);
      plan.recv(0, plan.scratch(plan.part(0, 12, 121)));
    }
    plans.push_back(std::move(plan).build());
  }
  for (Plan& plan : plans) plan.largest_message = message_unit;
  for (const std::size_t count : counts_to_prove(plans))
    ASSERT_TRUE(check_plans(plans, count, ReduceOp::sum)) << "none of these shows it";
  const auto proof = prove_plans(plans, ReduceOp::sum);
  ASSERT_FALSE(proof);
  EXPECT_THAT(proof.error().message(), AllOf(HasSubstr("with 12 elements: "), HasSubstr("message 1")));
  EXPECT_TRUE(
      prove_plans(test::plans_of(Algorithm::hierarchical, test::nodes_of({3, 1, 2})), ReduceOp::sum)->at_every_count);
}

// All of them have bounds at each of 2^20 remainders, though no step names them.
TEST(Prove, EveryCountIsNotProvedOfRangesThatTakeHours) {
  PlanBuilder builder("test", 0, 1, Collective::broadcast);
  builder.settle(0);
  std::vector<Plan> plans{std::move(builder).build()};
  for (std::uint32_t i = 0; i < 262'000; ++i) plans[0].ranges.push_back({0, i, i + 1, 1 << 20});
  ASSERT_GT(period_of_bounds(plans, 1 << 20), 0U) << "it is not the period that is too long";
  const auto proof = prove_plans(plans, ReduceOp::sum);
  ASSERT_TRUE(proof) << proof.error().message();
  EXPECT_FALSE(proof->at_every_count);
}

TEST(Prove, SaysInWhichOrderAndHowManyStepsReductionsAre) {
  const auto proof = [](Algorithm algorithm) {
    return *prove_plans(test::plans_of(algorithm, test::flat(4)), ReduceOp::sum);
  };
  EXPECT_TRUE(proof(Algorithm::direct_two_shot).order.in_one_step);
  EXPECT_TRUE(proof(Algorithm::recursive_doubling).order.in_rank_order);
  EXPECT_FALSE(proof(Algorithm::recursive_doubling).order.in_one_step);
  EXPECT_FALSE(proof(Algorithm::ring).order.in_rank_order) << "whatever it is called";
}

TEST(Prove, AtOneCountSaysNothingOfOthers) {
  const auto proof = prove_plans_at(test::plans_of(Algorithm::recursive_doubling, test::flat(4)), 12, ReduceOp::sum);
  ASSERT_TRUE(proof) << proof.error().message();
  EXPECT_EQ(proof->counts, std::vector<std::size_t>{12});
  EXPECT_FALSE(proof->at_every_count);
  EXPECT_EQ(proof->report.critical_path, 2U);
  EXPECT_TRUE(proof->order.in_rank_order);
  EXPECT_FALSE(proof->order.in_one_step);
}

TEST(Prove, EveryFormIsProved) {
  for (const test::Form form : test::all_forms()) {
    for (const auto& nodes : {test::flat(4), test::nodes_of({3, 1, 2})}) {
      const auto plans = test::plans_of(form, nodes);
      if (plans.empty()) continue;
      const auto proof = prove_plans(plans, ReduceOp::sum);
      EXPECT_TRUE(proof) << test::text(form) << ": " << proof.error().message();
    }
  }
}

}  // namespace
}  // namespace fabring
