// What is kept of memory that others share: so much for each of them.

#include "device/kept_shares.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

DeviceShare::Facts allocation(std::uint64_t number) {
  DeviceShare::Facts facts;
  facts.process.pid = 7;
  facts.allocation = number;
  facts.base = number * 4096;
  facts.bytes = 4096;
  return facts;
}

TEST(KeptShares, are_those_asked_for_last_of_each) {
  KeptShares<int, int> kept(2);
  for (const int whose : {1, 2})
    for (const int number : {1, 2}) EXPECT_FALSE(kept.add(whose, allocation(std::uint64_t(number)), number));
  ASSERT_NE(kept.find(1, allocation(1)), nullptr);
  EXPECT_FALSE(kept.add(1, allocation(3), 3));
  EXPECT_EQ(kept.find(1, allocation(2)), nullptr);
  EXPECT_EQ(*kept.find(1, allocation(1)), 1);
  EXPECT_EQ(*kept.find(2, allocation(2)), 2) << "another's";
  EXPECT_TRUE(kept.add(1, allocation(2), 2)) << "it was let go";
  EXPECT_EQ(kept.size(), 4u);
  kept.forget(1);
  EXPECT_EQ(kept.size(), 2u);
  kept.forget_if([](int whose) { return whose == 2; });
  EXPECT_EQ(kept.size(), 0u);
}

TEST(KeptShares, end_where_something_else_lies_by_now) {
  KeptShares<int, int> kept(2);
  DeviceShare::Facts before = allocation(1), now = allocation(2);
  now.base = before.base + 100;
  (void)kept.add(1, before, 1);
  EXPECT_EQ(kept.replace(1, now), std::vector<int>{1});
  (void)kept.add(1, before, 1);
  (void)kept.add(1, now, 2);
  EXPECT_EQ(kept.find(1, before), nullptr);
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_FALSE(kept.add(1, before, 1)) << "not for want of room";
  EXPECT_EQ(kept.take_all(), std::vector<int>{1});
  EXPECT_EQ(kept.size(), 0u);
}

}  // namespace
}  // namespace fabring
