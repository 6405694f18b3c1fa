#include "collectives/builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <set>

#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The steps that `step` waits for.
std::vector<StepId> waits_for(const Plan& plan, StepId step) {
  std::vector<StepId> result;
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    for (std::uint32_t i = 0; i < plan.steps[id].successor_count; ++i) {
      if (plan.successors[plan.steps[id].first_successor + i] == step) result.push_back(id);
    }
  }
  EXPECT_EQ(result.size(), plan.steps[step].dependencies);
  return result;
}

TEST(Group, WrapsAroundInBothDirections) {
  const Group group({4, 2, 9}, 2);
  EXPECT_EQ(group.index(), 1);
  EXPECT_EQ(group.next(), 9);
  EXPECT_EQ(group.previous(), 4);
  EXPECT_EQ(group.at(-1), 9);
  EXPECT_EQ(group.at(-4), 9);
  EXPECT_EQ(group.at(5), 9);
}

TEST(PlanBuilder, TheSamePartHasOneIdAndAllPartsAreTheRangeItself) {
  PlanBuilder plan("test", 0, 2);
  const RangeId half = plan.part(plan.whole(), 1, 2);
  EXPECT_EQ(plan.part(plan.whole(), 1, 2), half);
  EXPECT_NE(plan.part(plan.whole(), 0, 2), half);
  EXPECT_NE(plan.part(plan.whole(), 1, 3), half);
  EXPECT_EQ(plan.parts(half, 0, 5, 5), half);
  EXPECT_EQ(plan.parts(plan.whole(), 1, 3, 4), plan.parts(plan.whole(), 1, 3, 4));
  EXPECT_TRUE(plan.empty(plan.parts(half, 2, 2, 5)));
}

TEST(PlanBuilder, ReadersOfTheSameBytesDoNotWaitForEachOther) {
  PlanBuilder builder("test", 0, 3);
  builder.send(1, builder.whole());
  builder.send(2, builder.whole());
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), IsEmpty());
}

TEST(PlanBuilder, WritingTheOutputWaitsForReadersOfTheInputBecauseTheyMayBeOneBuffer) {
  PlanBuilder builder("test", 0, 2);
  builder.send(1, builder.input(0));
  builder.recv(1, builder.output(0));
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), ElementsAre(0));
}

TEST(PlanBuilder, DisjointPartsAreIndependentAndPartsOfPartsAreNot) {
  PlanBuilder builder("test", 0, 2);
  const RangeId low = builder.part(0, 0, 2);
  const RangeId high = builder.part(0, 1, 2);
  builder.recv(1, low);                        // 0
  builder.recv(1, high);                       // 1
  builder.send(1, builder.part(low, 1, 3));    // 2
  builder.send(1, high);                       // 3
  builder.recv(1, builder.parts(0, 0, 3, 5));  // 4: another cut may overlap everything
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), IsEmpty());
  EXPECT_THAT(waits_for(plan, 2), ElementsAre(0));
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(1));
  const auto last = waits_for(plan, 4);
  EXPECT_TRUE(std::set<StepId>(last.begin(), last.end()).contains(2));
  EXPECT_TRUE(std::set<StepId>(last.begin(), last.end()).contains(3));
}

TEST(PlanBuilder, OverlappingRunsOfPartsOfOneCutConflictAndSeparateOnesDoNot) {
  PlanBuilder builder("test", 0, 2);
  builder.recv(1, builder.parts(0, 0, 3, 8));  // 0
  builder.recv(1, builder.parts(0, 2, 5, 8));  // 1
  builder.recv(1, builder.parts(0, 5, 8, 8));  // 2
  builder.send(1, builder.parts(0, 0, 2, 8));  // 3
  builder.send(1, builder.whole());            // 4
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), ElementsAre(0));
  EXPECT_THAT(waits_for(plan, 2), IsEmpty());
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(0));
  EXPECT_THAT(waits_for(plan, 4), ElementsAre(0, 1, 2));
}

TEST(PlanBuilder, WhatAWriteCoversIsImpliedByIt) {
  PlanBuilder builder("test", 0, 2);
  const RangeId half = builder.part(0, 0, 2);
  builder.send(1, half);  // 0
  builder.recv(1, half);  // 1 after 0
  builder.recv(1, builder.part(0, 1, 2));
  builder.recv(1, builder.whole());  // 3 after 1, 2
  builder.send(1, half);             // 4 after 3 only
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(1, 2));
  EXPECT_THAT(waits_for(plan, 4), ElementsAre(3));
}

TEST(PlanBuilder, ScratchAreasAreTrackedEachByItself) {
  PlanBuilder builder("test", 0, 2);
  const Block a = builder.scratch(0);
  const Block b = builder.scratch(0);
  builder.recv(1, a);                                                  // 0
  builder.recv(1, b);                                                  // 1
  builder.reduce(builder.output(0), std::array{a, builder.input(0)});  // 2
  builder.recv(1, a);                                                  // 3
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), IsEmpty());
  EXPECT_THAT(waits_for(plan, 2), ElementsAre(0));
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(2));
}

TEST(PlanBuilder, PartsOfAScratchAreaAreTrackedByThemselves) {
  PlanBuilder builder("test", 0, 4, Collective::all_gather);
  const Block area = builder.scratch(builder.blocks(1, 4));
  builder.recv(1, PlanBuilder::in(area, builder.block(1)));      // 0
  builder.recv(1, PlanBuilder::in(area, builder.blocks(2, 4)));  // 1
  builder.send(2, PlanBuilder::in(area, builder.block(3)));      // 2
  builder.send(2, area);                                         // 3
  builder.recv(1, PlanBuilder::in(area, builder.block(0)));      // 4: another range, at the beginning
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), IsEmpty());
  EXPECT_THAT(waits_for(plan, 2), ElementsAre(1));
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(0, 1));
  EXPECT_THAT(waits_for(plan, 4), testing::IsSupersetOf({2u, 3u}));
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, std::vector<std::size_t>{100, 2, 3, 4}, extents);
  EXPECT_EQ(scratch_extent(plan, extents, plan.steps[2].from).offset, 5u);
  EXPECT_EQ(scratch_extent(plan, extents, plan.steps[4].to).offset, 0u);
  std::vector<std::size_t> lengths(1);
  scratch_lengths(plan, extents, lengths);
  EXPECT_EQ(lengths[0], 100u);  // as long as the longest that lies there
}

TEST(PlanBuilder, AfterAFenceStepsWaitForTheReceivesBeforeIt) {
  PlanBuilder builder("test", 0, 2, Collective::barrier);
  builder.send(1, builder.nothing());  // 0
  builder.recv(1, builder.nothing());  // 1
  builder.recv(1, builder.nothing());  // 2
  builder.fence();
  builder.send(1, builder.nothing());  // 3
  builder.recv(1, builder.nothing());  // 4
  builder.fence();
  builder.send(1, builder.nothing());  // 5: through 4 after the others
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 2), IsEmpty());
  EXPECT_THAT(waits_for(plan, 3), ElementsAre(1, 2));
  EXPECT_THAT(waits_for(plan, 5), ElementsAre(4));
}

TEST(PlanBuilderDeathTest, MessagesLongerThanPromisedAreAnErrorOfTheAlgorithm) {
  const auto build = [] {
    PlanBuilder builder("test", 0, 2);
    builder.bound_messages(message_unit / 2);
    builder.send(1, builder.whole());
    return std::move(builder).build().largest_message;
  };
  EXPECT_DEATH(build(), "longest");
}

TEST(PlanBuilder, AStepDoesNotWaitForItself) {
  PlanBuilder builder("test", 0, 2);
  builder.recv_reduce(1, 0);
  builder.recv_reduce(1, 0);
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 0), IsEmpty());
  EXPECT_THAT(waits_for(plan, 1), ElementsAre(0));
}

TEST(PlanBuilder, TheValueIsTheInputUntilTheOutputIsWritten) {
  PlanBuilder plan("test", 0, 2);
  const RangeId half = plan.part(0, 0, 2);
  const RangeId quarter = plan.part(half, 1, 2);
  EXPECT_EQ(plan.value(quarter).space, Space::input);
  plan.recv(1, half);
  EXPECT_EQ(plan.value(quarter).space, Space::output);
  EXPECT_EQ(plan.value(half).space, Space::output);
  EXPECT_EQ(plan.value(plan.part(0, 1, 2)).space, Space::input);
}

TEST(PlanBuilder, ARangeIsWrittenOnceAllItsPartsAre) {
  PlanBuilder plan("test", 0, 2);
  const RangeId high = plan.parts(0, 1, 3, 3);
  plan.recv(1, plan.part(0, 0, 3));
  for (int i = 0; i < 4; ++i) plan.recv(1, plan.part(high, i, 4));
  EXPECT_EQ(plan.value(high).space, Space::output);
  EXPECT_EQ(plan.value(plan.part(0, 2, 3)).space, Space::output);
  EXPECT_EQ(plan.value(plan.whole()).space, Space::output);
  EXPECT_EQ(plan.value(plan.part(0, 6, 7)).space, Space::output);
}

TEST(PlanBuilderDeathTest, TheValueOfAPartlyWrittenRangeIsAnErrorOfTheAlgorithm) {
  PlanBuilder plan("test", 0, 2);
  plan.recv(1, plan.part(0, 0, 3));
  EXPECT_DEATH(plan.value(plan.whole()), "partly");
  EXPECT_DEATH(plan.value(plan.part(0, 1, 2)), "partly");
  EXPECT_DEATH(plan.recv(1, plan.input(0)), "input");
}

TEST(PlanBuilder, SettleCopiesOnlyWhatIsNotWritten) {
  PlanBuilder builder("test", 0, 2);
  builder.recv(1, builder.part(0, 1, 3));
  builder.settle(builder.whole());
  const Plan plan = std::move(builder).build();
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.steps[1].kind, StepKind::copy);
  EXPECT_EQ(plan.ranges[plan.steps[1].to.range].first, 0u);
  EXPECT_EQ(plan.ranges[plan.steps[2].to.range].first, 2u);
}

TEST(PlanBuilder, MessagesAreNumberedForEachPairAndDirection) {
  PlanBuilder builder("test", 0, 3);
  builder.send(1, 0);
  builder.recv(1, builder.scratch(0));
  builder.send(2, 0);
  builder.send(1, 0);
  const Plan plan = std::move(builder).build();
  std::vector<std::uint32_t> numbers;
  for (const Step& step : plan.steps) numbers.push_back(step.message);
  EXPECT_THAT(numbers, ElementsAre(0, 0, 0, 1));
}

TEST(PlanBuilder, EmptyRangesConflictWithNothing) {
  PlanBuilder builder("test", 0, 2);
  builder.recv(1, 0);
  builder.recv(1, builder.parts(0, 2, 2, 4));
  builder.recv(1, builder.part(0, 2, 4));
  const Plan plan = std::move(builder).build();
  EXPECT_THAT(waits_for(plan, 1), IsEmpty());
  EXPECT_THAT(waits_for(plan, 2), ElementsAre(0));
}

/// Processor time of this thread: what else the machine is doing does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// For each of the plan's steps and of the world's ranks, at which a builder may look.
double build_seconds(test::Form form, const test::NodeOf& nodes, Rank rank) {
  const double start = cpu_seconds();
  const auto plan = make_plan({form.algorithm, rank, nodes, ReduceOp::sum, form.collective});
  const double seconds = cpu_seconds() - start;
  EXPECT_TRUE(plan.has_value()) << test::text(form);
  if (!plan) return 0;
  const std::size_t looked_at = plan->steps.size() + nodes.size();
  // After a barrier's gathering each message waits for all of those that came: with 12 of them, 6 for a step.
  const std::size_t most_for_a_step = form.collective == Collective::barrier ? 6 : 5;
  EXPECT_LE(plan->successors.size(), most_for_a_step * plan->steps.size()) << test::text(form) << ", rank " << rank;
  return seconds / static_cast<double>(looked_at);
}

/// How many times as long for each in `large`. What shares the caches makes times longer, so the least of a few of
/// `small` is taken, and of as many of `large` as it takes to be below `enough`, of 20 at most.
double growth(const std::function<double()>& small, const std::function<double()>& large, double enough) {
  double least_small = small();
  for (int i = 0; i < 4; ++i) least_small = std::min(least_small, small());
  double least_large = large();
  for (int i = 0; i < 19 && least_large >= enough * least_small; ++i) least_large = std::min(least_large, large());
  return least_large / least_small;
}

TEST(PlanBuilder, BuildingTakesTimeAndDependenciesInProportionToTheSteps) {
  // In 16 times as many ranks up to 1.7 times as long for each, as less of it fits the caches. What grows with the
  // square of the steps takes some 16 times as long for each.
  constexpr double most = 6;
  const auto nodes_of_8 = [](int ranks) {
    return test::nodes_of(std::vector<int>(static_cast<std::size_t>(ranks / 8), 8));
  };
  for (const test::Form form : test::all_forms()) {
    const auto expect_growth = [&](const test::NodeOf& small, const test::NodeOf& large) {
      const auto of_rank = [&](Rank in_small, Rank in_large) {
        return growth([&] { return build_seconds(form, small, in_small); },
                      [&] { return build_seconds(form, large, in_large); }, most);
      };
      EXPECT_LT(of_rank(0, 0), most) << test::text(form) << " on " << large.back() + 1 << " nodes";
      EXPECT_LT(of_rank(131, 2051), most) << test::text(form) << " on " << large.back() + 1 << " nodes";
    };
    expect_growth(test::flat(256), test::flat(4096));
    expect_growth(nodes_of_8(256), nodes_of_8(4096));
  }
}

}  // namespace
}  // namespace fabring
