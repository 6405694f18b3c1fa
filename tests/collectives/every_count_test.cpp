// Plans that are right at nearly every count are found out, and those of the algorithms take few checks.
#include "collectives/every_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "collectives/prove.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Cut = std::vector<RangeId> (*)(PlanBuilder&, RangeId);

// Ways to cut a range. Those that are wrong leave a gap, or overlap, at some remainders only.
std::vector<RangeId> halves(PlanBuilder& plan, RangeId of) { return {plan.part(of, 0, 2), plan.part(of, 1, 2)}; }
std::vector<RangeId> thirds(PlanBuilder& plan, RangeId of) { return {plan.parts(of, 0, 2, 3), plan.part(of, 2, 3)}; }
std::vector<RangeId> halves_of_parts(PlanBuilder& plan, RangeId of) {
  const RangeId first = plan.parts(of, 0, 2, 3), last = plan.part(of, 2, 3);
  return {plan.part(first, 0, 2), plan.part(first, 1, 2), last};
}
std::vector<RangeId> half_and_two_quarters(PlanBuilder& plan, RangeId of) {
  return {plan.part(of, 0, 2), plan.parts(of, 2, 4, 4)};
}
std::vector<RangeId> third_and_four_sixths(PlanBuilder& plan, RangeId of) {
  return {plan.part(of, 0, 3), plan.parts(of, 2, 6, 6)};
}
std::vector<RangeId> quarters_and_half(PlanBuilder& plan, RangeId of) {
  return {plan.parts(of, 0, 2, 4), plan.part(of, 1, 2)};
}
// Of the first four of 2000 parts the first half and the last two quarters: one element is missing at 1502 of 2000.
std::vector<RangeId> gap_at_one_remainder(PlanBuilder& plan, RangeId of) {
  const RangeId four = plan.parts(of, 1500, 1504, 2000);
  return {plan.parts(of, 0, 1500, 2000), plan.part(four, 0, 2), plan.parts(four, 2, 4, 4),
          plan.parts(of, 1504, 2000, 2000)};
}

/// Two ranks exchange all parts of a cut and add them up.
std::vector<Plan> exchange(Cut cut) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("test", rank, 2, Collective::allreduce);
    for (const RangeId range : cut(plan, plan.whole())) {
      const Block got = plan.scratch(range), own{Space::input, 0, range};
      plan.send(1 - rank, own);
      plan.recv(1 - rank, got);
      const std::array operands{rank == 0 ? own : got, rank == 0 ? got : own};
      plan.reduce({Space::output, 0, range}, operands);
    }
    plans.push_back(std::move(plan).build());
  }
  for (Plan& plan : plans) plan.largest_message = message_unit;
  return plans;
}

/// One rank's block of an alltoall goes to its output by way of two areas, at another place in each; each copy is cut.
std::vector<Plan> moved_three_times(const std::array<Cut, 3>& cuts) {
  PlanBuilder plan("test", 0, 1, Collective::alltoall);
  const RangeId first = plan.block(0), second = plan.block(1);
  const Block one = plan.scratch(plan.whole()), other = plan.scratch(plan.whole());
  const auto copy = [&](Cut cut, Block to, RangeId to_range, Block from, RangeId from_range) {
    const auto targets = cut(plan, to_range), sources = cut(plan, from_range);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      to.range = targets[i];
      from.range = sources[i];
      plan.copy(to, from);
    }
  };
  copy(cuts[0], one, second, {Space::input, 0, 0}, first);
  copy(cuts[1], other, first, one, second);
  copy(cuts[2], {Space::output, 0, 0}, second, other, first);
  return {std::move(plan).build()};
}

/// Is every count up to some periods right? Each is looked at.
bool right_one_by_one(const std::vector<Plan>& plans) {
  const std::uint64_t period = period_of_bounds(plans, 1000);
  EXPECT_GT(period, 0U);
  for (std::size_t count = 0; count < 4 * period + 40; ++count)
    if (!check_plans(plans, count, ReduceOp::sum)) return false;
  return true;
}

TEST(EveryCount, AGapAtOneRemainderIsFound) {
  const auto plans = exchange(gap_at_one_remainder);
  for (const std::size_t count : counts_to_prove(plans))
    ASSERT_TRUE(check_plans(plans, count, ReduceOp::sum)) << "none of these shows it";
  const auto proof = prove_plans(plans, ReduceOp::sum);
  ASSERT_FALSE(proof);
  EXPECT_THAT(proof.error().message(), AllOf(HasSubstr("with 1502 elements: "), HasSubstr("[1501, 1502) of 1502")));
}

TEST(EveryCount, IsWhatTheCountsOneByOneAre) {
  const std::array<Cut, 6> cuts{halves,           thirds, halves_of_parts, half_and_two_quarters, third_and_four_sixths,
                                quarters_and_half};
  std::array<int, 2> seen{};
  const auto compare = [&](const std::vector<Plan>& plans, const std::string& what) {
    const bool right = right_one_by_one(plans);
    ++seen[right ? 1 : 0];
    const auto found = prove_every_count(plans, ReduceOp::sum);
    EXPECT_EQ(found.has_value(), right) << what << (found ? "" : ": " + found.error().message());
    EXPECT_TRUE(!found || found->proved) << what;
  };
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    compare(exchange(cuts[i]), "cut " + std::to_string(i));
    for (std::size_t j = 0; j < cuts.size(); ++j)
      for (std::size_t k = 0; k < cuts.size(); ++k)
        compare(moved_three_times({cuts[i], cuts[j], cuts[k]}),
                "cuts " + std::to_string(i) + " " + std::to_string(j) + " " + std::to_string(k));
  }
  EXPECT_GT(seen[0], 20);
  EXPECT_GT(seen[1], 20);
}

// One bound of an algorithm's plans is moved: parts of the whole become as many times more parts of it, or parts of
// parts of it, which begin where they did at some remainders.
TEST(EveryCount, AMovedBoundIsFoundWhereverItShows) {
  std::mt19937_64 random(7);
  std::array<int, 2> seen{};
  for (const test::Form form : test::all_forms()) {
    if (form.collective == Collective::barrier) continue;
    for (const auto& nodes : {test::flat(3), test::flat(4), test::nodes_of({3, 1, 2}), test::nodes_of({2, 2})}) {
      const auto original = test::plans_of(form, nodes);
      for (int mutant = 0; mutant < 20 && !original.empty(); ++mutant) {
        auto plans = original;
        Plan& plan = plans[random() % plans.size()];
        const std::size_t id = random() % plan.ranges.size();
        Range& range = plan.ranges[id];
        if (id == 0 || (range.parent == 0 && plan.blocks != 0) || range.parts == 1) continue;
        const auto more = static_cast<std::uint32_t>(2 + random() % 2);
        range.first *= more;
        range.last *= more;
        range.parts *= more;
        const bool right = right_one_by_one(plans);
        ++seen[right ? 1 : 0];
        const auto found = prove_every_count(plans, ReduceOp::sum);
        EXPECT_EQ(found.has_value(), right) << test::text(form) << ", " << test::text(nodes) << ", range " << id;
        EXPECT_TRUE(!found || found->proved);
      }
    }
  }
  EXPECT_GT(seen[0], 20);
}

TEST(EveryCount, FewChecksAreEnoughForTheAlgorithms) {
  for (const test::Form form : test::all_forms()) {
    if (form.collective == Collective::barrier) continue;
    for (const auto& nodes : {test::flat(7), test::flat(16), test::nodes_of({5, 7, 2})}) {
      const auto plans = test::plans_of(form, nodes);
      if (plans.empty()) continue;
      const auto found = prove_every_count(plans, ReduceOp::sum);
      ASSERT_TRUE(found) << test::text(form) << ": " << found.error().message();
      EXPECT_TRUE(found->proved) << test::text(form);
      EXPECT_LE(found->checks, 4U) << test::text(form) << ", " << test::text(nodes);
    }
  }
}

}  // namespace
}  // namespace fabring
