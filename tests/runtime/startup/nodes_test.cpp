#include "runtime/startup/nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <vector>

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
  const std::vector<Identity> ranks(2);
  const auto open = beacons(fresh_nonce(), 2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto found = open[1]->find_leader(ranks);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message(), testing::HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace fabring
