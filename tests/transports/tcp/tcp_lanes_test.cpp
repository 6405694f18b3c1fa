// Which lanes the tcp transport looks at, where many peers send at once. The peers are played by the test.

#include "tests/transports/conformance/world.hpp"
#include "tests/transports/tcp/tcp_bench.hpp"

namespace fabring {
namespace {

using conformance::Bytes;

constexpr std::uint32_t long_bytes = tcp::long_message_bytes, short_bytes = 8;
constexpr Slot long_slot = 100, short_slot = 101;

class TcpManyLanes : public testing::TestWithParam<Rank> {};

// The short message is read together with the end of the long one, which ends the turn: it waits in the lane while the
// others have theirs, and the kernel has nothing more for it.
TEST_P(TcpManyLanes, AMessageReadBehindALongOneIsNotForgotten) {
  const Rank peers = GetParam();
  Bench bench(options_of(peers, peers + 1));
  std::vector<std::unique_ptr<net::Stream>> streams;
  std::vector<Bytes> into(static_cast<std::size_t>(peers), Bytes(long_bytes + short_bytes));
  for (Rank peer = 0; peer < peers; ++peer) {
    ASSERT_TRUE(bench.connect(1, peer));
    streams.push_back(std::move(bench.stream));
    const auto number = static_cast<std::size_t>(peer);
    const std::span<std::byte> all(into[number]);
    bench.endpoint->post_recv(peer, long_slot, all.first(long_bytes), 2 * number);
    bench.endpoint->post_recv(peer, short_slot, all.last(short_bytes), 2 * number + 1);
  }
  Bytes wire(tcp::padded_header_bytes + long_bytes + tcp::header_bytes + short_bytes);
  tcp::encode({long_slot, long_bytes}, wire.data());
  tcp::encode({short_slot, short_bytes}, wire.data() + tcp::padded_header_bytes + long_bytes);
  const std::span<const std::byte> first = std::span(wire).first(wire.size() / 2);  // a socket has room for that
  const auto say_to_all = [&](std::span<const std::byte> bytes) {
    for (const auto& stream : streams) ASSERT_EQ(stream->write(bytes.data(), bytes.size()).bytes, bytes.size());
  };
  const std::uint64_t before = bench.endpoint->counters().bytes_received;
  say_to_all(first);
  ASSERT_TRUE(
      bench.reach([&] { return bench.endpoint->counters().bytes_received == before + first.size() * streams.size(); }));
  say_to_all(std::span(wire).subspan(first.size()));
  EXPECT_TRUE(bench.reach([&] { return bench.endings.size() == 2 * streams.size(); }))
      << bench.endings.size() << " of " << 2 * streams.size() << " messages came";
}

TEST(TcpLane, SaysHowMuchOfALongMessageIsStillToMove) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  EXPECT_EQ(bench.endpoint->bytes_in_motion(0), 0u);
  Bytes into(long_bytes), wire(tcp::padded_header_bytes + long_bytes);
  bench.endpoint->post_recv(0, long_slot, into, 1);
  tcp::encode({long_slot, long_bytes}, wire.data());
  const std::size_t half = wire.size() / 2;
  ASSERT_EQ(bench.stream->write(wire.data(), half).bytes, half);
  EXPECT_TRUE(bench.reach([&] { return bench.endpoint->bytes_in_motion(0) == wire.size() - half; }));
  ASSERT_EQ(bench.stream->write(wire.data() + half, wire.size() - half).bytes, wire.size() - half);
  EXPECT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.endpoint->bytes_in_motion(0), 0u);

  Bytes from(64u << 20);  // more than sockets hold
  bench.endpoint->post_send(0, long_slot, from, 2);
  EXPECT_TRUE(bench.reach([&] {
    const auto left = bench.endpoint->bytes_in_motion(0);
    return left > 0 && left < from.size();
  }));
}

// One of two sockets to a peer stands still in the middle of a message: whatever comes after it goes by the other.
TEST(TcpTwoLanes, WhatComesBehindALaneThatIsFullGoesByTheOther) {
  Bench bench(1);
  std::vector<std::unique_ptr<net::Stream>> streams;
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    ASSERT_TRUE(bench.connect(2, 0, lane));
    streams.push_back(std::move(bench.stream));
  }
  constexpr std::uint64_t stuck = 0, later = 20;
  const Bytes huge(64u << 20), other(1u << 20), small(short_bytes);  // the first is more than sockets hold
  bench.endpoint->post_send(0, long_slot, huge, stuck);
  std::byte first;
  std::unique_ptr<net::Stream> moving;
  ASSERT_TRUE(bench.reach([&] {
    for (const std::size_t lane : {0, 1})
      if (!moving && streams[lane]->read(&first, 1).bytes == 1) moving = std::move(streams[1 - lane]);
    return moving != nullptr;
  }));
  // The first of these finds a lane idle, the others wait for one.
  std::size_t bytes = 0;
  for (std::uint64_t context = stuck + 1; context <= later; ++context) {
    const Bytes& message = context % 5 == 0 ? small : other;
    bytes += tcp::header_bytes_of(message.size()) + message.size();
    ASSERT_EQ(bench.endpoint->post_send(0, static_cast<Slot>(long_slot + context), message, context), Post::accepted);
  }
  Bytes read(1u << 20);
  std::size_t came = 0;
  EXPECT_TRUE(bench.reach([&] {
    came += moving->read(read.data(), read.size()).bytes;
    return came >= bytes && bench.endings.size() == later;
  })) << came
      << " of " << bytes << " bytes came, and " << bench.endings.size() << " of " << later << " messages are out";
  EXPECT_EQ(came, bytes);
  EXPECT_FALSE(bench.ended(stuck));
}

TEST(TcpLane, CountsAsMemoryOnceItIsThere) {
  Bench bench(1);
  ASSERT_TRUE(bench.endpoint->add_peer(0, "tcp 127.0.0.1:9").ok());  // the higher rank dials nobody
  const std::size_t before = bench.endpoint->held_bytes(), most = bench.endpoint->most_held_bytes();
  EXPECT_GT(most, before);
  EXPECT_LT(most - before, 2048u) << "a large world has thousands of them";
  ASSERT_TRUE(bench.connect());
  EXPECT_EQ(bench.endpoint->held_bytes(), most);
  EXPECT_EQ(bench.endpoint->most_held_bytes(), most);
}

INSTANTIATE_TEST_SUITE_P(Peers, TcpManyLanes, testing::Values(20, 70));

}  // namespace
}  // namespace fabring
