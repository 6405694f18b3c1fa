// Which address of rank 0 all ranks go by, where its name has several.

#include "runtime/bootstrap/common_address.hpp"

#include <gmock/gmock.h>

namespace fabring {
namespace {

const std::string v4 = "10.0.0.1", v6 = "fd00::1", elsewhere = "10.1.0.1";

TEST(CommonAddress, IsTheOneByWhichAllCame) { EXPECT_EQ(common_address({{v4, {}}, {v4, {}}}), v4); }

TEST(CommonAddress, IsNoneWhereNoRankIsElsewhere) { EXPECT_EQ(common_address({}), ""); }

// Most came by IPv6, which answered first; one host has IPv4 only, and all others have that too.
TEST(CommonAddress, IsOneThatAllHaveThoughMostCameByAnother) {
  EXPECT_EQ(common_address({{v6, {v6, v4}}, {v6, {v6, v4}}, {v4, {v4}}}), v4);
  EXPECT_EQ(common_address({{v4, {v6, v4}}, {v4, {v6, v4}}, {v6, {v6}}}), v6);
}

TEST(CommonAddress, OfThoseThatAllHaveItIsTheOneThatProvedItselfMost) {
  EXPECT_EQ(common_address({{v4, {v6, v4}}, {v6, {v6, v4}}, {v6, {v6, v4}}}), v6);
  EXPECT_EQ(common_address({{v6, {v6, v4}}, {v4, {v6, v4}}}), v4) << "IPv4 of two alike";
  EXPECT_EQ(common_address({{elsewhere, {elsewhere, v4}}, {v4, {elsewhere, v4}}}), elsewhere) << "the first of two alike";
}

// A name may be told wrongly on one host: what nobody came by is not taken, however many name it.
TEST(CommonAddress, IsNeverOneByWhichNobodyCame) { EXPECT_EQ(common_address({{v6, {v4}}, {v6, {v4}}}), v6); }

TEST(CommonAddress, IsNoneThatMeansSomethingElseOnEachHost) {
  EXPECT_EQ(common_address({{"fe80::1%eth0", {}}, {"fe80::1%eth0", {}}}), "");
  EXPECT_EQ(common_address({{"fe80::1%eth0", {}}, {"fe80::1%eth0", {}}, {v4, {}}}), v4);
}

TEST(CommonAddress, DifferentWaysAreToldWithTheRanksThatCameByThem) {
  EXPECT_EQ(different_ways({{v4, {}}, {v4, {}}}, {1, 2}), "");
  EXPECT_EQ(different_ways({{v6, {}}, {v4, {}}, {v6, {}}}, {1, 3, 4}), "10.0.0.1 (rank 3), fd00::1 (ranks 1 and 4)");
}

}  // namespace
}  // namespace fabring
