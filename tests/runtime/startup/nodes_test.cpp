#include "runtime/startup/nodes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/job_name.hpp"
#include "tests/support/few_files.hpp"
#include "tests/support/refused_sockets.hpp"

namespace fabring {
namespace {

std::uint64_t fresh_nonce() { return (std::uint64_t{std::random_device()()} << 32) | std::random_device()(); }

std::vector<std::unique_ptr<NodeBeacon>> beacons(std::uint64_t nonce, int ranks) {
  std::vector<std::unique_ptr<NodeBeacon>> open;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto beacon = NodeBeacon::open(nonce, rank);
    EXPECT_TRUE(beacon) << beacon.error().message();
    if (beacon) open.push_back(std::move(*beacon));
  }
  return open;
}

// Every user of the host can read these names.
TEST(NodeBeacon, TheJobsNonceDoesNotStandInItsName) {
  const std::uint64_t nonce = fresh_nonce();
  const auto names = [] {
    std::ifstream table("/proc/net/unix");
    return std::string(std::istreambuf_iterator<char>(table), {});
  };
  const std::string before = names();
  const auto open = beacons(nonce, 1);
  EXPECT_NE(names(), before);
  EXPECT_THAT(names(), testing::Not(testing::HasSubstr(fmt::format("{:016x}", nonce))));
  EXPECT_THAT(names(), testing::HasSubstr("@fabring-" + job_name("fabring host", nonce) + "-0\n"));
  EXPECT_NE(job_name("fabring host", nonce), job_name("fabring shm", nonce));
}

TEST(NodeBeacon, TheLowestRankOfTheHostIsFoundByItsNameOnly) {
  std::vector<Identity> ranks(4);
  ranks[0].host_id = ranks[2].host_id = "left";
  ranks[1].host_id = ranks[3].host_id = "right";
  const auto open = beacons(fresh_nonce(), 4);
  std::vector<Rank> leaders;
  for (const auto& beacon : open) leaders.push_back(*beacon->find_leader(ranks));
  EXPECT_THAT(leaders, testing::ElementsAre(0, 1, 0, 1));
}

// Nobody takes visitors in, so more of them than the kernel lets wait find the queue full.
TEST(NodeBeacon, MoreRanksThanCanWaitAtItsSocketFindIt) {
  const std::vector<Identity> ranks(2);
  const auto open = beacons(fresh_nonce(), 2);
  for (int visit = 0; visit < 5000; ++visit) ASSERT_EQ(*open[1]->find_leader(ranks), 0) << visit;
}

TEST(NodeBeacon, ARankThatMayOpenNoSocketSaysSo) {
  const auto look = [] {
    const auto open = beacons(fresh_nonce(), 2);
    tests::no_more_files();
    const auto found = open[1]->find_leader(std::vector<Identity>(2));
    EXPECT_THAT(found ? "found" : found.error().message(), testing::HasSubstr("ulimit -n"));
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0), "");
}

TEST(NodeBeacon, WhereASandboxHasNoUnixSocketsItSaysWhatToAllow) {
  const auto look = [] {
    tests::refuse_sockets(AF_UNIX, EAFNOSUPPORT);
    const auto opened = NodeBeacon::open(fresh_nonce(), 0);
    EXPECT_THAT(opened ? "opened" : opened.error().message(), testing::HasSubstr("allow AF_UNIX"));
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0), "");
}

TEST(NodeBeacon, TheSoftLimitOnFilesHidesNobody) {
  const tests::NoMoreFilesForNow none;
  const auto open = beacons(fresh_nonce(), 2);
  ASSERT_EQ(open.size(), 2u);
  none.again();
  const auto found = open[1]->find_leader(std::vector<Identity>(2));
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(*found, 0);
}

}  // namespace
}  // namespace fabring
