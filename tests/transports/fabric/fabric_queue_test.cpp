// What all peers share fails: the completion queue, an endpoint whose sends never end, or memory for the card. On a
// provider that is made up.

#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"
#include "transports/fabric/error_text.hpp"

namespace fabring {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class FabricQueue : public testing::Test {
 protected:
  void SetUp() override {
    made_up::begin();
    prepare();
    for (Rank rank = 0; rank < 3; ++rank) {
      EndpointOptions options = fabric_options(rank, 3, "made_up");
      options.config.silence_timeout = 50ms;
      options.note = [this](const std::string& text) { notes_.push_back(text); };
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
    made_up::control().answer_to_locking = 0;
    made_up::gpu().reset();
  }

  virtual void prepare() {}

  std::uint16_t port_of(Rank rank) {
    sockaddr_in name{};  // stands in the address blob
    std::memcpy(&name, world_[rank].endpoint->address().data() + 13, sizeof name);
    return ntohs(name.sin_port);
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
  std::vector<std::string> notes_;
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

// ---- a provider that passes for EFA ---------------------------------------------------------------------------------

class EfaQueue : public FabricQueue {
 protected:
  void prepare() override { made_up::control().efa = true; }

  std::string error_of(Rank peer) { return world_[0].endpoint->peer_error(peer).message(); }
  Status error() { return world_[0].endpoint->error(); }
  void tell_late(const made_up::Posted& post) {
    made_up::control().late_error = {FI_ECONNABORTED, 13};
    made_up::control().late_errors = {post};
    for (int i = 0; i < 3; ++i) world_[0].poll();
    ASSERT_TRUE(made_up::control().late_errors.empty());
  }
  void fail_send_to(Rank peer, const made_up::Error& how) {
    made_up::control().answer_to_send = how;
    ASSERT_TRUE(world_.send(0, peer, 1, one_, 1));
    ASSERT_TRUE(world_.until([&] { return world_[0].has(1); }));
    EXPECT_EQ(world_[0].outcome(1), Outcome::lost);
  }
};

TEST_F(EfaQueue, WhatTheProviderSaysOfALostPeerIsPassedOnWithWhatToDo) {
  fail_send_to(1, {FI_ECONNABORTED, 4126, "no answer: our fe80::1,\x1b[7m peer fe80::2"});
  EXPECT_EQ(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
  EXPECT_TRUE(holds(error_of(1), "provider's number 4126: no answer: our fe80::1,?[7m peer fe80::2")) << error_of(1);
  EXPECT_TRUE(holds(error_of(1), "security group to and from itself; fabring doctor explain 4126")) << error_of(1);
  EXPECT_TRUE(error().ok()) << error().message();
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
}

// No rule of a security group stops one that answered before.
TEST_F(EfaQueue, OfAPeerThatDiedTheSecurityGroupIsNotBlamed) {
  fail_send_to(1, {FI_ECONNABORTED, 13});
  EXPECT_TRUE(holds(error_of(1), "provider's number 13: number 13 in words; fabring doctor explain 13")) << error_of(1);
  made_up::control().answer_to_send = {FI_ECONNABORTED, 4124};
  ASSERT_TRUE(world_.send(0, 2, 1, one_, 2));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(2); }));
  EXPECT_TRUE(holds(error_of(2), "number 4124 in words; fabring doctor explain 4124")) << error_of(2);
}

TEST_F(EfaQueue, WithoutASentenceTheNumberIsPutIntoWords) {
  fail_send_to(1, {FI_ENOTCONN, 9});
  EXPECT_TRUE(holds(error_of(1), "provider's number 9: number 9 in words")) << error_of(1);
  EXPECT_FALSE(holds(error_of(1), "security group")) << error_of(1);
}

TEST_F(EfaQueue, WhatThisRankDidWrongIsNotSaidToBeThePeers) {
  fail_send_to(1, {FI_EINVAL, 5, "local key"});
  EXPECT_EQ(error().code(), ErrorCode::transport_error);
  EXPECT_TRUE(holds(error().message(), "refused: Invalid argument (22), provider's number 5: local key"))
      << error().message();
  EXPECT_NE(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
}

// libfabric 1.17 says FI_EIO of all that a card refuses, and FI_EIO is 5 too.
TEST_F(EfaQueue, NorIsItWhereLibfabricHasOneErrorForAll) {
  fail_send_to(1, {FI_EIO, 5});
  EXPECT_EQ(error().code(), ErrorCode::transport_error);
  EXPECT_TRUE(holds(error().message(), "refused: Input/output error (5), provider's number 5: number 5 in words"))
      << error().message();
  EXPECT_NE(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
}

TEST_F(EfaQueue, OfWhatThisRankDidWrongItIsSaidWhereToLookItUp) {
  fail_send_to(1, {FI_EIO, 6});
  EXPECT_TRUE(holds(error().message(), "provider's number 6: number 6 in words; fabring doctor explain 6"))
      << error().message();
}

TEST_F(EfaQueue, NorIsItThisRanksWhenThePeersMemoryIsRefused) {
  fail_send_to(1, {FI_EINVAL, 7, "remote key"});
  EXPECT_TRUE(error().ok()) << error().message();
  EXPECT_EQ(world_[0].endpoint->peer_error(1).code(), ErrorCode::transport_error) << error_of(1);
}

// Before 2.3.1 libfabric tells of a message once for each of its packets that failed.
TEST_F(EfaQueue, AnErrorThatIsToldTwiceEndsNobodyElsesMessage) {
  fail_send_to(1, {FI_ECONNABORTED, 13});
  const made_up::Posted failed = made_up::control().posted.back();
  made_up::control().stuck_sends = true;
  ASSERT_TRUE(world_.send(0, 2, 1, one_, 2));
  tell_late(failed);
  EXPECT_FALSE(world_[0].has(2));
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
  EXPECT_TRUE(error().ok()) << error().message();
  EXPECT_EQ(world_[0].twice, 0);
}

// Likewise of what was under way to a peer that was given up.
TEST_F(EfaQueue, NorDoesOneThatIsToldTwiceOfAPeerThatWasGivenUp) {
  made_up::control().stuck_sends = true;
  ASSERT_TRUE(world_.send(0, 1, 1, one_, 1));
  const made_up::Posted given_up = made_up::control().posted.back();
  world_[0].endpoint->disconnect(1);
  tell_late(given_up);
  ASSERT_TRUE(world_[0].has(1));
  EXPECT_EQ(world_[0].outcome(1), Outcome::aborted);
  ASSERT_TRUE(world_.send(0, 2, 1, one_, 2));
  tell_late(given_up);
  EXPECT_FALSE(world_[0].has(2));
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
  EXPECT_TRUE(error().ok()) << error().message();
}

// libfabric tells the sender that its bytes were read after it has given the receive back.
TEST_F(EfaQueue, AReceiveThatFailsWhenItWasOverLosesItsSenderAndNobodyElse) {
  ASSERT_TRUE(world_.receive(0, 1, 5, one_, 1));
  const made_up::Posted over = made_up::control().posted.back();
  ASSERT_TRUE(world_.send(1, 0, 5, one_, 1));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(1); }));
  ASSERT_TRUE(world_.receive(0, 2, 5, two_, 2));
  ASSERT_EQ(made_up::control().posted.back().context, over.context) << "the record is reused";
  tell_late(over);
  EXPECT_EQ(world_[0].outcome(1), Outcome::done);
  EXPECT_FALSE(world_[0].has(2));
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
  EXPECT_EQ(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
  EXPECT_TRUE(holds(error_of(1), "provider's number 13")) << error_of(1);
  EXPECT_TRUE(error().ok()) << error().message();
  ASSERT_TRUE(world_.send(2, 0, 5, one_, 3));
  EXPECT_TRUE(world_.until([&] { return world_[0].has(2); }));
}

TEST_F(EfaQueue, SoDoesOneWhoseRecordASendHasNow) {
  ASSERT_TRUE(world_.receive(0, 1, 5, one_, 1));
  const made_up::Posted over = made_up::control().posted.back();
  ASSERT_TRUE(world_.send(1, 0, 5, one_, 1));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(1); }));
  made_up::control().stuck_sends = true;
  ASSERT_TRUE(world_.send(0, 2, 5, two_, 2));
  ASSERT_EQ(made_up::control().posted.back().context, over.context) << "the record is reused";
  tell_late(over);
  EXPECT_FALSE(world_[0].has(2));
  EXPECT_TRUE(world_[0].endpoint->peer_error(2).ok());
  EXPECT_FALSE(world_[0].endpoint->peer_error(1).ok());
}

TEST_F(EfaQueue, SoDoesOneWhoseRecordNobodyHas) {
  ASSERT_TRUE(world_.receive(0, 1, 5, one_, 1));
  const made_up::Posted over = made_up::control().posted.back();
  ASSERT_TRUE(world_.send(1, 0, 5, one_, 1));
  ASSERT_TRUE(world_.until([&] { return world_[0].has(1); }));
  tell_late(over);
  EXPECT_FALSE(world_[0].endpoint->peer_error(1).ok());
  EXPECT_EQ(world_[0].twice, 0);
}

TEST_F(EfaQueue, AnErrorThatNamesNothingIsNotedOnce) {
  wait_for_both();
  made_up::Posted nothing = made_up::control().posted.back();
  nothing.context = nullptr;
  tell_late(nothing);
  tell_late(nothing);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_TRUE(holds(notes_[0], "provider's number 13: number 13 in words")) << notes_[0];
  EXPECT_TRUE(error().ok()) << error().message();
}

// Flushed: the card gave the queue pair up before, and nothing that is posted will ever be done.
TEST_F(EfaQueue, AQueuePairThatTheCardHasGivenUpIsThisRanks) {
  fail_send_to(1, {FI_EIO, 1});
  EXPECT_EQ(error().code(), ErrorCode::transport_error);
  EXPECT_NE(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
}

TEST_F(EfaQueue, TooLittleLockedMemoryForTheCardIsSaidWithWhatToDo) {
  wait_for_both();
  made_up::control().card_errors = {{-FI_ENOMEM, 4112}};
  world_[0].endpoint->wait(1us);  // who sleeps need not poll to see it
  EXPECT_EQ(error().code(), ErrorCode::out_of_memory);
  EXPECT_TRUE(holds(error().message(), "Cannot allocate memory (12), provider's number 4112: number 4112 in words"))
      << error().message();
  EXPECT_TRUE(holds(error().message(), "ulimit -l")) << error().message();
}

TEST_F(EfaQueue, ACardInWhichNobodySleepsIsAskedByWhoLooksNow) {
  wait_for_both();
  world_[0].poll();
  made_up::control().card_errors = {{FI_EIO, 4098}};
  world_[0].endpoint->look_now();
  EXPECT_TRUE(holds(error().message(), "the network card failed")) << error().message();
  EXPECT_TRUE(world_.until([&] { return world_[0].has(1) && world_[0].has(2); }));
}

TEST_F(EfaQueue, APeerThatDoesNotAnswerTheCardIsNotedAndNobodyIsLost) {
  made_up::control().card_errors = {
      {FI_ECONNABORTED, 13}, {FI_EHOSTUNREACH, 15}, {FI_ECONNABORTED, 4124}, {FI_ECONNABORTED, 8}, {FI_ENOTCONN, 14}};
  world_[0].endpoint->wait(1us);
  EXPECT_TRUE(made_up::control().card_errors.empty());
  EXPECT_TRUE(error().ok()) << error().message();
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_TRUE(holds(notes_[0], "does not answer over EFA") && holds(notes_[0], "number 13: number 13 in words"))
      << notes_[0];
  ASSERT_TRUE(world_.receive(2, 0, 3, two_, 1));
  ASSERT_TRUE(world_.send(0, 2, 3, one_, 6));
  EXPECT_TRUE(world_.until([&] { return world_[0].has(6) && world_[2].has(1); }));
}

TEST_F(EfaQueue, AnyOtherErrorOfTheCardFailsTheEndpoint) {
  wait_for_both();
  made_up::control().card_errors = {{FI_EIO, 4098}};
  expect_failed_with("the network card failed: Input/output error (5), provider's number 4098: number 4098 in words");
}

// Ranks that have an endpoint for each peer open one where there is something to say.
TEST(FabricIntroductions, WhatThisHostIsShortOfIsNoFaultOfThePeerThatIsNext) {
  const std::pair<int, const char*> shortages[] = {
      {-EMFILE, "ulimit -n"}, {-ENFILE, "fs.file-max"}, {-FI_EADDRINUSE, "net.ipv4.ip_local_port_range"}};
  for (const auto& [answer, advice] : shortages) {
    made_up::begin();
    made_up::control().native = true;
    {
      World world(3, "made_up");
      std::vector<std::byte> into(100);
      ASSERT_TRUE(world.receive(0, 1, 1, into, 1));
      made_up::control().answer_to_opening = answer;
      ASSERT_EQ(world[0].endpoint->post_recv(2, 1, into, 2), Post::accepted);
      const Status why = world[0].endpoint->error();
      EXPECT_EQ(why.code(), ErrorCode::unavailable);
      EXPECT_TRUE(holds(why.message(), "fi_endpoint failed") && holds(why.message(), advice)) << why.message();
      ASSERT_TRUE(world.until([&] { return world[0].has(1) && world[0].has(2); }));
      EXPECT_EQ(world[0].outcome(2), Outcome::lost);
      made_up::control().answer_to_opening = 0;
    }
    made_up::gpu().reset();
  }
}

// An address that a peer gives is refused by its name: that is the peer's.
TEST(FabricIntroductions, APeerWhoseAddressIsRefusedIsNotThisHostsShortage) {
  EXPECT_FALSE(fabric::is_lacking_here(fabric::call_failed("fi_av_insert", FI_EADDRNOTAVAIL)));
}

// Ranks that have an endpoint for each peer are introduced to each other by messages that nobody confirms.
TEST(FabricIntroductions, AnAnswerThatIsLostIsGivenAgain) {
  made_up::begin();
  made_up::control().native = true;
  made_up::control().lost_injection = 2;  // the first is the introduction
  {
    World world(2, "made_up");
    std::vector<std::byte> from = pattern(100, 1), into(100);
    ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
    const auto sent = [&] { return world[0].endpoint->post_send(1, 1, from, 2) == Post::accepted; };
    ASSERT_TRUE(world.until(sent, 10s)) << "rank 0 never learns where to send";
    ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
    EXPECT_EQ(into, from);
    EXPECT_GE(made_up::control().injections, 4) << "the introduction and the answer, twice";
  }
  made_up::gpu().reset();
}

}  // namespace
}  // namespace fabring
