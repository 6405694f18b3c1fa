// When a collective counts as slower than its composition, on made-up times; and what it is compared with.
#include "tools/fabring/perf/guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

namespace fabring::tools {
namespace {

/// Gives one measurement after the other.
std::function<Result<GuardTimes>()> measurements(std::vector<GuardTimes> list) {
  return [list = std::move(list), next = std::size_t{0}]() mutable -> Result<GuardTimes> { return list.at(next++); };
}

TEST(Guard, WhatIsFastEnoughIsMeasuredOnce) {
  const auto verdict = guard_verdict(measurements({{{100, 110, 120}, {90, 100, 95}}}), 1.25);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->slow);
  EXPECT_EQ(verdict->attempts, 1);
  EXPECT_DOUBLE_EQ(verdict->one, 110);
  EXPECT_DOUBLE_EQ(verdict->composed, 95);
}

TEST(Guard, OneSlowRepetitionIsNotTheMedian) {
  EXPECT_FALSE(guard_verdict(measurements({{{100, 9000, 100}, {100, 100, 100}}}), 1.25)->slow);
}

TEST(Guard, TheMarginItselfIsStillFine) {
  EXPECT_FALSE(guard_verdict(measurements({{{125}, {100}}}), 1.25)->slow);
  EXPECT_TRUE(guard_verdict(measurements({{{126}, {100}}}), 1.25, 1)->slow);
}

TEST(Guard, AFailureIsMeasuredTwiceMoreBeforeItCounts) {
  const GuardTimes slow{{200}, {100}}, slower{{300}, {100}}, fine{{100}, {100}};
  auto verdict = guard_verdict(measurements({slow, slower, fine}), 1.25);
  EXPECT_FALSE(verdict->slow);
  EXPECT_EQ(verdict->attempts, 3);
  EXPECT_DOUBLE_EQ(verdict->ratio(), 1);

  verdict = guard_verdict(measurements({slower, slow, slower}), 1.25);
  EXPECT_TRUE(verdict->slow);
  EXPECT_EQ(verdict->attempts, 3);
  EXPECT_DOUBLE_EQ(verdict->ratio(), 2) << "the attempt that was best for the collective";
}

TEST(Guard, AMeasurementThatFailedIsNoVerdict) {
  const auto verdict =
      guard_verdict([]() -> Result<GuardTimes> { return Status(ErrorCode::peer_lost, "rank 1 died"); }, 1.25);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code(), ErrorCode::peer_lost);
}

TEST(Guard, EveryCollectiveThatCanBeComposedIsThere) {
  std::array<std::byte, 64> in{}, middle{}, out{};
  const auto pairs = guard_pairs({in.data(), middle.data(), out.data()}, 16, DataType::float32, 1, 4, true);
  std::set<std::string_view> names;
  for (const GuardPair& pair : pairs) {
    names.insert(pair.collective);
    ASSERT_EQ(pair.operations.size(), 1U);
    EXPECT_EQ(pair.collective, name(pair.operations[0].collective));
    for (const Operation& each : pair.composed_of) {
      EXPECT_NE(each.collective, pair.operations[0].collective) << "compared with itself";
      EXPECT_THAT(std::string(pair.composition), testing::HasSubstr(std::string(name(each.collective))));
    }
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"allreduce", "reduce", "reduce_scatter", "all_gather", "broadcast",
                                               "gather", "scatter", "alltoall", "barrier"}));
  EXPECT_EQ(guard_pairs({in.data(), middle.data(), out.data()}, 16, DataType::float32, 1, 4, false).size() + 1,
            pairs.size());
}

// Who has the whole result, or sums with zeros, has what these give.
TEST(Guard, NothingMayBeSlowerThanAnAllreduceThatDoesMore) {
  std::array<std::byte, 64> in{}, middle{}, out{};
  std::set<std::string_view> names;
  for (const GuardPair& pair : guard_pairs({in.data(), middle.data(), out.data()}, 16, DataType::float32, 1, 4, false))
    if (pair.composition == "allreduce") {
      names.insert(pair.collective);
      ASSERT_EQ(pair.composed_of.size(), 1U);
      EXPECT_EQ(pair.composed_of[0].count, 16U) << "of the whole vector";
    }
  EXPECT_EQ(names, (std::set<std::string_view>{"reduce", "reduce_scatter", "broadcast"}));
}

TEST(Guard, SizesDivideIntoBlocksForAllRanks) {
  EXPECT_EQ(guard_elements(0, DataType::float32, 3), 3U);
  EXPECT_EQ(guard_elements(4, DataType::float32, 3), 3U);
  EXPECT_EQ(guard_elements(4096, DataType::float32, 3), 1023U);
  EXPECT_EQ(guard_elements(4096, DataType::int8, 4), 4096U);
}

}  // namespace
}  // namespace fabring::tools
