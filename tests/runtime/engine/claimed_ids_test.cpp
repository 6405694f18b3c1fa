// Numbers for communicators that are being made: what one has, nobody else here gets.

#include "runtime/engine/members/claimed_ids.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace fabring {
namespace {

const auto none = [](std::uint32_t) { return false; };

TEST(ClaimedIds, are_proposed_upwards_from_behind_the_world_and_never_twice) {
  ClaimedIds ids;
  EXPECT_EQ(ids.propose(0, 1, 0, none), 2u);
  EXPECT_EQ(ids.propose(0, 1, 0, none), 3u);
  ids.give_back(2);
  EXPECT_FALSE(ids.contains(2));
  EXPECT_EQ(ids.propose(0, 1, 0, none), 4u) << "one that was given back may be somebody's by now, on another rank";
  EXPECT_EQ(ids.propose(10, 1, 0, none), 10u);
  EXPECT_TRUE(ids.claim(11));
  EXPECT_EQ(ids.propose(0, 1, 0, [](std::uint32_t id) { return id == 12; }), 13u);
}

TEST(ClaimedIds, that_all_have_agreed_on_take_the_place_of_what_was_proposed) {
  ClaimedIds ids;
  const std::uint32_t proposed = ids.propose(0, 1, 0, none);
  EXPECT_TRUE(ids.claim_agreed(proposed, 7, none));
  EXPECT_FALSE(ids.contains(proposed));
  EXPECT_TRUE(ids.contains(7));
  EXPECT_EQ(ids.propose(0, 1, 0, none), 8u);
  EXPECT_TRUE(ids.claim_agreed(8, 8, none)) << "its own";
}

TEST(ClaimedIds, that_are_agreed_on_but_not_free_here_are_nobodys) {
  ClaimedIds ids;
  ASSERT_TRUE(ids.claim(7));
  const std::uint32_t proposed = ids.propose(0, 1, 0, none);
  EXPECT_FALSE(ids.claim_agreed(proposed, 7, none));
  EXPECT_FALSE(ids.contains(proposed));
  EXPECT_FALSE(ids.claim_agreed(0, 9, [](std::uint32_t id) { return id == 9; }));
  EXPECT_FALSE(ids.contains(9));
}

// Two ranks that split two communicators in opposite order, so that of each pair of proposals the higher one is taken
// by both splits.
TEST(ClaimedIds, of_two_parents_are_others_once_enough_attempts_have_failed) {
  ClaimedIds here, there;
  const auto agree_on_one = [&](unsigned failed) {
    const std::uint32_t first = here.propose(0, 40, failed, none), second = here.propose(0, 41, failed, none);
    const std::uint32_t second_there = there.propose(0, 41, failed, none),
                        first_there = there.propose(0, 40, failed, none);
    return std::max(first, first_there) == std::max(second, second_there);
  };
  EXPECT_TRUE(agree_on_one(0));
  unsigned failed = 1;
  while (failed < 16 && agree_on_one(failed)) ++failed;
  EXPECT_LT(failed, 16u);
}

}  // namespace
}  // namespace fabring
