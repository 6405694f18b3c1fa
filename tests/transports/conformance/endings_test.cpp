// What an endpoint owes when it, or a peer, ends.

#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

/// Open receives and sends at `at` with `peer`, large enough not to be over at once.
struct OpenPosts {
  OpenPosts(World& world, Rank at, Rank peer) {
    for (int i = 0; i < 8; ++i) {
      const auto slot = static_cast<Slot>(100 + i);
      if (const auto context = world.try_recv(at, peer, slot, into[i])) receives.push_back(*context);
      // The send's receive must be there first, by the contract.
      if (!world.try_recv(peer, at, slot, there[i])) continue;
      if (const auto context = world.try_send(at, peer, slot, from)) sends.push_back(*context);
    }
  }
  std::vector<std::uint64_t> all() const {
    std::vector<std::uint64_t> contexts = receives;
    contexts.insert(contexts.end(), sends.begin(), sends.end());
    return contexts;
  }
  std::vector<Bytes> into = std::vector<Bytes>(8, Bytes(4 << 20));
  std::vector<Bytes> there = std::vector<Bytes>(8, Bytes(4 << 20));
  Bytes from = pattern(4 << 20, 1);
  std::vector<std::uint64_t> receives, sends;
};

TEST_P(Conformance, DisconnectEndsAllContextsOfThatPeerAndDisturbsNoOther) {
  World world(GetParam(), 3);
  world.connect();
  OpenPosts posts(world, 0, 1);
  Bytes into(1000);
  const auto undisturbed = world.recv(0, 2, 1, into);
  world.at(0).disconnect(1);
  ASSERT_TRUE(world.complete(posts.all()));
  for (const auto context : posts.receives) EXPECT_EQ(world.ending(context)->outcome, Outcome::aborted);
  for (const auto context : posts.sends) EXPECT_NE(world.ending(context)->outcome, Outcome::lost);
  EXPECT_FALSE(world.ending(undisturbed));
  const Bytes from = pattern(1000, 7);
  ASSERT_TRUE(world.complete({undisturbed, world.send(2, 0, 1, from)}));
  EXPECT_EQ(into, from);
  // Posts to the disconnected peer are accepted and complete as aborted.
  const auto late_send = world.send(0, 1, 50, from);
  const auto late_recv = world.recv(0, 1, 50, into);
  ASSERT_TRUE(world.complete({late_send, late_recv}));
  EXPECT_EQ(world.ending(late_send)->outcome, Outcome::aborted);
  EXPECT_EQ(world.ending(late_recv)->outcome, Outcome::aborted);
}

TEST_P(Conformance, CloseEndsEveryContextOnce) {
  World world(GetParam(), 3);
  world.connect();
  OpenPosts one(world, 0, 1), two(world, 0, 2);
  world.at(0).close();
  ASSERT_TRUE(world.complete(one.all()));
  ASSERT_TRUE(world.complete(two.all()));
  for (const auto context : one.receives) EXPECT_EQ(world.ending(context)->outcome, Outcome::aborted);
  EXPECT_EQ(world.open_contexts(0), 0u);
  for (int i = 0; i < 100; ++i) world.poll();  // nothing completes a second time
  world.at(0).close();
  Bytes into(10);
  const auto late = world.recv(0, 1, 77, into);
  ASSERT_TRUE(world.complete({late}));
  EXPECT_EQ(world.ending(late)->outcome, Outcome::aborted);
}

TEST_P(Conformance, ADeadPeerEndsItsContextsAndNoOthers) {
  World world(GetParam(), 3);
  world.connect();
  OpenPosts posts(world, 0, 1);
  Bytes into(1000);
  const auto undisturbed = world.recv(0, 2, 1, into);
  world.poll();
  world.kill(1);
  if (!GetParam().notices_death) world.at(0).disconnect(1);
  ASSERT_TRUE(world.complete(posts.all()));
  for (const auto context : posts.receives) EXPECT_NE(world.ending(context)->outcome, Outcome::done);
  if (GetParam().notices_death) {
    for (const auto context : posts.receives) EXPECT_EQ(world.ending(context)->outcome, Outcome::lost);
    const Status why = world.at(0).peer_error(1);
    EXPECT_EQ(why.code(), ErrorCode::peer_lost);
    EXPECT_EQ(why.context().rank, 1);
    EXPECT_NE(why.message().find("rank 1"), std::string::npos) << why.message();
    const auto late = world.recv(0, 1, 60, posts.into[0]);
    ASSERT_TRUE(world.complete({late}));
    EXPECT_EQ(world.ending(late)->outcome, Outcome::lost);
  }
  EXPECT_TRUE(world.at(0).peer_error(2).ok());
  const Bytes from = pattern(1000, 7);
  ASSERT_TRUE(world.complete({undisturbed, world.send(2, 0, 1, from)}));
  EXPECT_EQ(into, from);
}

TEST_P(Conformance, FinishAndCloseRightAfterTheLastSendLosesNothing) {
  for (const Rank leaver : {0, 1}) {
    World world(GetParam(), 2);
    const Rank other = 1 - leaver;
    constexpr int count = 10;
    const Bytes from = pattern(300'001, 5);
    std::vector<Bytes> into(count, Bytes(300'001));
    std::vector<std::uint64_t> receives, sends;
    for (int i = 0; i < count; ++i) {
      receives.push_back(world.recv(other, leaver, static_cast<Slot>(i), into[static_cast<std::size_t>(i)]));
    }
    for (int i = 0; i < count; ++i) sends.push_back(world.send(leaver, other, static_cast<Slot>(i), from));
    ASSERT_TRUE(world.complete(sends));
    world.at(leaver).finish_sending();
    world.at(leaver).close();
    world.kill(leaver);
    ASSERT_TRUE(world.complete(receives));
    for (const auto context : receives) EXPECT_DONE(world, context);
    for (const Bytes& bytes : into) EXPECT_TRUE(bytes == from);
    EXPECT_TRUE(world.at(other).peer_error(leaver).ok()) << world.at(other).peer_error(leaver).to_string();
  }
}

TEST_P(Conformance, FinishSendingFlushesWhatWasAcceptedAndReceivesGoOn) {
  World world(GetParam(), 2);
  const Bytes from = pattern(3'000'000, 5);
  Bytes there(3'000'000), back(3'000'000);
  const auto received = world.recv(1, 0, 1, there);
  const auto returned = world.recv(0, 1, 1, back);
  const auto sent = world.send(0, 1, 1, from);
  world.at(0).finish_sending();
  ASSERT_TRUE(world.complete({received, sent}));
  EXPECT_DONE(world, sent);
  EXPECT_TRUE(there == from);
  ASSERT_TRUE(world.complete({world.send(1, 0, 1, there), returned}));
  EXPECT_DONE(world, returned);
  EXPECT_TRUE(back == from);
}

// Whoever has finished before its peers could connect still takes what they send.
TEST_P(Conformance, WhatComesAfterFinishSendingIsReceivedThoughNothingWasConnected) {
  World world(GetParam(), 2);
  const Bytes from = pattern(1000, 5);
  Bytes into(1000);
  world.at(1).finish_sending();
  const auto received = world.recv(1, 0, 1, into);
  const auto sent = world.send(0, 1, 1, from);
  ASSERT_TRUE(world.complete({received, sent}));
  EXPECT_DONE(world, received);
  EXPECT_DONE(world, sent);
  EXPECT_TRUE(into == from);
  EXPECT_TRUE(world.at(0).peer_error(1).ok()) << world.at(0).peer_error(1).to_string();
}

TEST_P(Conformance, EndpointsMayBeDestroyedWithEverythingOpen) {
  World world(GetParam(), 3);
  world.connect();
  OpenPosts posts(world, 0, 1), more(world, 2, 1);
  world.kill(0);
  world.kill(2);
  world.kill(1);
}

}  // namespace
}  // namespace fabring::conformance
