// How connections of the tcp transport come about, fail and end. The peer is played by the test.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/support/few_files.hpp"
#include "tests/support/tcp_sockets.hpp"
#include "tests/transports/conformance/world.hpp"
#include "tests/transports/tcp/deaf_listener.hpp"
#include "tests/transports/tcp/tcp_bench.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using conformance::Bytes;
using conformance::pattern;
using tests::no_more_files;
using tests::NoMoreFilesForNow;

[[noreturn]] void end_child() { std::_Exit(testing::Test::HasFailure() ? 1 : 0); }

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

/// The kernel gives up what connects at this moment, in about a second, as under a small net.ipv4.tcp_syn_retries.
void let_the_kernel_give_up() {
  const int at_the_second_try_ms = 1;
  for (const int fd : tests::sockets_in(TCP_SYN_SENT))
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &at_the_second_try_ms, sizeof at_the_second_try_ms);
}

TEST(TcpConnections, AnAttemptThatTheKernelGivesUpIsNotRefusedByThePeer) {
  DeafListener busy;
  ::close(busy.accept());  // room for one of two
  EndpointOptions options = options_of(0);
  options.config.silence_timeout = 1500ms;
  options.config.sockets_per_peer = 2;
  Bench bench(options);
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + busy.address()).ok());
  ASSERT_TRUE(bench.reach([&] {
    let_the_kernel_give_up();
    return !bench.notes.empty() || !bench.endpoint->peer_error(1).ok();
  }));
  EXPECT_TRUE(bench.endpoint->peer_error(1).ok()) << bench.endpoint->peer_error(1).message();
  ASSERT_EQ(bench.notes.size(), 1u);
  EXPECT_NE(bench.notes[0].find("one of several connections to rank 1"), std::string::npos) << bench.notes[0];
  EXPECT_NE(bench.notes[0].find("no answer for 1.5 s"), std::string::npos) << bench.notes[0];
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1500ms);
}

TEST(TcpConnections, TheKernelEndsNoneOfThemWithinTheSilenceAllowed) {
  EndpointOptions low_options = options_of(0), high_options = options_of(1);
  low_options.config.silence_timeout = high_options.config.silence_timeout = 2h;
  Bench low(low_options), high(high_options);
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  ASSERT_TRUE(low.reach([&] { return high.poll(), low.endpoint->unconnected(1).empty(); }));
  const std::vector<int> both = tests::sockets_in(TCP_ESTABLISHED);
  ASSERT_EQ(both.size(), 2u);
  for (const int fd : both) EXPECT_GT(tests::user_timeout_of(fd), 2h);
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

// As many ranks with as many sockets as they may have, which all come while the highest rank computes.
TEST(TcpConnections, AllThatAreExpectedMayComeAtOnce) {
  constexpr Rank others = 9;
  constexpr std::uint32_t sockets = 16;
  constexpr std::size_t all = 9 * 16;
  EndpointOptions options = options_of(others, others + 1);
  options.config.sockets_per_peer = 16;
  Bench bench(options);
  const auto address = net::SocketAddress::parse(bench.endpoint->address().substr(4));
  std::vector<std::shared_ptr<void>> guards;
  std::size_t said = 0, greeted = 0;
  const auto greet = [&](HandshakeResult result) { greeted += result.stream ? 1u : 0u; };
  for (Rank rank = 0; rank < others; ++rank) {
    ASSERT_TRUE(bench.endpoint->add_peer(rank, "tcp 127.0.0.1:9").ok());
    for (std::uint32_t index = 0; index < sockets; ++index) {
      HandshakeOptions hello = hello_of(rank, others + 1);
      hello.initiator = true;
      hello.lane = tcp::pack_lane(index, sockets);
      guards.push_back(net::connect(bench.loop, *address, 30s, [&, hello](auto stream) {
        if (!stream) return;
        guards.push_back(handshake(bench.loop, std::move(*stream), hello, greet));
        ++said;
      }));
    }
  }
  while (said < all && bench.loop.run_for(10s) > 0) {
  }
  ASSERT_EQ(said, all) << "the kernel takes them: net.core.somaxconn";
  ASSERT_TRUE(bench.reach([&] { return greeted + bench.endpoint->counters().strangers >= all; }));
  EXPECT_EQ(bench.endpoint->counters().strangers, 0u);
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

TEST(TcpConnections, TheSoftLimitOnFilesKeepsNobodyFromDialing) {
  EndpointOptions low = options_of(0), high = options_of(1);
  low.world_size = high.world_size = 40;  // connects at the first post
  Bench bench(low), other(high);
  ASSERT_TRUE(bench.endpoint->add_peer(1, other.endpoint->address()).ok());
  ASSERT_TRUE(other.endpoint->add_peer(0, bench.endpoint->address()).ok());
  Bytes into(10);
  const Bytes from = pattern(10, 1);
  const NoMoreFilesForNow none;
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  ASSERT_EQ(other.endpoint->post_send(0, 1, from, 2), Post::accepted);
  ASSERT_TRUE(bench.reach([&] { return other.poll(), bench.ended(1); }));
  EXPECT_EQ(bench.ending(1), Outcome::done) << bench.endpoint->error().message();
  EXPECT_EQ(into, from);
}

TEST(TcpConnections, TheSoftLimitOnFilesKeepsNobodyOut) {
  Bench bench(1);
  const auto address = net::SocketAddress::parse(bench.endpoint->address().substr(4));
  bool greeted = false;
  std::shared_ptr<void> shake;
  const auto guard = net::connect(bench.loop, *address, 30s, [&](auto result) {
    HandshakeOptions hello = hello_of(0);
    hello.initiator = true;
    if (result) shake = handshake(bench.loop, std::move(*result), hello, [&](auto met) { greeted = bool(met.stream); });
  });
  const NoMoreFilesForNow none;  // the one that comes has its own
  EXPECT_TRUE(bench.reach([&] { return greeted || !bench.notes.empty(); }));
  EXPECT_TRUE(greeted);
  EXPECT_TRUE(bench.notes.empty()) << bench.notes[0];
}

void dial_without_files() {
  EndpointOptions options = options_of(0);
  options.world_size = 40;  // connects at the first post
  Bench bench(options);
  Bench other(1);
  for (const Rank peer : {1, 2}) ASSERT_TRUE(bench.endpoint->add_peer(peer, other.endpoint->address()).ok());
  Bytes into(10);
  no_more_files();
  for (const Rank peer : {1, 2})
    ASSERT_EQ(bench.endpoint->post_recv(peer, 1, into, static_cast<std::uint64_t>(peer)), Post::accepted);
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1) && bench.ended(2); }));
  const Status why = bench.endpoint->error();
  EXPECT_EQ(why.code(), ErrorCode::unavailable);
  EXPECT_NE(why.message().find("ulimit -n"), std::string::npos) << why.message();
  EXPECT_EQ(why.context().rank, -1);
}

TEST(TcpConnections, WithoutFilesForThemThisRankIsAtFaultAndNoPeer) {
  EXPECT_EXIT((dial_without_files(), end_child()), testing::ExitedWithCode(0), "");
}

void be_dialed_without_files() {
  Bench bench(1);
  const auto address = net::SocketAddress::parse(bench.endpoint->address().substr(4));
  const auto guard = net::connect(bench.loop, *address, 30s, [](auto) {});
  no_more_files();
  ASSERT_TRUE(bench.reach([&] { return !bench.notes.empty(); }));
  for (int polls = 0; polls < 1000; ++polls) bench.poll();
  ASSERT_EQ(bench.notes.size(), 1u) << "not at every poll";
  EXPECT_NE(bench.notes[0].find("cannot be accepted"), std::string::npos) << bench.notes[0];
  EXPECT_NE(bench.notes[0].find("ulimit -n"), std::string::npos) << bench.notes[0];
}

TEST(TcpConnections, WithoutFilesForWhoComesThisRankWarns) {
  EXPECT_EXIT((be_dialed_without_files(), end_child()), testing::ExitedWithCode(0), "");
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

}  // namespace
}  // namespace fabring
