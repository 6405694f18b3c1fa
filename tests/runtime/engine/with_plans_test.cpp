// Communicator::with_plans: plans of a text, on real communicators of threads.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/plan_json.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Plan> allreduce_from_outside(Algorithm algorithm, int ranks) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    plans.push_back(*make_plan({algorithm, rank, std::vector<int>(static_cast<std::size_t>(ranks))}));
    plans.back().algorithm = "made elsewhere";
  }
  return plans;
}

double sum_on(Communicator& of, Rank self) {
  double value = self + 1, sum = 0;
  const Status done = of.allreduce(&value, &sum, 1, DataType::float64, ReduceOp::sum);
  EXPECT_TRUE(done.ok()) << done.to_string();
  return sum;
}

TEST(WithPlans, their_operations_run_by_them_and_others_as_on_any) {
  const std::string text = plans_to_json(allreduce_from_outside(Algorithm::ring, 3));
  ThreadWorld(3).run([&](Rank self, Communicator world) {
    auto with = world.with_plans(text, "fast");
    ASSERT_TRUE(with) << with.error().to_string();
    EXPECT_EQ(with->label(), "fast");
    EXPECT_EQ(with->rank(), self);
    double value = 0;
    const auto sum = Operation::allreduce(&value, &value, 1, DataType::float64, ReduceOp::sum);
    EXPECT_EQ(with->explain(sum).algorithm, "made elsewhere");
    EXPECT_NE(world.explain(sum).algorithm, "made elsewhere");
    EXPECT_EQ(sum_on(*with, self), 6);
    EXPECT_EQ(sum_on(world, self), 6);
    int word = self == 2 ? 7 : 0;
    EXPECT_TRUE(with->broadcast(&word, 1, DataType::int32, 2).ok());
    EXPECT_EQ(word, 7);
    auto again = world.with_plans(text);
    ASSERT_TRUE(again) << "several at once: " << again.error().to_string();
    EXPECT_EQ(sum_on(*again, self), 6);
    auto twin = with->duplicate();
    ASSERT_TRUE(twin);
    EXPECT_NE(twin->explain(sum).algorithm, "made elsewhere");
  });
}

TEST(WithPlans, a_part_of_the_ranks_has_plans_of_its_own) {
  const std::string text = plans_to_json(allreduce_from_outside(Algorithm::ring, 2));
  ThreadWorld(3).run([&](Rank self, Communicator world) {
    auto half = world.split(self == 1 ? -1 : 0, 0);
    ASSERT_TRUE(half);
    if (self == 1) return;
    auto with = half->with_plans(text);
    ASSERT_TRUE(with) << with.error().to_string();
    EXPECT_EQ(sum_on(*with, self), 4);
    float data = 1;
    const Reduction in_order = Reduction::user([](void*, const void*, std::size_t, DataType, void*) {}, nullptr, false);
    const Status refused = with->allreduce(&data, &data, 1, DataType::float32, in_order);
    EXPECT_EQ(refused.code(), ErrorCode::unsupported) << refused.to_string();
    EXPECT_EQ(refused.context().rank, self) << "as the whole job counts";
    EXPECT_EQ(refused.context().collective, "allreduce");
  });
}

TEST(WithPlans, what_is_wrong_is_said_on_every_rank_and_harms_nothing) {
  auto wrong = allreduce_from_outside(Algorithm::ring, 3);
  for (Step& step : wrong[1].steps)
    if (step.kind == StepKind::send) step.peer = 0;
  const std::string right = plans_to_json(allreduce_from_outside(Algorithm::ring, 3));
  const std::string other = plans_to_json(allreduce_from_outside(Algorithm::binomial, 3));
  const std::string of_two = plans_to_json(allreduce_from_outside(Algorithm::ring, 2));
  const std::string unproved = plans_to_json(wrong);
  for (Step& step : wrong[1].steps)
    if (step.kind == StepKind::send) step.peer = 5;
  const std::string no_peer = plans_to_json(wrong);
  wrong[1] = wrong[0];
  const std::string rank_0_twice = plans_to_json(wrong);
  ThreadWorld(3).run([&](Rank self, Communicator world) {
    const auto refused = [&](const std::string& text, ErrorCode code, const auto& says) {
      const auto with = world.with_plans(text);
      ASSERT_FALSE(with);
      EXPECT_EQ(with.error().code(), code) << with.error().to_string();
      EXPECT_THAT(with.error().message(), says);
    };
    refused(unproved, ErrorCode::invalid_argument, AllOf(HasSubstr("the plans: not proved"), HasSubstr("step")));
    refused(no_peer, ErrorCode::invalid_argument, AllOf(HasSubstr("the plans: plan 1: "), HasSubstr("no such peer")));
    refused(rank_0_twice, ErrorCode::invalid_argument, HasSubstr("says rank 0 of 3, but is number 1 of 3"));
    refused("[]", ErrorCode::invalid_argument, HasSubstr("no plans"));
    refused("", ErrorCode::invalid_argument, HasSubstr("the plans: "));
    refused(of_two, ErrorCode::invalid_argument, HasSubstr("of 2 ranks, and 'world' has 3"));
    refused(self == 2 ? other : right, ErrorCode::mismatch,
            AllOf(HasSubstr("rank 2 of 'world'"), HasSubstr("not those of rank 0"), HasSubstr("same file")));
    // Only the rank whose text is broken knows how; the others hear of it, and none waits.
    if (self == 0)
      refused("{", ErrorCode::invalid_argument, HasSubstr("the plans: "));
    else
      refused(right, ErrorCode::mismatch, HasSubstr("rank 1 of 'world'"));
    EXPECT_EQ(sum_on(world, self), 6);
  });
}

TEST(WithPlans, are_not_compared_with_what_a_program_gathers) {
  ThreadWorld(2).run([&](Rank self, Communicator world) {
    std::uint64_t mine[2] = {0, 0}, all[4];
    const auto gather = [&] { return world.all_gather(mine, all, 2, DataType::uint64); };
    const Status status = self == 0 ? gather() : world.with_plans("[]").error();
    EXPECT_EQ(self == 0 ? status.code() : world.health().code(), ErrorCode::mismatch) << status.to_string();
    EXPECT_THAT(world.health().message(), HasSubstr(") within with_plans"));
  });
}

TEST(WithPlans, an_empty_communicator_has_none) {
  EXPECT_EQ(Communicator().with_plans("[]").error().code(), ErrorCode::aborted);
}

}  // namespace
}  // namespace fabring::fixture
