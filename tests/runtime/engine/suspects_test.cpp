// How long a rank is only suspected: the side that knows most says first that a connection has failed.

#include "runtime/engine/members/suspects.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

using namespace std::chrono_literals;

constexpr Rank self = 2;

std::vector<Rank> overdue(Suspects& suspects, Time now) {
  std::vector<Rank> ranks;
  for (const auto& one : suspects.overdue(now, [](Rank) { return true; })) ranks.push_back(one.rank);
  return ranks;
}

TEST(Suspects, are_overdue_once_and_soonest_where_this_rank_knows_most) {
  Suspects suspects(self, 5);
  EXPECT_TRUE(suspects.add(1, Status(ErrorCode::peer_lost, "it has ended"), 10s));
  EXPECT_TRUE(suspects.add(3, Status(), 10s));
  EXPECT_TRUE(suspects.add(4, Status(ErrorCode::transport_error, "nonsense"), 10s));
  EXPECT_TRUE(overdue(suspects, 10s + 149ms).empty());
  EXPECT_EQ(overdue(suspects, 10s + 150ms), std::vector<Rank>{4});
  EXPECT_TRUE(overdue(suspects, 10s + 299ms).empty());
  EXPECT_EQ(overdue(suspects, 10s + 300ms), std::vector<Rank>{3});
  EXPECT_TRUE(overdue(suspects, 10s + 1299ms).empty());
  EXPECT_EQ(overdue(suspects, 10s + 1300ms), std::vector<Rank>{1});
  EXPECT_TRUE(overdue(suspects, 60s).empty());
}

TEST(Suspects, are_what_was_seen_of_them_first) {
  Suspects suspects(self, 5);
  EXPECT_TRUE(suspects.add(3, Status(ErrorCode::transport_error, "nonsense"), 10s));
  EXPECT_FALSE(suspects.add(3, Status(ErrorCode::peer_lost, "it has ended"), 11s));
  const auto all = suspects.overdue(10s + 150ms, [](Rank) { return true; });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].why.message(), "nonsense");
}

TEST(Suspects, that_nobody_needs_are_overdue_when_somebody_does) {
  Suspects suspects(self, 5);
  EXPECT_TRUE(suspects.add(3, Status(), 10s));
  EXPECT_TRUE(suspects.overdue(20s, [](Rank rank) { return rank != 3; }).empty());
  EXPECT_EQ(overdue(suspects, 20s), std::vector<Rank>{3});
}

TEST(Suspects, are_not_to_blame_where_this_rank_is_lost_itself) {
  Suspects suspects(self, 5);
  EXPECT_TRUE(suspects.add(3, Status(), 10s));
  suspects.blame_nobody();
  EXPECT_TRUE(suspects.add(4, Status(ErrorCode::transport_error, "nonsense"), 10s));
  EXPECT_TRUE(overdue(suspects, 60s).empty());
}

TEST(Suspects, are_cut_off_once) {
  Suspects suspects(self, 5);
  EXPECT_FALSE(suspects.is_cut_off(3));
  EXPECT_TRUE(suspects.cut_off(3));
  EXPECT_FALSE(suspects.cut_off(3));
  EXPECT_TRUE(suspects.is_cut_off(3));
  EXPECT_FALSE(suspects.is_cut_off(4));
}

}  // namespace
}  // namespace fabring
