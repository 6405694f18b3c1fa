// Plans that would take hours or all memory to prove are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "collectives/check.hpp"
#include "collectives/check/memory.hpp"
#include "tests/collectives/heavy_plans.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

TEST(WorkLimit, ManyPiecesReadManyTimesAreTooMuch) {
  for (const bool same_places : {false, true}) {
    WorkLimit limit(WorkLimit::for_files);
    const auto report = check_plans(test::parts_and_wholes(same_places), test::many_parts * 32, ReduceOp::sum, &limit);
    ASSERT_FALSE(report);
    EXPECT_THAT(report.error().message(), HasSubstr("too much to prove"));
  }
}

// Copies of neighbouring parts, in any order, are one piece again.
TEST(WorkLimit, NeighboursOfEqualValueAreOnePiece) {
  check::Memory memory({0, 6}, check::Expressions::undefined);
  const auto write = [&](std::size_t begin, std::size_t end, check::ExpressionId value, std::int64_t shift) {
    memory.write({begin, end}, std::array{check::Piece{begin, end, value, shift}});
    return memory.size();
  };
  EXPECT_EQ(write(0, 2, 1, 0), 2U);
  EXPECT_EQ(write(4, 6, 1, 0), 3U);
  EXPECT_EQ(write(2, 4, 1, 0), 1U);
  EXPECT_EQ(write(2, 4, 1, 5), 3U) << "other elements";
  EXPECT_EQ(write(0, 2, 2, 5), 3U) << "another value";
}

TEST(WorkLimit, IsNoneForPlansThatAreMadeHere) {
  WorkLimit limit(1000);
  const auto plans = test::plans_of(Algorithm::ring, test::flat(16));
  EXPECT_THAT(check_plans(plans, 64, ReduceOp::sum, &limit).error().message(), HasSubstr("too much to prove"));
  EXPECT_TRUE(check_plans(plans, 64, ReduceOp::sum));
}

// 512 x 511 sends of the same vector: reads that nobody writes over.
TEST(WorkLimit, LeavesRoomForLargePlans) {
  for (const auto& [algorithm, ranks] : {std::pair{Algorithm::direct_one_shot, 512}, {Algorithm::ring, 256}}) {
    WorkLimit limit(WorkLimit::for_files);
    const auto report = check_plans(test::plans_of(algorithm, test::flat(ranks)), 1 << 20, ReduceOp::sum, &limit);
    EXPECT_TRUE(report) << report.error().message();
  }
}

}  // namespace
}  // namespace fabring
