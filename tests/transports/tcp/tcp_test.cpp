// What only the tcp transport can get wrong: its wire, its waiting, its settings. The peer is played by the test.

#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "tests/transports/conformance/world.hpp"
#include "tests/transports/tcp/tcp_bench.hpp"
#include "transports/tcp/batch.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using conformance::Bytes;
using conformance::pattern;

void expect_lost(Bench& bench, const std::string& why) {
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::lost);
  const Status status = bench.endpoint->peer_error(0);
  EXPECT_NE(status.message().find("connection to rank 0 (127.0.0.1:"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

TEST(TcpWire, AMessageForASlotThatIsNotPostedLosesTheConnection) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(100, std::byte{7});
  bench.endpoint->post_recv(0, 5, into, 1);
  bench.say_header(6, 4);
  (void)bench.stream->write("abcd", 4);
  expect_lost(bench, "slot 6");
  EXPECT_EQ(into, Bytes(100, std::byte{7}));
}

TEST(TcpWire, AMessageLongerThanItsReceiveLosesTheConnectionAndWritesNothing) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(100, std::byte{7});
  bench.endpoint->post_recv(0, 5, into, 1);
  bench.say_header(5, 101);
  const Bytes payload(101, std::byte{1});
  (void)bench.stream->write(payload.data(), payload.size());
  expect_lost(bench, "a message of 101 bytes for slot 5, where 100 are expected");
  EXPECT_EQ(into, Bytes(100, std::byte{7}));
}

TEST(TcpWire, BytesThatAreNoHeaderLoseTheConnection) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(100);
  bench.endpoint->post_recv(0, 5, into, 1);
  const Bytes noise = pattern(64, 3);
  (void)bench.stream->write(noise.data(), noise.size());
  expect_lost(bench, "header");
}

TEST(TcpWire, AnEndInTheMiddleOfAMessageSaysHowFarItWas) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(100);
  bench.endpoint->post_recv(0, 5, into, 1);
  bench.say_header(5, 90);
  (void)bench.stream->write("abcd", 4);
  bench.stream.reset();
  expect_lost(bench, "in the middle of a message (4 of 90 bytes)");
}

TEST(TcpWire, AHeaderAndPayloadMayComeByteByByte) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  // The second's header is padded, and the padding may hold anything.
  const std::array payloads{pattern(300, 1), pattern(tcp::long_message_bytes + 4, 2)};
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    const Bytes& payload = payloads[i];
    Bytes into(payload.size());
    bench.endpoint->post_recv(0, 5, into, i);
    Bytes header(tcp::header_bytes_of(payload.size()), std::byte{0xff});
    tcp::encode({5, static_cast<std::uint32_t>(payload.size())}, header.data());
    Bytes stream(header.size() + 300);
    std::copy_n(payload.begin(), 300, std::copy(header.begin(), header.end(), stream.begin()));
    for (const std::byte b : stream) {
      (void)bench.stream->write(&b, 1);
      bench.poll();
    }
    for (std::size_t at = 300; at < payload.size();) {
      at += bench.stream->write(payload.data() + at, payload.size() - at).bytes;
      bench.poll();
    }
    ASSERT_TRUE(bench.reach([&] { return bench.ended(i); }));
    EXPECT_EQ(bench.ending(i), Outcome::done);
    EXPECT_EQ(into, payload);
  }
}

TEST(TcpWire, AStreamMayNotEndWithinThePaddingOfAHeader) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(tcp::long_message_bytes);
  bench.endpoint->post_recv(0, 5, into, 1);
  bench.say_header(5, tcp::long_message_bytes);
  bench.stream.reset();
  expect_lost(bench, "in the middle of a message header");
}

TEST(TcpWire, WhatIsDoneIsSaidBeforeTheSocketIsReadAgain) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(4), from(4);
  bench.endpoint->post_recv(0, 5, into, 1);
  bench.say_header(5, 4);
  (void)bench.stream->write("abcd", 4);
  bench.endpoint->post_send(0, 6, from, 2);  // the socket takes it at once
  bench.poll();
  EXPECT_TRUE(bench.ended(2));
  EXPECT_FALSE(bench.ended(1));
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::done);
}

TEST(TcpWait, AnIdleWaitSleeps) {
  Bench bench(1);
  ASSERT_TRUE(bench.connect());
  Bytes into(10);
  bench.endpoint->post_recv(0, 1, into, 1);
  const auto cpu_ms = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  const auto before = cpu_ms();
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) {
    bench.poll();
    bench.endpoint->wait(50ms);
  }
  EXPECT_LT(cpu_ms() - before, 100);
}

TEST(TcpSettings, BadOnesAreExplained) {
  const auto error_of = [](auto change) {
    EndpointOptions options = options_of(0);
    change(options);
    const auto opened = make_tcp_transport()->open(options);
    return opened ? Status() : opened.error();
  };
  const Status control = error_of([](EndpointOptions& o) { o.config.congestion_control = "nosuch"; });
  EXPECT_EQ(control.code(), ErrorCode::unsupported);
  EXPECT_NE(control.message().find("allowed here: "), std::string::npos) << control.message();
  EXPECT_EQ(error_of([](auto& o) { o.config.sockets_per_peer = 17; }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([](auto& o) { o.bind_address = "0.0.0.0"; }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([](auto& o) { o.bind_address = "eth0"; }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([](auto& o) { o.bind_address = "192.0.2.1"; }).code(), ErrorCode::unavailable);
  EXPECT_EQ(error_of([](auto& o) { o.self = 2; }).code(), ErrorCode::invalid_argument);
}

TEST(TcpSettings, TheDescriptionNamesAddressSocketsAndCongestionControl) {
  const std::string control = net::system_congestion_control();
  EndpointOptions options = options_of(0);
  options.config.sockets_per_peer = 3;
  options.config.congestion_control = control;
  const auto endpoint = make_tcp_transport()->open(options);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ((*endpoint)->describe(),
            (*endpoint)->address() + ", 3 sockets per peer, " + control + ", nodelay, buffers sized by the kernel");
}

TEST(TcpSettings, OneSocketInsideAHostSeveralBetweenHosts) {
  EndpointOptions options = options_of(2);
  options.world_size = 3;
  options.config.sockets_per_peer = 0;
  const auto endpoint = make_tcp_transport()->open(options);
  ASSERT_TRUE(endpoint);
  ASSERT_TRUE((*endpoint)->add_peer(0, "tcp 127.0.0.1:9").ok());
  EXPECT_EQ((*endpoint)->connections_per_peer(), 1);
  ASSERT_TRUE((*endpoint)->add_peer(1, "tcp 192.0.2.1:9").ok());  // the higher rank dials nobody
  EXPECT_EQ((*endpoint)->connections_per_peer(), 4);
  EXPECT_NE((*endpoint)->describe().find(", 4 sockets per peer, "), std::string::npos);
}

TEST(Batch, IsTheSameStreamHoweverMuchEachWriteTakes) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  constexpr std::size_t lengths[] = {0, 1, 15, 2032, 2033, 70'000};
  std::vector<Bytes> payloads;
  for (unsigned i = 0; i < 400; ++i) payloads.push_back(pattern(lengths[below(std::size(lengths))], i));
  Bytes expected, written;
  std::size_t added = 0, done = 0;
  tcp::Batch batch;
  while (done < payloads.size()) {
    for (std::size_t more = below(4); more > 0 && !batch.full() && added < payloads.size(); --more, ++added) {
      Bytes header(tcp::header_bytes_of(payloads[added].size()));
      tcp::encode({static_cast<Slot>(added), static_cast<std::uint32_t>(payloads[added].size())}, header.data());
      expected.insert(expected.end(), header.begin(), header.end());
      expected.insert(expected.end(), payloads[added].begin(), payloads[added].end());
      batch.add({static_cast<Slot>(added), payloads[added], added});
    }
    ASSERT_EQ(batch.left(), expected.size() - written.size());
    if (batch.empty()) continue;
    const std::size_t offered = 1 + below(batch.left());
    const std::size_t taken = 1 + below(offered);  // as a socket that fills up
    tcp::Batch::Parts parts;
    const std::size_t count = batch.parts(offered, parts);
    std::size_t in_parts = 0;
    const std::size_t end = written.size() + taken;
    for (std::size_t i = 0; i < count; ++i) {
      const auto* at = static_cast<const std::byte*>(parts.at[i].iov_base);
      in_parts += parts.at[i].iov_len;
      written.insert(written.end(), at, at + std::min(parts.at[i].iov_len, end - written.size()));
    }
    ASSERT_EQ(in_parts, offered);
    batch.advance(taken, [&](const tcp::Outgoing& message) { EXPECT_EQ(message.context, done++); });
  }
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(written == expected);
}

}  // namespace
}  // namespace fabring
