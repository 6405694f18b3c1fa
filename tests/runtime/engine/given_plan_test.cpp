// Plans from outside over the simulated fabric: those of every algorithm, by a name that the engine does not know; and
// ranks that run other ones.
#include "runtime/engine/plans/given_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/algorithm_cases.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<Plan> plans_of(Collective collective, Algorithm algorithm, int ranks, ReduceOp op, Rank root) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto plan = make_plan({algorithm, rank, std::vector<int>(static_cast<std::size_t>(ranks)), op, collective, root});
    if (!plan) return {};
    plan->algorithm = "from outside";
    plans.push_back(std::move(*plan));
  }
  return plans;
}

void give(SimWorld& world, const std::vector<Plan>& plans, ReduceOp op, Rank only = -1) {
  const auto proof = prove_plans(plans, op);
  ASSERT_TRUE(proof) << proof.error().message();
  for (Rank rank = 0; rank < static_cast<Rank>(plans.size()); ++rank)
    if (only < 0 || rank == only)
      world.communicator(rank)->given = GivenPlan::make(plans, *proof, rank, plans[0].algorithm);
}

class GivenPlansOf : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(GivenPlansOf, any_request_is_right_on_every_rank) {
  const auto [collective, algorithm] = GetParam();
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      if (op == ReduceOp::avg && !reduces(collective)) continue;
      const Rank root = has_root(collective) ? ranks - 1 : 0;
      const auto plans = plans_of(collective, algorithm, ranks, op, root);
      if (plans.empty()) continue;
      for (const std::uint64_t seed : seeds(1, 1)) {
        std::mt19937_64 chance(seed + static_cast<std::uint64_t>(ranks) * 977);
        SimWorldOptions options = any_world(ranks, seed + 11);
        options.reproducible = false;
        SimWorld world(options);
        give(world, plans, op);
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{97}, std::size_t{1000}}) {
          Request what = any_request(collective, ranks, count, chance);
          what.counts.clear();
          what.apart = false;
          what.root = root;
          const bool other = what.op == ReduceOp::user || (what.op == ReduceOp::avg) != (op == ReduceOp::avg);
          if (reduces(collective) && other) {
            what.op = op;
            what.type = DataType::float32;
          }
          world.everyone_calls_soon(what, std::chrono::microseconds(200));
        }
        if (!world.run()) return;
        world.expect_all_ok();
        for (const auto& operation : world.operations())
          EXPECT_THAT(operation->execution->call().describe(), HasSubstr("plans from a file"));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GivenPlansOf, ::testing::ValuesIn(algorithm_cases()), name_of_case<AlgorithmCase>);

TEST(GivenPlan, whoever_runs_other_plans_is_found_out) {
  const auto plans = plans_of(Collective::allreduce, Algorithm::ring, 2, ReduceOp::sum, 0);
  SimWorld world({.ranks = 2, .seed = 5});
  give(world, plans, ReduceOp::sum, 1);
  world.everyone_calls({.count = 100});
  if (!world.run()) return;
  for (const auto& operation : world.operations()) {
    EXPECT_EQ(operation->status().code(), ErrorCode::mismatch);
    EXPECT_THAT(operation->status().message(),
                AllOf(HasSubstr("sum, ring)"), HasSubstr("sum, plans from a file)"), HasSubstr("rank 0")));
  }
}

// The table chooses for them, as everywhere.
TEST(GivenPlan, other_calls_are_as_ever) {
  const auto plans = plans_of(Collective::broadcast, Algorithm::chain, 3, ReduceOp::sum, 1);
  SimWorld world({.ranks = 3, .seed = 6});
  give(world, plans, ReduceOp::sum);
  world.everyone_calls({.count = 100});
  world.everyone_calls({.count = 100, .collective = Collective::broadcast, .root = 0});
  world.everyone_calls({.count = 100, .collective = Collective::broadcast, .root = 1});
  if (!world.run()) return;
  world.expect_all_ok();
  for (const auto& operation : world.operations())
    EXPECT_EQ(operation->execution->call().given != nullptr,
              operation->what.collective == Collective::broadcast && operation->what.root == 1);
}

// Rank 0 gets the vector of rank 1 where its own was, which rank 1 may not have read: it was sent before that came.
TEST(GivenPlan, an_answer_is_not_taken_to_be_made_of_what_was_sent) {
  PlanBuilder plan("by hand", 0, 2);
  const Block own = plan.scratch(0);
  plan.copy(own, plan.input(0));
  plan.send(1, plan.input(0));
  plan.recv(1, plan.output(0));
  const Block both[] = {own, plan.output(0)};
  plan.reduce(plan.output(0), both);
  const Plan made = std::move(plan).build();
  ASSERT_EQ(made.steps[1].kind, StepKind::send);
  ASSERT_EQ(made.steps[2].kind, StepKind::recv);
  const PreparedPlan of_algorithm(made), from_outside(made, PreparedPlan::Origin::from_outside);
  EXPECT_TRUE(of_algorithm.comes_back(1, 2)) << "this test is about nothing";
  EXPECT_FALSE(from_outside.comes_back(1, 2));
  EXPECT_FALSE(from_outside.may_be_lent[1]) << "the receive waits for it";
}

TEST(GivenPlan, what_comes_to_be_reduced_later_does_not_stay_with_its_sender) {
  Plan made = *make_plan({Algorithm::direct_two_shot, 0, {0, 0, 0}});
  const PreparedPlan of_algorithm(made), from_outside(made, PreparedPlan::Origin::from_outside);
  const auto stays = [](const PreparedPlan& plan) { return std::ranges::count(plan.may_stay, true); };
  EXPECT_GT(stays(of_algorithm), 0);
  EXPECT_EQ(stays(from_outside), 0);
  for (const PreparedPlan::Onward& onward : from_outside.onward) EXPECT_TRUE(onward.sends.empty());
}

TEST(GivenPlan, says_what_it_cannot_do) {
  const auto plans = plans_of(Collective::allreduce, Algorithm::ring, 3, ReduceOp::sum, 0);
  const auto given = GivenPlan::make(plans, *prove_plans(plans, ReduceOp::sum), 0, "ring");
  Call call;
  EXPECT_TRUE(given->is_for(call));
  EXPECT_EQ(given->why_not(call, {}), "");
  call.commutes = false;
  EXPECT_THAT(given->why_not(call, {}), HasSubstr("does not commute"));
  call.commutes = true;
  Config config;
  config.reproducible = true;
  EXPECT_THAT(given->why_not(call, config), HasSubstr("FABRING_REPRODUCIBLE"));
  call.type = DataType::int32;
  EXPECT_EQ(given->why_not(call, config), "") << "nothing is rounded";
  call.op = ReduceOp::avg;
  EXPECT_FALSE(given->is_for(call));
  const auto direct = plans_of(Collective::allreduce, Algorithm::direct_one_shot, 3, ReduceOp::sum, 0);
  Call of_any;
  of_any.commutes = false;
  EXPECT_EQ(GivenPlan::make(direct, *prove_plans(direct, ReduceOp::sum), 0, "")->why_not(of_any, config), "");
}

}  // namespace
}  // namespace fabring::fixture
