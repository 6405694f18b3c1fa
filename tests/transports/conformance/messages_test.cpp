// What an endpoint does while all is well.

#include <algorithm>

#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

TEST_P(Conformance, AMessageLandsInTheReceiveOfItsSlotWhateverTheOrder) {
  World world(GetParam(), 3);
  constexpr int count = 40;
  std::vector<Bytes> into(count, Bytes(100)), from;
  std::vector<std::uint64_t> contexts;
  for (int i = 0; i < count; ++i) {
    from.push_back(pattern(static_cast<std::size_t>(60 + i), static_cast<unsigned>(i)));
    contexts.push_back(
        world.recv(1, i % 2 == 0 ? 0 : 2, static_cast<Slot>(i * 7919), into[static_cast<std::size_t>(i)]));
  }
  for (int n = 0; n < count; ++n) {
    const int i = (n * 17 + 5) % count;  // another order than the receives'
    contexts.push_back(
        world.send(i % 2 == 0 ? 0 : 2, 1, static_cast<Slot>(i * 7919), from[static_cast<std::size_t>(i)]));
  }
  ASSERT_TRUE(world.complete(contexts));
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_DONE(world, contexts[i]);
    ASSERT_EQ(world.ending(contexts[i])->bytes, from[i].size());
    EXPECT_TRUE(std::equal(from[i].begin(), from[i].end(), into[i].begin())) << i;
  }
}

TEST_P(Conformance, TheSameSlotFromTwoPeersIsTwoReceives) {
  World world(GetParam(), 3);
  Bytes first(8), second(8);
  const Bytes one = pattern(8, 1), two = pattern(8, 2);
  const auto a = world.recv(1, 0, 5, first);
  const auto b = world.recv(1, 2, 5, second);
  ASSERT_TRUE(world.complete({a, b, world.send(2, 1, 5, two), world.send(0, 1, 5, one)}));
  EXPECT_EQ(first, one);
  EXPECT_EQ(second, two);
}

TEST_P(Conformance, AllSizesArriveAndNothingAroundTheReceiveIsTouched) {
  World world(GetParam(), 2);
  for (const std::size_t bytes : {0ul, 1ul, 15ul, 4095ul, 65536ul, 65537ul, 1ul << 20, (8ul << 20) + 3}) {
    constexpr std::size_t margin = 64, spare = 33;  // the receive is longer than the message
    const Bytes canary(margin, std::byte{0xc5});
    Bytes field(margin + bytes + spare + margin, std::byte{0xc5});
    const Bytes from = pattern(bytes, static_cast<unsigned>(bytes));
    const auto received = world.recv(1, 0, 9, std::span(field).subspan(margin, bytes + spare));
    const auto sent = world.send(0, 1, 9, from);
    ASSERT_TRUE(world.complete({received, sent})) << bytes;
    EXPECT_DONE(world, received);
    EXPECT_DONE(world, sent);
    EXPECT_EQ(world.ending(received)->bytes, bytes);
    EXPECT_TRUE(std::equal(from.begin(), from.end(), field.begin() + margin)) << bytes;
    EXPECT_TRUE(std::equal(canary.begin(), canary.end(), field.begin())) << bytes;
    EXPECT_TRUE(std::equal(canary.begin(), canary.end(), field.end() - margin)) << bytes;
  }
}

// However it is brought there: as the peer likes, which takes another way now and then.
TEST_P(Conformance, WhatThePeerMayReadItselfArrivesLikeAnythingElse) {
  World world(GetParam(), 2);
  world.connect();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{65536}, std::size_t{300'001}})
    for (unsigned round = 0; round < 8; ++round) {
      const Bytes message = pattern(bytes, round);
      Bytes into(bytes);
      const auto received = world.recv(1, 0, 9, into);
      const auto sent = world.readable_send(0, 1, 9, message);
      ASSERT_TRUE(world.complete({received, sent}));
      EXPECT_DONE(world, received);
      EXPECT_DONE(world, sent);
      ASSERT_TRUE(into == message) << bytes << " bytes";
    }
}

TEST_P(Conformance, ThreeRanksSendBulkToEachOtherAtOnceWithoutDeadlock) {
  World world(GetParam(), 3);
  constexpr std::size_t bytes = (4 << 20) + 1;
  std::vector<Bytes> into(18, Bytes(bytes));
  std::vector<std::uint64_t> contexts;
  const auto number = [](Rank to, Rank from, int i) { return static_cast<std::size_t>((to * 3 + from) * 2 + i); };
  const auto each = [&](auto visit) {
    for (int i = 0; i < 2; ++i) {
      for (Rank to = 0; to < 3; ++to) {
        for (Rank from = 0; from < 3; ++from) {
          if (from != to) visit(to, from, i);
        }
      }
    }
  };
  const Bytes from_all[] = {pattern(bytes, 1), pattern(bytes, 2), pattern(bytes, 3)};
  each([&](Rank to, Rank from, int i) {
    contexts.push_back(world.recv(to, from, static_cast<Slot>(i), into[number(to, from, i)]));
  });
  each([&](Rank to, Rank from, int i) {
    contexts.push_back(world.send(from, to, static_cast<Slot>(i), from_all[from]));
  });
  ASSERT_TRUE(world.complete(contexts));
  each([&](Rank to, Rank from, int i) { EXPECT_TRUE(into[number(to, from, i)] == from_all[from]); });
}

TEST_P(Conformance, WhoeverPostsFirstTheOtherMayComeLate) {
  for (const Rank early : {0, 1}) {
    World world(GetParam(), 2);
    const Rank late = 1 - early;
    Bytes there(5), back(5);
    const Bytes from = pattern(5, 3);
    const auto first = world.recv(early, late, 1, back);
    for (int i = 0; i < 200; ++i) world.poll(early);
    const auto second = world.recv(late, early, 2, there);
    const auto sent = world.send(early, late, 2, from);
    ASSERT_TRUE(world.complete({second, sent}));
    ASSERT_TRUE(world.complete({first, world.send(late, early, 1, there)}));
    EXPECT_EQ(back, from);
  }
}

TEST_P(Conformance, ManyReceivesAndSendsMayBeOpenAndAgainIsFollowedByRoom) {
  World world(GetParam(), 2);
  constexpr std::size_t count = 9000;  // beyond what endpoints take at once; more rounds follow where they say `again`
  std::vector<std::uint32_t> into(count), from(count);
  for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<std::uint32_t>(i * 2654435761u);
  std::size_t received = 0, sent = 0;
  std::vector<std::uint64_t> contexts;
  ASSERT_TRUE(world.reach(
      [&] {
        while (received < count) {
          const auto context =
              world.try_recv(1, 0, static_cast<Slot>(received), std::as_writable_bytes(std::span(&into[received], 1)));
          if (!context) break;
          contexts.push_back(*context);
          ++received;
        }
        while (sent < received) {
          const auto context = world.try_send(0, 1, static_cast<Slot>(sent), std::as_bytes(std::span(&from[sent], 1)));
          if (!context) break;
          contexts.push_back(*context);
          ++sent;
        }
        return sent == count;
      },
      "room"));
  ASSERT_TRUE(world.complete(contexts));
  EXPECT_EQ(into, from);
}

TEST_P(Conformance, ABufferIsTheCallersAgainAtOnceAfterItsCompletion) {
  World world(GetParam(), 2);
  constexpr std::size_t bytes = 70'000;
  constexpr int rounds = 60;
  Bytes from(bytes), into(bytes);
  for (int round = 0; round < rounds; ++round) {
    const Bytes expected = pattern(bytes, static_cast<unsigned>(round));
    from = expected;
    const auto received = world.recv(1, 0, 4, into);
    const auto sent = world.send(0, 1, 4, from);
    ASSERT_TRUE(world.reach([&] { return world.ending(sent).has_value(); }, "the send"));
    std::ranges::fill(from, std::byte{0xdd});  // must not reach the peer
    ASSERT_TRUE(world.complete({received}));
    ASSERT_TRUE(into == expected) << round;
    std::ranges::fill(into, std::byte{0xee});
  }
}

TEST_P(Conformance, CountersCountWhatWasMoved) {
  World world(GetParam(), 2);
  const Bytes from = pattern(100'000, 1);
  Bytes into(100'000);
  for (int i = 0; i < 3; ++i) {
    const auto received = world.recv(1, 0, 1, into);
    ASSERT_TRUE(world.complete({received, world.send(0, 1, 1, from)}));
  }
  const EndpointCounters sender = world.at(0).counters(), receiver = world.at(1).counters();
  EXPECT_EQ(sender.messages_sent, 3u);
  EXPECT_EQ(receiver.messages_received, 3u);
  EXPECT_EQ(sender.messages_received, 0u);
  EXPECT_GE(sender.bytes_sent, 300'000u);
  EXPECT_LT(sender.bytes_sent, 303'000u) << "headers are small";
  EXPECT_GE(receiver.bytes_received, 300'000u);
  EXPECT_FALSE(world.at(0).describe().empty());
  EXPECT_LE(world.at(0).address().size(), 256u * GetParam().ways);
}

}  // namespace
}  // namespace fabring::conformance
