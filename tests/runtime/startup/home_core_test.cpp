// Which processor a rank waits on where ranks outnumber them.
#include "runtime/startup/home_core.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fabring {
namespace {

std::vector<Identity> ranks_of(const std::vector<std::string>& cpus, const std::string& fingerprint = "boot/net:a") {
  std::vector<Identity> ranks;
  for (const std::string& each : cpus) {
    Identity rank;
    rank.cpus = each;
    rank.fingerprint = fingerprint;
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> homes(const std::vector<Identity>& ranks) {
  std::vector<int> all;
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank) all.push_back(home_core(ranks, rank));
  return all;
}

TEST(HomeCore, ConsecutiveRanksShareOne) {
  EXPECT_EQ(homes(ranks_of({"0-1", "0-1", "0-1", "0-1"})), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(homes(ranks_of({"3,7", "3,7", "3,7", "3,7", "3,7", "3,7", "3,7", "3,7"})),
            (std::vector<int>{3, 3, 3, 3, 7, 7, 7, 7}));
}

TEST(HomeCore, TheFirstRanksHaveMostRoom) {
  EXPECT_EQ(homes(ranks_of({"0-1", "0-1", "0-1"})), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(homes(ranks_of({"0-2", "0-2", "0-2", "0-2", "0-2"})), (std::vector<int>{0, 1, 1, 2, 2}));
}

TEST(HomeCore, NobodyIsSentAnywhereWhereEveryRankMayHaveOne) {
  EXPECT_EQ(homes(ranks_of({"0-1", "0-1"})), (std::vector<int>{-1, -1}));
  EXPECT_EQ(homes(ranks_of({"0", "1"})), (std::vector<int>{-1, -1}));
}

TEST(HomeCore, NorWhereRanksMayUseDifferentOnes) {
  EXPECT_EQ(homes(ranks_of({"0-1", "0-1", "0-2"})), (std::vector<int>{-1, -1, -1}));
  EXPECT_EQ(homes(ranks_of({"", "", ""})), (std::vector<int>{-1, -1, -1})) << "not known";
}

TEST(HomeCore, EachMachineByItself) {
  std::vector<Identity> ranks = ranks_of({"0", "0", "0", "0"});
  ranks[1].fingerprint = ranks[2].fingerprint = ranks[3].fingerprint = "another boot/net:a";
  EXPECT_EQ(homes(ranks), (std::vector<int>{-1, 0, 0, 0}));
}

}  // namespace
}  // namespace fabring
