// What only the tcp transport can get wrong: its wire, its connections, its settings. The peer is played by the test.

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "runtime/base/handshake.hpp"
#include "tests/support/faulty_endpoint.hpp"
#include "tests/transports/conformance/world.hpp"
#include "transports/slot_table.hpp"
#include "transports/tcp/batch.hpp"
#include "transports/tcp/dialer.hpp"
#include "transports/tcp/frame.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using conformance::Bytes;
using conformance::pattern;

EndpointOptions options_of(Rank self) {
  EndpointOptions options;
  options.self = self;
  options.world_size = 2;
  options.bind_address = "127.0.0.1";
  options.job_nonce = 42;
  options.job_id = "tcp test";
  options.config.sockets_per_peer = 1;
  return options;
}

HandshakeOptions hello_of(Rank self) {
  HandshakeOptions hello;
  hello.job_id = "tcp test";
  hello.job_nonce = 42;
  hello.self = self;
  hello.world_size = 2;
  hello.lane = tcp::pack_lane(0, 1);
  return hello;
}

/// An endpoint, and the test's own loop for the other side of its connection.
struct Bench {
  explicit Bench(Rank self) : Bench(options_of(self)) {}
  explicit Bench(EndpointOptions options) {
    options.note = [this](const std::string& text) { notes.push_back(text); };
    auto opened = make_tcp_transport()->open(options);
    if (opened) endpoint = std::move(*opened);
  }

  template <class Condition>
  bool reach(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      loop.poll();
      poll();
    }
    return true;
  }

  void poll() {
    Completion completions[4];
    const std::size_t count = endpoint->poll(completions);
    for (std::size_t i = 0; i < count; ++i) endings.emplace(completions[i].context, completions[i]);
  }

  /// Connects as rank 0 to an endpoint of rank 1, by the first of so many lanes.
  bool connect(std::uint32_t lanes = 1) {
    const auto address = net::SocketAddress::parse(endpoint->address().substr(4));
    std::shared_ptr<void> shake;
    const auto guard = net::connect(loop, *address, 30s, [&](Result<std::unique_ptr<net::Stream>> result) {
      if (!result) return;
      HandshakeOptions hello = hello_of(0);
      hello.initiator = true;
      hello.lane = tcp::pack_lane(0, lanes);
      shake = handshake(loop, std::move(*result), hello, [&](HandshakeResult r) { stream = std::move(r.stream); });
    });
    char answer = tcp::no_thanks;
    return reach([&] { return stream && stream->read(&answer, 1).bytes == 1; }) && answer == tcp::welcome;
  }

  void say_header(Slot slot, std::uint32_t bytes) {
    std::byte header[tcp::header_bytes];
    tcp::encode({slot, bytes}, header);
    (void)stream->write(header, sizeof(header));
  }

  Outcome ending(std::uint64_t context) { return endings.at(context).outcome; }
  bool ended(std::uint64_t context) { return endings.contains(context); }

  net::Loop loop;
  std::unique_ptr<net::Stream> stream;
  std::unique_ptr<Endpoint> endpoint;
  std::map<std::uint64_t, Completion> endings;
  std::vector<std::string> notes;
};

/// Leaves this process no file that is not open yet, for as long as it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{3, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

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

TEST(TcpConnections, AnAttemptThatIsCutOffIsRepeated) {
  Bench bench(0);
  int visits = 0;
  std::shared_ptr<void> shake;
  auto listener = net::Listener::open(bench.loop, {"127.0.0.1", 0}, [&](std::unique_ptr<net::Stream> visitor) {
    const int visit = ++visits;
    if (visit == 1) return;  // closed before the handshake
    shake = handshake(bench.loop, std::move(visitor), hello_of(1), [&bench, visit](HandshakeResult result) {
      if (visit == 2 || !result.stream) return;  // closed after it, before the welcome
      (void)result.stream->write(&tcp::welcome, 1);
      bench.stream = std::move(result.stream);
    });
  });
  ASSERT_TRUE(listener);
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + (*listener)->address().to_string()).ok());
  const Bytes from = pattern(10, 1);
  ASSERT_EQ(bench.endpoint->post_send(1, 9, from, 1), Post::accepted) << "before there is a connection";
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::done);
  EXPECT_EQ(visits, 3);
}

TEST(TcpConnections, APeerThatIsGoneIsLostAtOnce) {
  Bench bench(0);
  std::string address;
  {
    Bench other(1);
    address = other.endpoint->address();
  }
  ASSERT_TRUE(bench.endpoint->add_peer(1, address).ok());
  Bytes into(10);
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::lost);
  EXPECT_NE(bench.endpoint->peer_error(1).message().find(address.substr(4)), std::string::npos);
}

/// A listener whose queue is full, so that the kernel drops what would connect: as a path that loses every packet.
class DeafListener {
 public:
  DeafListener() {
    socklen_t length = sizeof at_;
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at_), length), 0);
    EXPECT_EQ(::listen(fd_, 0), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at_), &length), 0);
    fill();
  }
  ~DeafListener() {
    for (const int fd : fillers_) ::close(fd);
    ::close(fd_);
  }
  DeafListener(const DeafListener&) = delete;
  DeafListener& operator=(const DeafListener&) = delete;
  void fill() {
    fillers_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fillers_.back(), reinterpret_cast<sockaddr*>(&at_), sizeof at_), 0);
  }
  /// The next one that waits; -1 if none does.
  int accept() { return ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }
  std::string address() const { return "127.0.0.1:" + std::to_string(ntohs(at_.sin_port)); }

 private:
  const int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in at_{};
  std::vector<int> fillers_;
};

TEST(TcpConnections, AnAddressThatNeverAnswersIsLostAfterTheSilenceAllowed) {
  DeafListener deaf;
  EndpointOptions options = options_of(0);
  options.config.silence_timeout = 400ms;
  options.config.sockets_per_peer = 2;
  Bench bench(options);
  const std::string address = deaf.address();
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + address).ok());
  Bytes into(10);
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  EXPECT_EQ(bench.endpoint->unconnected(1), "no data connection yet: " + address + " has not answered");
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::lost);
  const Status why = bench.endpoint->peer_error(1);
  EXPECT_EQ(why.code(), ErrorCode::peer_lost);
  EXPECT_EQ(why.context().rank, 1);
  EXPECT_NE(why.message().find(address + ": no answer for 0.4 s"), std::string::npos) << why.message();
  EXPECT_NE(why.message().find("FABRING_INTERFACE"), std::string::npos) << why.message();
  EXPECT_NE(why.message().find("somaxconn"), std::string::npos) << why.message();
  EXPECT_EQ(bench.endpoint->unconnected(1), "");
}

// A rank that is too busy to accept what its kernel has taken: it is not for its silence that it would be lost.
TEST(TcpConnections, AnAddressThatHasAnsweredIsTriedOnThoughItAnswersNoMore) {
  DeafListener busy;
  ::close(busy.accept());  // room for one
  EndpointOptions options = options_of(0);
  options.config.silence_timeout = 300ms;
  Bench bench(options);
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + busy.address()).ok());
  Bytes into(10);
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  int first = -1, again = -1;
  ASSERT_TRUE(bench.reach([&] { return (first = busy.accept()) >= 0; }));
  busy.fill();
  ::close(first);
  const auto state = [&] { return bench.endpoint->unconnected(1); };
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1) || state().find("no answer for 0.3 s") != std::string::npos; }));
  EXPECT_TRUE(bench.endpoint->peer_error(1).ok()) << bench.endpoint->peer_error(1).message();
  EXPECT_NE(state().find("somaxconn"), std::string::npos) << state();
  ::close(busy.accept());
  ASSERT_TRUE(bench.reach([&] { return (again = busy.accept()) >= 0; })) << "it has time now";
  ::close(again);
}

TEST(TcpConnections, MoreThanTheKernelKeepsWaitingIsWarnedOfOnce) {
  std::size_t queue = 0;
  ASSERT_TRUE(std::ifstream("/proc/sys/net/core/somaxconn") >> queue);
  EndpointOptions options = options_of(static_cast<Rank>(queue / 16 + 2));
  options.world_size = options.self + 1;
  options.config.sockets_per_peer = 16;
  Bench bench(options);
  const auto warnings = [&] {
    return std::count_if(bench.notes.begin(), bench.notes.end(),
                         [](const std::string& note) { return note.find("net.core.somaxconn=") != std::string::npos; });
  };
  for (Rank rank = 0; rank < static_cast<Rank>(queue / 16); ++rank)
    ASSERT_TRUE(bench.endpoint->add_peer(rank, "tcp 127.0.0.1:9").ok());
  EXPECT_EQ(warnings(), 0);
  for (Rank rank = static_cast<Rank>(queue / 16); rank < options.self; ++rank)
    ASSERT_TRUE(bench.endpoint->add_peer(rank, "tcp 127.0.0.1:9").ok());
  EXPECT_EQ(warnings(), 1);
}

TEST(TcpConnections, ALaneThatNeverComesCostsThatLaneOnly) {
  for (const bool greets : {false, true}) {
    EndpointOptions options = options_of(0);
    options.config.timeout = 3s;  // of the good lane too, however busy this host is
    options.config.sockets_per_peer = 2;
    Bench bench(options);
    std::vector<std::unique_ptr<net::Stream>> kept;
    std::vector<std::shared_ptr<void>> shakes;
    int visits = 0;
    auto listener = net::Listener::open(bench.loop, {"127.0.0.1", 0}, [&](std::unique_ptr<net::Stream> visitor) {
      if (++visits > 1 && !greets) return kept.push_back(std::move(visitor));
      shakes.push_back(handshake(bench.loop, std::move(visitor), hello_of(1), [&](HandshakeResult result) {
        ASSERT_TRUE(result.stream);
        if (bench.stream) return kept.push_back(std::move(result.stream));
        (void)result.stream->write(&tcp::welcome, 1);
        bench.stream = std::move(result.stream);
      }));
    });
    ASSERT_TRUE(listener);
    ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + (*listener)->address().to_string()).ok());
    ASSERT_TRUE(bench.reach([&] { return !bench.notes.empty() || !bench.endpoint->peer_error(1).ok(); })) << greets;
    EXPECT_TRUE(bench.endpoint->peer_error(1).ok()) << bench.endpoint->peer_error(1).message();
    ASSERT_EQ(bench.notes.size(), 1u);
    EXPECT_NE(bench.notes[0].find("one of several connections to rank 1"), std::string::npos) << bench.notes[0];
    Bytes into(4);
    bench.endpoint->post_recv(1, 5, into, 1);
    bench.endpoint->post_recv(1, first_quiet_number, {}, 2);
    bench.say_header(5, 4);
    (void)bench.stream->write("abcd", 4);
    ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
    EXPECT_EQ(bench.ending(1), Outcome::done);
    bench.stream.reset();
    ASSERT_TRUE(bench.reach([&] { return bench.ended(2); })) << "nobody waits for what that lane would bring";
    EXPECT_EQ(bench.ending(2), Outcome::aborted);
    EXPECT_TRUE(bench.endpoint->peer_error(1).ok()) << bench.endpoint->peer_error(1).message();
  }
}

TEST(TcpConnections, TheEndOfWhoDialsIsSeenThoughNotAllItsLanesCame) {
  Bench bench(1);
  EXPECT_EQ(bench.endpoint->unconnected(0), "no data connection from it yet");
  ASSERT_TRUE(bench.connect(2));
  EXPECT_EQ(bench.endpoint->unconnected(0), "");
  bench.endpoint->post_recv(0, first_quiet_number, {}, 1);
  bench.stream.reset();
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::aborted);
}

TEST(TcpConnections, WithoutFilesForThemThisRankIsAtFaultAndNoPeer) {
  EndpointOptions options = options_of(0);
  options.world_size = 40;  // connects at the first post
  Bench bench(options);
  Bench other(1);
  for (const Rank peer : {1, 2}) ASSERT_TRUE(bench.endpoint->add_peer(peer, other.endpoint->address()).ok());
  Bytes into(10);
  {
    const NoMoreFiles none;
    for (const Rank peer : {1, 2})
      ASSERT_EQ(bench.endpoint->post_recv(peer, 1, into, static_cast<std::uint64_t>(peer)), Post::accepted);
    ASSERT_TRUE(bench.reach([&] { return bench.ended(1) && bench.ended(2); }));
  }
  const Status why = bench.endpoint->error();
  EXPECT_EQ(why.code(), ErrorCode::unavailable);
  EXPECT_NE(why.message().find("ulimit -n"), std::string::npos) << why.message();
  EXPECT_EQ(why.context().rank, -1);
}

TEST(TcpConnections, WithoutFilesForWhoComesThisRankWarns) {
  Bench bench(1);
  const auto address = net::SocketAddress::parse(bench.endpoint->address().substr(4));
  const auto guard = net::connect(bench.loop, *address, 30s, [](auto) {});
  {
    const NoMoreFiles none;
    ASSERT_TRUE(bench.reach([&] { return !bench.notes.empty(); }));
    for (int polls = 0; polls < 1000; ++polls) bench.poll();
  }
  ASSERT_EQ(bench.notes.size(), 1u) << "not at every poll";
  EXPECT_NE(bench.notes[0].find("cannot be accepted"), std::string::npos) << bench.notes[0];
  EXPECT_NE(bench.notes[0].find("ulimit -n"), std::string::npos) << bench.notes[0];
}

TEST(TcpConnections, ARankThatWasDisconnectedIsToldSo) {
  Bench low(0), high(1);
  high.endpoint->disconnect(0);
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  Bytes into(10);
  ASSERT_EQ(low.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  ASSERT_TRUE(low.reach([&] { return high.poll(), low.ended(1); }));
  EXPECT_EQ(low.ending(1), Outcome::lost);
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
      const auto* at = static_cast<const std::byte*>(parts[i].iov_base);
      in_parts += parts[i].iov_len;
      written.insert(written.end(), at, at + std::min(parts[i].iov_len, end - written.size()));
    }
    ASSERT_EQ(in_parts, offered);
    batch.advance(taken, [&](const tcp::Outgoing& message) { EXPECT_EQ(message.context, done++); });
  }
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(written == expected);
}

TEST(SlotTable, BehavesAsAMapOverRandomOperations) {
  SlotTable table;
  std::map<Slot, std::uint64_t> model;
  std::mt19937 random(7);
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    const Slot slot = (random() % 300) * (random() % 2 == 0 ? 1u : 65536u);
    if (random() % 2 == 0) {
      EXPECT_EQ(table.insert({slot, false, nullptr, 0, step}), model.emplace(slot, step).second);
    } else {
      table.erase(slot);
      model.erase(slot);
    }
    ASSERT_EQ(table.size(), model.size());
    const Slot probe = random() % 300;
    const PostedReceive* found = table.find(probe);
    ASSERT_EQ(found != nullptr, model.contains(probe));
    if (found != nullptr) {
      ASSERT_EQ(found->context, model[probe]);
    }
  }
  std::size_t drained = 0;
  table.drain([&](const PostedReceive&) { ++drained; });
  EXPECT_EQ(drained, model.size());
  EXPECT_EQ(table.size(), 0u);
}

TEST(FaultyEndpoint, DiesAfterItsPostsAndItsContextsStillComplete) {
  auto inner = make_tcp_transport()->open(options_of(1));
  ASSERT_TRUE(inner);
  FaultyEndpoint endpoint(std::move(*inner), {.hold_back = 0.5, .reorder = true, .kill_after_posts = 3});
  Bytes into(10);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(endpoint.killed(), i > 3);
    ASSERT_EQ(endpoint.post_recv(0, static_cast<Slot>(i), into, i), Post::accepted);
  }
  std::map<std::uint64_t, int> seen;
  for (int polls = 0; polls < 1000; ++polls) {
    Completion completions[2];
    const std::size_t count = endpoint.poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].outcome, Outcome::aborted);
      ++seen[completions[i].context];
    }
  }
  EXPECT_EQ(seen, (std::map<std::uint64_t, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
}

}  // namespace
}  // namespace fabring
