// What a provider that passes for EFA says in its queue: of peers, of this rank, of messages that were over, of the
// card.

#include <rdma/fi_errno.h>

#include "tests/transports/fabric/fabric_queue.hpp"

namespace fabring {
namespace {

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

}  // namespace
}  // namespace fabring
