#include "collectives/plan.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace fabring {
namespace {

TEST(Part, PartsDifferByOneElementLongerOnesFirst) {
  EXPECT_EQ(part({10, 7}, 0, 1, 3).offset, 10u);
  EXPECT_EQ(part({10, 7}, 0, 1, 3).count, 3u);
  EXPECT_EQ(part({10, 7}, 1, 2, 3).offset, 13u);
  EXPECT_EQ(part({10, 7}, 1, 2, 3).count, 2u);
  EXPECT_EQ(part({10, 7}, 2, 3, 3).end(), 17u);
}

TEST(Part, PartsTileTheWholeForEveryCountAndNumber) {
  for (std::size_t count = 0; count < 40; ++count) {
    for (std::uint32_t parts = 1; parts < 20; ++parts) {
      std::size_t end = 5;
      for (std::uint32_t i = 0; i < parts; ++i) {
        const Extent extent = part({5, count}, i, i + 1, parts);
        ASSERT_EQ(extent.offset, end);
        ASSERT_GE(extent.count, count / parts);
        ASSERT_LE(extent.count, count / parts + 1);
        end = extent.end();
      }
      ASSERT_EQ(end, 5 + count);
    }
  }
}

TEST(Part, SeveralPartsAreTheirUnion) {
  const Extent whole{0, 23};
  EXPECT_EQ(part(whole, 2, 5, 7).offset, part(whole, 2, 3, 7).offset);
  EXPECT_EQ(part(whole, 2, 5, 7).end(), part(whole, 4, 5, 7).end());
  EXPECT_EQ(part(whole, 3, 3, 7).count, 0u);
}

TEST(Part, HugeCountsDoNotOverflow) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  constexpr std::uint32_t parts = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(part({0, most}, parts - 1, parts, parts).end(), most);
  EXPECT_EQ(part({0, most}, 0, parts, parts).count, most);
  const std::size_t terabyte = std::size_t{1} << 40;
  EXPECT_EQ(part({0, terabyte}, 4095, 4096, 4096).offset, terabyte - terabyte / 4096);
  EXPECT_EQ(part({0, terabyte + 1}, 1, 2, 4096).offset, terabyte / 4096 + 1);
}

TEST(Bind, PartsOfPartsLieInsideTheirParents) {
  Plan plan;
  plan.ranges = {{}, {0, 1, 2, 2}, {1, 2, 3, 3}, {1, 0, 2, 3}};
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, 17, extents);
  EXPECT_EQ(extents[0].count, 17u);
  EXPECT_EQ(extents[1].offset, 9u);
  EXPECT_EQ(extents[1].count, 8u);
  EXPECT_EQ(extents[2].offset, 15u);
  EXPECT_EQ(extents[2].end(), 17u);
  EXPECT_EQ(extents[3].offset, 9u);
  EXPECT_EQ(extents[3].count, 6u);

  bind(plan, std::size_t{1} << 40, extents);
  EXPECT_EQ(extents[2].end(), std::size_t{1} << 40);
  EXPECT_EQ(extents[3].end(), extents[2].offset);
}

TEST(Bind, AnEmptyVectorHasEmptyRanges) {
  Plan plan;
  plan.ranges = {{}, {0, 1, 2, 2}};
  std::vector<Extent> extents(2);
  bind(plan, 0, extents);
  EXPECT_EQ(extents[1].count, 0u);
}

TEST(StepKindName, IsItsSpelling) {
  EXPECT_EQ(name(StepKind::recv_reduce), "recv_reduce");
  EXPECT_EQ(name(StepKind::finish), "finish");
}

}  // namespace
}  // namespace fabring
