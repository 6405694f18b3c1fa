// What the engine looks up in a plan once.

#include <gmock/gmock.h>

#include "tests/runtime/engine/prepared.hpp"

namespace fabring {
namespace {

using fixture::prepared;

TEST(PreparedPlan, numbers_messages_by_peer) {
  const PreparedPlan ring = prepared(Algorithm::ring, 1, {0, 0, 0, 0});
  ASSERT_EQ(ring.peers.size(), 2u);
  EXPECT_EQ(ring.peer_index(1), -1);
  EXPECT_EQ(ring.peers[static_cast<std::size_t>(ring.peer_index(2))].sends.size(), 6u);
  EXPECT_EQ(ring.peers[static_cast<std::size_t>(ring.peer_index(0))].receives.size(), 6u);
  EXPECT_TRUE(ring.peers[static_cast<std::size_t>(ring.peer_index(0))].sends.empty());
  EXPECT_EQ(ring.slot_receives.size(), 3u);
  EXPECT_FALSE(ring.first_steps.empty());
  for (StepId id : ring.first_steps) EXPECT_EQ(ring.plan.steps[id].dependencies, 0u);
}

TEST(PreparedPlan, knows_where_a_result_goes_as_soon_as_it_is_there) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
    const PreparedPlan two_shot(*make_plan({Algorithm::direct_two_shot, 1, std::vector<int>(4, 0), op}));
    int reduces = 0;
    for (StepId id = 0; id < two_shot.plan.steps.size(); ++id) {
      const PreparedPlan::Onward& onward = two_shot.onward[id];
      if (two_shot.plan.steps[id].kind != StepKind::reduce) {
        EXPECT_TRUE(onward.sends.empty());
        continue;
      }
      ++reduces;
      EXPECT_EQ(onward.sends.size(), 3u);
      EXPECT_EQ(onward.finish != PreparedPlan::none, op == ReduceOp::avg);
    }
    EXPECT_EQ(reduces, 1);
  }
}

// Of a block that something else reads or waits for, a part would go out too early.
// Its own block is copied to where it has lain already, if both buffers are one.
TEST(PreparedPlan, lends_what_it_sends_though_it_copies_that_to_its_place) {
  const auto request = [](Collective collective) {
    return PlanRequest{Algorithm::ring, 0, {0, 0}, ReduceOp::sum, collective, 0};
  };
  const Plan made = *make_plan(request(Collective::all_gather));
  const PreparedPlan gathers(made), from_outside(made, PreparedPlan::Origin::from_outside);
  ASSERT_EQ(made.steps[0].kind, StepKind::send);
  ASSERT_GT(made.steps[0].successor_count, 0u) << "this test is about nothing";
  EXPECT_TRUE(gathers.may_be_lent[0]);
  EXPECT_TRUE(gathers.is_readable);
  EXPECT_FALSE(from_outside.may_be_lent[0]);
  EXPECT_FALSE(from_outside.is_readable);
  EXPECT_FALSE(PreparedPlan(*make_plan(request(Collective::allreduce))).is_readable);
}

TEST(PreparedPlan, says_nothing_goes_on_that_waits_for_more_than_its_reduction) {
  for (const Algorithm algorithm : all_algorithms()) {
    if (!has_algorithm(Collective::allreduce, algorithm)) continue;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      for (const auto& node_of : std::vector<std::vector<int>>{{0, 0}, {0, 0, 0}, {0, 0, 1, 1}, {0, 0, 0, 1, 1, 1}}) {
        const PreparedPlan plan(*make_plan({algorithm, 0, node_of, op}));
        for (StepId id = 0; id < plan.plan.steps.size(); ++id) {
          const PreparedPlan::Onward& onward = plan.onward[id];
          const StepId last = onward.finish != PreparedPlan::none ? onward.finish : id;
          for (const StepId send : onward.sends) {
            EXPECT_EQ(plan.plan.steps[send].from, plan.plan.steps[last].to);
            EXPECT_EQ(plan.plan.steps[send].dependencies, 1u);
          }
          if (onward.sends.empty() || onward.finish != PreparedPlan::none) continue;
          const Step& step = plan.plan.steps[id];
          for (std::uint32_t i = 0; i < step.successor_count; ++i)  // what goes on so is a partial result
            EXPECT_NE(plan.plan.steps[plan.plan.successors[step.first_successor + i]].kind, StepKind::finish)
                << name(algorithm);
        }
      }
  }
}

TEST(PreparedPlan, of_nothing_is_nothing) {
  const PreparedPlan nothing{Plan{}};
  EXPECT_EQ(nothing.plan.largest_message, 0u);
  EXPECT_TRUE(nothing.first_steps.empty());
}

}  // namespace
}  // namespace fabring
