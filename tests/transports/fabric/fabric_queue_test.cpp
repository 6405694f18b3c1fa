// What all peers share fails: the completion queue, or an endpoint whose sends never end. On a provider that is made
// up.

#include <rdma/fi_errno.h>

#include <algorithm>

#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"

namespace fabring {
namespace {

class FabricQueue : public testing::Test {
 protected:
  void SetUp() override {
    made_up::begin();
    for (Rank rank = 0; rank < 3; ++rank) {
      EndpointOptions options = fabric_options(rank, 3, "made_up");
      options.config.silence_timeout = 50ms;
      world_.members.push_back({open_fabric(options), {}, 0});
      ASSERT_NE(world_[rank].endpoint, nullptr);
    }
    for (Rank rank = 0; rank < 3; ++rank)
      for (Rank peer = 0; peer < 3; ++peer)
        if (peer != rank) {
          ASSERT_TRUE(world_[rank].endpoint->add_peer(peer, world_[peer].endpoint->address()).ok());
        }
  }
  void TearDown() override {
    made_up::control().answer_of_queue = made_up::control().answer_of_queue_errors = 0;
    made_up::gpu().reset();
  }

  // Rank 0 waits for both others, and its queue fails.
  void expect_failed_with(const std::string& words) {
    for (int i = 0; i < 1000; ++i) world_[0].poll();
    const Status why = world_[0].endpoint->error();
    EXPECT_EQ(why.code(), ErrorCode::transport_error);
    EXPECT_NE(why.message().find(words), std::string::npos) << why.message();
    for (const Rank peer : {1, 2}) {
      ASSERT_TRUE(world_[0].has(static_cast<std::uint64_t>(peer)));
      EXPECT_EQ(world_[0].outcome(static_cast<std::uint64_t>(peer)), Outcome::lost);
      EXPECT_NE(world_[0].endpoint->peer_error(peer).message().find(words), std::string::npos);
    }
    EXPECT_EQ(world_[0].endpoint->post_send(1, 7, one_, 10), Post::accepted);
    for (int i = 0; i < 10; ++i) world_[0].poll();
    EXPECT_EQ(world_[0].outcome(10), Outcome::lost);
    EXPECT_EQ(world_[0].twice, 0);
    world_[0].endpoint->wait(1ms);
    world_[0].endpoint->close();
  }
  void wait_for_both() {
    ASSERT_TRUE(world_.receive(0, 1, 1, one_, 1));
    ASSERT_TRUE(world_.receive(0, 2, 1, two_, 2));
  }

  World world_{0};
  std::vector<std::byte> one_ = std::vector<std::byte>(10), two_ = one_;
};

TEST_F(FabricQueue, AQueueThatCannotBeReadFailsTheEndpointWithWhatLibfabricSays) {
  wait_for_both();
  made_up::control().answer_of_queue = -FI_EIO;
  expect_failed_with("fi_cq_read failed: Input/output error (5)");
}

TEST_F(FabricQueue, SoDoesOneWhoseErrorsCannotBeRead) {
  wait_for_both();
  made_up::control().answer_of_queue_errors = -FI_EINVAL;
  expect_failed_with("fi_cq_readerr failed: Invalid argument (22)");
}

TEST_F(FabricQueue, AnInterruptedOrWokenReadIsNoFailure) {
  wait_for_both();
  for (const int answer : {-FI_EINTR, -FI_EAGAIN, -FI_ECANCELED}) {
    made_up::control().answer_of_queue = answer;
    for (int i = 0; i < 10; ++i) world_[0].poll();
  }
  made_up::control().answer_of_queue = 0;
  EXPECT_TRUE(world_[0].endpoint->error().ok());
  ASSERT_TRUE(world_.send(1, 0, 1, one_, 5));
  EXPECT_TRUE(world_.until([&] { return world_[0].has(1); }));
}

TEST_F(FabricQueue, SendsThatNeverEndToAPeerThatIsGivenUpEndWithTheEndpoint) {
  made_up::control().stuck_sends = true;
  ASSERT_TRUE(world_.send(0, 1, 1, one_, 3));
  made_up::control().stuck_sends = false;
  ASSERT_TRUE(world_.receive(0, 1, 2, two_, 4));
  world_[0].endpoint->disconnect(1);
  ASSERT_TRUE(world_.until([&] { return world_[0].has(4); })) << "a receive can be cancelled";
  ASSERT_TRUE(world_.until([&] { return world_[0].has(3); }));
  EXPECT_EQ(world_[0].outcome(3), Outcome::aborted);
  const std::string why = world_[0].endpoint->error().message();
  EXPECT_NE(why.find("rank 1, which was given up"), std::string::npos) << why;
  EXPECT_FALSE(world_[0].endpoint->peer_error(2).ok());
}

TEST_F(FabricQueue, WhatEndsInTimeAfterAPeerIsGivenUpDisturbsNobody) {
  ASSERT_TRUE(world_.receive(0, 1, 2, two_, 4));
  world_[0].endpoint->disconnect(1);
  const auto end = Steady::now() + 100ms;
  ASSERT_TRUE(world_.until([&] { return Steady::now() > end; }));
  EXPECT_EQ(world_[0].outcome(4), Outcome::aborted);
  EXPECT_TRUE(world_[0].endpoint->error().ok());
  ASSERT_TRUE(world_.receive(2, 0, 3, two_, 1));
  ASSERT_TRUE(world_.send(0, 2, 3, one_, 6));
  EXPECT_TRUE(world_.until([&] { return world_[0].has(6) && world_[2].has(1); }));
}

}  // namespace
}  // namespace fabring
