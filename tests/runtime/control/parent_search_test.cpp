// In which order a rank asks others to be its parent, without a connection.

#include "runtime/control/parent_search.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

std::string host_of_eight(Rank rank) { return "host " + std::to_string(rank / 8); }

// One second for each that does not answer: of a host that is gone, one is asked before those that live.
TEST(ParentSearch, OfHostsThatAreGoneOneRankIsAskedBeforeTheRest) {
  std::vector<Rank> candidates;
  for (Rank rank = 0; rank < 4000; ++rank) candidates.push_back(rank);
  std::set<Rank> asked;
  std::set<std::string> mute;
  int seconds = 0;
  for (Rank next = 0; next < 512; ++seconds) {  // the first 512 are gone
    next = next_to_ask(candidates, asked, mute, host_of_eight);
    ASSERT_GE(next, 0);
    asked.insert(next);
    mute.insert(host_of_eight(next));
  }
  EXPECT_EQ(seconds - 1, 512 / 8);
}

TEST(ParentSearch, TheOthersOnAHostWhereOneIsMuteAreAskedLastBestFirst) {
  const std::vector<Rank> candidates{8, 9, 16, 10};
  EXPECT_EQ(next_to_ask(candidates, {}, {}, host_of_eight), 8);
  EXPECT_EQ(next_to_ask(candidates, {8}, {"host 1"}, host_of_eight), 16);
  EXPECT_EQ(next_to_ask(candidates, {8, 16}, {"host 1"}, host_of_eight), 9);
  EXPECT_EQ(next_to_ask(candidates, {8, 16, 9}, {"host 1"}, host_of_eight), 10);
  EXPECT_EQ(next_to_ask(candidates, {8, 16, 9, 10}, {"host 1"}, host_of_eight), -1);
}

}  // namespace
}  // namespace fabring
