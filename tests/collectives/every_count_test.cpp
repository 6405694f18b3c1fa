// Plans that are right at nearly every count are found out, and those of the algorithms take few checks.
#include "collectives/every_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <random>
#include <string>

#include "collectives/check/world.hpp"
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

// The same but for one more cut: as long as the other in most cases, and beside it in some of these.
std::vector<RangeId> third_of_half(PlanBuilder& plan, RangeId of) {
  return {plan.part(of, 0, 2), plan.part(plan.part(of, 1, 2), 0, 3), plan.parts(plan.part(of, 1, 2), 1, 3, 3)};
}
std::vector<RangeId> third_of_two_quarters(PlanBuilder& plan, RangeId of) {
  const RangeId half = plan.parts(of, 2, 4, 4);
  return {plan.part(of, 0, 2), plan.part(half, 0, 3), plan.parts(plan.part(of, 1, 2), 1, 3, 3)};
}

/// One rank's block of an alltoall goes to its output, cut in two ways.
std::vector<Plan> moved_once(Cut to, Cut from) {
  PlanBuilder plan("test", 0, 1, Collective::alltoall);
  const auto targets = to(plan, plan.block(1)), sources = from(plan, plan.block(0));
  for (std::size_t i = 0; i < targets.size(); ++i)
    plan.copy({Space::output, 0, targets[i]}, {Space::input, 0, sources[i]});
  return {std::move(plan).build()};
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

/// Is every count up to some periods right? Each is looked at. And wherever holds what a check at another one noted, it
/// must be right.
bool right_one_by_one(const std::vector<Plan>& plans, const std::string& what) {
  const std::uint64_t period = period_of_bounds(plans, 1000);
  EXPECT_GT(period, 0U);
  const std::size_t counts = 3 * period + 30;
  check::LinearForms forms(nullptr);
  std::vector<std::optional<check::PathCondition>> paths(counts);
  for (std::size_t count = 0; count < counts; ++count)
    for (const auto reuse : {check::ScratchReuse::forgets, check::ScratchReuse::keeps}) {
      check::PathCondition path(forms);
      if (!paths[count] && check::check_plans(plans, count, ReduceOp::sum, nullptr, &path, reuse)) paths[count] = path;
      const bool right = check_plans(plans, count, ReduceOp::sum).has_value();
      EXPECT_TRUE(reuse == check::ScratchReuse::forgets || right == paths[count].has_value()) << what;
    }
  for (std::size_t other = 0; other < counts; ++other) {
    if (paths[other]) continue;
    std::vector<std::int64_t> values;
    forms.evaluate(other, values);
    const std::vector<std::int64_t> slopes(values.size());
    for (std::size_t count = 0; count < counts; ++count)
      EXPECT_FALSE(paths[count] && paths[count]->holds_until(0, values, slopes))
          << what << ": the check of " << count << " does not prove " << other;
  }
  return std::ranges::all_of(paths, [](const auto& path) { return path.has_value(); });
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
    const bool right = right_one_by_one(plans, what);
    ++seen[right ? 1 : 0];
    const auto found = prove_every_count(plans, ReduceOp::sum);
    EXPECT_EQ(found.has_value(), right) << what << (found ? "" : ": " + found.error().message());
    EXPECT_TRUE(!found || found->proved) << what;
  };
  compare(moved_once(third_of_half, third_of_half), "one cut");
  compare(moved_once(third_of_half, third_of_two_quarters), "one cut of the other");
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

// Rank 0 alone reads what it must not wait for: the first two of six parts, and writes the last two of three.
TEST(EveryCount, ARaceAtSomeRemaindersIsFound) {
  PlanBuilder builder("test", 0, 1, Collective::broadcast);
  const RangeId first = builder.part(0, 0, 3), others = builder.parts(0, 1, 3, 3);
  const Block aside = builder.scratch(first);
  builder.copy(aside, builder.input(first));
  builder.copy(builder.output(others), builder.input(others));
  builder.copy(builder.output(first), builder.input(first));
  std::vector<Plan> plans{std::move(builder).build()};
  ASSERT_TRUE(prove_every_count(plans, ReduceOp::sum));
  plans[0].ranges.push_back({0, 0, 2, 6});
  plans[0].steps[0].from.range = plans[0].steps[0].to.range = static_cast<RangeId>(plans[0].ranges.size() - 1);
  ASSERT_TRUE(check_plans(plans, 600, ReduceOp::sum)) << "they are the same there";
  EXPECT_FALSE(right_one_by_one(plans, "race"));
  const auto found = prove_every_count(plans, ReduceOp::sum);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message(), HasSubstr("share bytes"));
}

// What moves a bound of an algorithm's plans, so that it is where it was at some remainders: parts of the whole become
// as many times more parts of it.
Range finer(Range range, std::uint32_t more) {
  return {range.parent, range.first * more, range.last * more, range.parts * more};
}

bool alike(const Range& a, const Range& b) {
  return a.parent == b.parent && a.first == b.first && a.last == b.last && a.parts == b.parts;
}

bool may_move(const Plan& plan, const Range& range) {
  return (range.parent != 0 || plan.blocks == 0) && range.parts > 1;
}

/// A range wherever it is used; lengths of messages stay equal if it is on all ranks.
bool move_range(std::vector<Plan>& plans, std::mt19937_64& random) {
  const Plan& plan = plans[random() % plans.size()];
  const Range moved = plan.ranges[random() % plan.ranges.size()];
  if (!may_move(plan, moved)) return false;
  const auto more = static_cast<std::uint32_t>(2 + random() % 2);
  const bool on_all = random() % 4 != 0;
  for (Plan& changed : plans)
    for (Range& range : changed.ranges)
      if ((on_all || &changed == &plan) && alike(range, moved)) range = finer(range, more);
  return true;
}

/// What one message carries, at both ends: no other step looks at the same elements.
bool move_message(std::vector<Plan>& plans, std::mt19937_64& random) {
  Plan& sender = plans[random() % plans.size()];
  Step& send = sender.steps[random() % sender.steps.size()];
  if (send.kind != StepKind::send) return false;
  Plan& receiver = plans[static_cast<std::size_t>(send.peer)];
  const auto is_other_end = [&](const Step& step) {
    return step.kind == StepKind::recv && step.peer == sender.rank && step.message == send.message;
  };
  const auto recv = std::ranges::find_if(receiver.steps, is_other_end);
  if (recv == receiver.steps.end()) return false;
  const Range from = sender.ranges[send.from.range], to = receiver.ranges[recv->to.range];
  if (!alike(from, to) || from.parent != 0 || !may_move(sender, from)) return false;
  const auto more = static_cast<std::uint32_t>(2 + random() % 2);
  send.from.range = static_cast<RangeId>(sender.ranges.size());
  recv->to.range = static_cast<RangeId>(receiver.ranges.size());
  sender.ranges.push_back(finer(from, more));
  receiver.ranges.push_back(finer(to, more));
  return true;
}

TEST(EveryCount, AMovedBoundIsFoundWhereverItShows) {
  std::mt19937_64 random(7);
  std::array<int, 2> seen{};
  for (const test::Form form : test::all_forms()) {
    if (form.collective == Collective::barrier) continue;
    for (const auto& nodes : {test::flat(3), test::flat(4), test::nodes_of({3, 1, 2}), test::nodes_of({2, 2})}) {
      const auto original = test::plans_of(form, nodes);
      for (int mutant = 0; mutant < 16 && !original.empty(); ++mutant) {
        auto plans = original;
        if (!(mutant % 4 == 0 ? move_range(plans, random) : move_message(plans, random))) continue;
        const std::string what = test::text(form) + ", " + test::text(nodes) + ", mutant " + std::to_string(mutant);
        const bool right = right_one_by_one(plans, what);
        ++seen[right ? 1 : 0];
        const auto found = prove_every_count(plans, ReduceOp::sum);
        EXPECT_EQ(found.has_value(), right) << what;
        EXPECT_TRUE(!found || found->proved) << what;
      }
    }
  }
  std::printf("[ %d right, %d wrong ]\n", seen[1], seen[0]);
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
