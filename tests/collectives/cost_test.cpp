// The formulas of docs/algorithms.md, held against the plans.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "collectives/check.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

constexpr std::size_t element_bytes = 4;

std::uint64_t total(const std::vector<std::uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::size_t sends_of(const Plan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                                [](const Step& step) { return step.kind == StepKind::send; }));
}

/// Elements of scratch for `count` elements.
std::size_t scratch_of(const Plan& plan, std::size_t count) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, count, extents);
  std::size_t sum = 0;
  for (const RangeId range : plan.scratch) sum += extents[range].count;
  return sum;
}

CheckReport report_of(const std::vector<Plan>& plans, std::size_t count) {
  const auto report = check_plans(plans, count, ReduceOp::sum);
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report.value_or(CheckReport{});
}

TEST(Cost, RingSendsTwiceNMinusOneNthsInAsManyRoundsToOneNeighbour) {
  for (int n = 2; n <= 24; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const std::size_t count = 10 * ranks;
    const auto plans = test::plans_of(Algorithm::ring, test::flat(n));
    for (const Plan& plan : plans) {
      const auto bytes = bytes_sent_to(plan, count, element_bytes);
      EXPECT_EQ(total(bytes), 2 * (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(bytes[static_cast<std::size_t>((plan.rank + 1) % n)], total(bytes));
      EXPECT_EQ(sends_of(plan), 2 * (ranks - 1));
      EXPECT_TRUE(plan.scratch.empty());
    }
    EXPECT_EQ(report_of(plans, count).critical_path, 2 * (ranks - 1));
  }
}

TEST(Cost, RingChunksOfUnevenCountsStillSumToTheFormula) {
  const auto plans = test::plans_of(Algorithm::ring, test::flat(7));
  std::uint64_t all = 0;
  for (const Plan& plan : plans) all += total(bytes_sent_to(plan, 100, element_bytes));
  EXPECT_EQ(all, 2u * 6 * 100 * element_bytes);
}

TEST(Cost, RecursiveDoublingSendsTheWholeInLogarithmicRounds) {
  for (int n = 2; n <= 24; ++n) {
    const auto m = std::bit_floor(static_cast<unsigned>(n));
    const auto rounds = static_cast<std::size_t>(std::countr_zero(m)) + (m == static_cast<unsigned>(n) ? 0 : 2);
    const auto plans = test::plans_of(Algorithm::recursive_doubling, test::flat(n));
    EXPECT_EQ(report_of(plans, 10).critical_path, rounds) << n;
    for (const Plan& plan : plans) {
      EXPECT_LE(total(bytes_sent_to(plan, 10, element_bytes)), rounds * 10 * element_bytes);
      EXPECT_LE(scratch_of(plan, 10), 20u);
    }
    if (m == static_cast<unsigned>(n)) {
      EXPECT_EQ(total(bytes_sent_to(plans[0], 10, element_bytes)), rounds * 10 * element_bytes);
    }
  }
}

TEST(Cost, DirectOneShotSendsTheWholeToEverybodyInOneRound) {
  for (int n = 2; n <= 12; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(n));
    EXPECT_EQ(report_of(plans, 10).critical_path, 1u);
    for (const Plan& plan : plans) {
      EXPECT_EQ(total(bytes_sent_to(plan, 10, element_bytes)), (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(scratch_of(plan, 10), (ranks - 1) * 10);
    }
  }
}

TEST(Cost, DirectTwoShotSendsAsManyBytesAsRingInTwoRounds) {
  for (int n = 2; n <= 12; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const auto plans = test::plans_of(Algorithm::direct_two_shot, test::flat(n));
    EXPECT_EQ(report_of(plans, 10 * ranks).critical_path, 2u);
    for (const Plan& plan : plans) {
      EXPECT_EQ(total(bytes_sent_to(plan, 10 * ranks, element_bytes)), 2 * (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(scratch_of(plan, 10 * ranks), (ranks - 1) * 10);
      EXPECT_EQ(sends_of(plan), 2 * (ranks - 1));
    }
  }
}

TEST(Cost, EverybodyStartsAtAnotherPeer) {
  const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(6));
  for (const Plan& plan : plans) EXPECT_EQ(plan.steps[0].peer, (plan.rank + 1) % 6);
}

}  // namespace
}  // namespace fabring
