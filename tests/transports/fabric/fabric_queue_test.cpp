// What all peers share fails: the completion queue, an endpoint whose sends never end, or memory for the card.

#include <rdma/fi_errno.h>

#include <algorithm>

#include "tests/transports/fabric/fabric_queue.hpp"

namespace fabring {
namespace {

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

TEST_F(FabricQueue, MemoryThatCanNeverBeLockedFailsTheEndpointAndSaysWhy) {
  wait_for_both();
  std::vector<std::byte> landing(1 << 20);  // posted for as long as there is a peer
  ASSERT_TRUE(world_.receive(0, 1, 2, landing, 3));
  made_up::control().answer_to_locking = -FI_ENOMEM;
  EXPECT_EQ(world_[0].endpoint->post_send(1, 7, one_, 10), Post::again) << "it may be short for a moment";
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("fi_mr_reg failed: Cannot allocate memory (12)"), std::string::npos) << notes_[0];
  ASSERT_TRUE(world_.post([&] { return world_[0].endpoint->post_send(1, 7, one_, 10); }));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(10) && world_[0].has(1) && world_[0].has(2); }));
  EXPECT_EQ(world_[0].outcome(10), Outcome::lost);
  const Status why = world_[0].endpoint->error();
  EXPECT_EQ(why.code(), ErrorCode::out_of_memory);
  EXPECT_NE(why.message().find("(10 bytes"), std::string::npos) << why.message();
  EXPECT_NE(why.message().find("ulimit -l"), std::string::npos) << why.message();
  EXPECT_EQ(notes_.size(), 1u);
}

// As rails' pulses are, and receives that are declined.
TEST_F(FabricQueue, ReceivesOfNothingDoNotProlongThePatienceWithMemoryThatCannotBeLocked) {
  made_up::control().answer_to_locking = -FI_ENOMEM;
  std::uint64_t context = 100;
  ASSERT_TRUE(world_.post([&] {
    (void)world_[0].endpoint->post_recv(2, static_cast<Slot>(context), {}, context);
    ++context;
    return world_[0].endpoint->post_send(1, 7, one_, 10);
  }));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(10); }));
  EXPECT_EQ(world_[0].endpoint->error().code(), ErrorCode::out_of_memory);
}

TEST_F(FabricQueue, MemoryThatIsShortWhileOursIsUnderWayIsWaitedFor) {
  std::vector<std::byte> large(1 << 20);
  ASSERT_TRUE(world_.receive(0, 1, first_granted_number, large, 1));
  made_up::control().answer_to_locking = -FI_ENOSPC;
  const auto end = Steady::now() + 150ms;
  while (Steady::now() < end) {
    ASSERT_EQ(world_[0].endpoint->post_recv(2, 1, two_, 2), Post::again);
    world_[0].poll();
  }
  EXPECT_TRUE(world_[0].endpoint->error().ok()) << world_[0].endpoint->error().message();
  made_up::control().answer_to_locking = 0;
  EXPECT_EQ(world_[0].endpoint->post_recv(2, 1, two_, 2), Post::accepted);
}

// The limit is the process's: of several cards each has an endpoint, and each engine its own.
TEST_F(FabricQueue, SoIsMemoryThatIsShortWhileThatOfAnotherEndpointIsUnderWay) {
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{32} << 10}) {
    const auto number = first_granted_number + static_cast<Slot>(bytes);
    std::vector<std::byte> from(bytes), granted(bytes);
    ASSERT_TRUE(world_.receive(1, 2, number, granted, bytes));
    made_up::control().answer_to_locking = -FI_ENOMEM;
    const auto end = Steady::now() + 150ms;
    while (Steady::now() < end) {
      ASSERT_EQ(world_[0].endpoint->post_send(1, number, one_, bytes), Post::again) << bytes;
      world_[0].poll();
    }
    EXPECT_TRUE(world_[0].endpoint->error().ok()) << world_[0].endpoint->error().message();
    made_up::control().answer_to_locking = 0;
    ASSERT_TRUE(world_.send(2, 1, number, from, bytes));
    ASSERT_TRUE(world_.until([&] { return world_[1].has(bytes) && world_[2].has(bytes); }));
  }
  made_up::control().answer_to_locking = -FI_ENOMEM;
  ASSERT_TRUE(world_.post([&] { return world_[0].endpoint->post_send(1, 7, one_, 10); })) << "nothing is under way now";
  EXPECT_EQ(world_[0].endpoint->error().code(), ErrorCode::out_of_memory);
}

TEST_F(FabricQueue, AnyOtherReasonNotToRegisterFailsTheEndpointAtOnce) {
  made_up::control().answer_to_locking = -FI_EINVAL;
  EXPECT_EQ(world_[0].endpoint->post_recv(1, 1, one_, 1), Post::accepted);
  world_[0].poll();
  ASSERT_TRUE(world_[0].has(1));
  EXPECT_EQ(world_[0].outcome(1), Outcome::lost);
  const Status why = world_[0].endpoint->error();
  EXPECT_NE(why.message().find("fi_mr_reg failed: Invalid argument (22)"), std::string::npos) << why.message();
}

TEST_F(FabricQueue, APostThatIsRefusedForWhatIsMissingHereOrWrongWithItFailsTheEndpointAndNoPeer) {
  const int registrations = 270;  // FI_ENOMR
  for (const bool sends : {true, false}) {
    for (const int answer : {FI_ENOMEM, registrations, FI_EINVAL, FI_EMSGSIZE}) {
      World world(3, "made_up");
      made_up::control().answer_to_posting = -answer;
      ASSERT_EQ(sends ? world[0].endpoint->post_send(1, 7, one_, 1) : world[0].endpoint->post_recv(1, 7, one_, 1),
                Post::accepted);
      made_up::control().answer_to_posting = 0;
      world[0].poll();
      ASSERT_TRUE(world[0].has(1));
      EXPECT_EQ(world[0].outcome(1), Outcome::lost);
      const Status why = world[0].endpoint->error();
      const bool is_short = answer == FI_ENOMEM || answer == registrations;
      EXPECT_EQ(why.code(), is_short ? ErrorCode::out_of_memory : ErrorCode::transport_error) << answer;
      EXPECT_TRUE(holds(why.message(), sends ? "fi_tsend failed" : "fi_trecv failed")) << why.message();
      EXPECT_NE(world[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
    }
  }
}

TEST_F(FabricQueue, APostThatIsRefusedForThePeerLosesIt) {
  made_up::control().answer_to_posting = -FI_EHOSTUNREACH;
  ASSERT_EQ(world_[0].endpoint->post_send(1, 7, one_, 1), Post::accepted);
  made_up::control().answer_to_posting = 0;
  world_[0].poll();
  EXPECT_EQ(world_[0].outcome(1), Outcome::lost);
  EXPECT_FALSE(world_[0].endpoint->peer_error(1).ok());
  EXPECT_TRUE(world_[0].endpoint->error().ok());
}

// What is full then may be what all peers share.
TEST_F(FabricQueue, NoPeerIsGivenUpForAFullQueueWhileSendsToAnotherAreUnderWay) {
  made_up::control().stuck_sends = true;
  ASSERT_TRUE(world_.send(0, 2, 1, two_, 1));
  made_up::control().stuck_sends = false;
  made_up::control().full_to = port_of(1);
  const auto end = Steady::now() + 150ms;
  while (Steady::now() < end) {
    ASSERT_EQ(world_[0].endpoint->post_send(1, 1, one_, 2), Post::again);
    world_[0].poll();
  }
  made_up::control().full_to = 0;
  ASSERT_EQ(world_[0].endpoint->post_send(1, 1, one_, 2), Post::accepted);
}

TEST_F(FabricQueue, APeerThatNothingCanBeSentToWhileNothingElseIsUnderWayIsGivenUp) {
  made_up::control().full_to = port_of(1);
  ASSERT_TRUE(world_.post([&] { return world_[0].endpoint->post_send(1, 1, one_, 2); }));
  EXPECT_TRUE(holds(world_[0].endpoint->peer_error(1).message(), "no connection in"))
      << world_[0].endpoint->peer_error(1).message();
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
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

TEST_F(FabricQueue, AQueueWithAWaitObjectSleeps) {
  EXPECT_EQ(made_up::control().waiting_queues, 3);
  EXPECT_FALSE(world_[0].endpoint->wait_looks());
  EXPECT_FALSE(holds(world_[0].endpoint->describe(), "naps")) << world_[0].endpoint->describe();
}

class QueueNobodyMayWake : public FabricQueue {
 protected:
  void prepare() override { made_up::control().manual = true; }
};

TEST_F(QueueNobodyMayWake, IsOpenedWithoutAWaitObjectAndSaysThatItNaps) {
  EXPECT_EQ(made_up::control().waiting_queues, 0);
  EXPECT_TRUE(world_[0].endpoint->wait_looks());
  EXPECT_TRUE(holds(world_[0].endpoint->describe(), ", polls with naps: no other thread may wake it"))
      << world_[0].endpoint->describe();
  ASSERT_TRUE(world_.receive(2, 0, 3, two_, 1));
  ASSERT_TRUE(world_.send(0, 2, 3, one_, 6));
  world_[2].endpoint->wait(1h);
  world_[2].poll();
  EXPECT_TRUE(world_[2].has(1));
}

}  // namespace
}  // namespace fabring
