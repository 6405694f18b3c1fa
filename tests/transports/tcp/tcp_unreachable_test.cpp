// Connections of the tcp transport while the kernel knows no way to the peer.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "runtime/base/net/socket.hpp"
#include "tests/transports/conformance/world.hpp"
#include "tests/transports/tcp/deaf_listener.hpp"
#include "tests/transports/tcp/tcp_bench.hpp"

namespace {

/// So many more calls of connect() have a way, then so many have none, and what comes after has one again.
std::atomic<int> with_a_way{0}, without_a_way{0};
std::atomic<int> why_not{EHOSTUNREACH};

}  // namespace

/// This program's own, instead of the C library's.
extern "C" int connect(int fd, const sockaddr* to, socklen_t length) {
  if (with_a_way.load() > 0) {
    --with_a_way;
  } else if (without_a_way.load() > 0) {
    --without_a_way;
    errno = why_not.load();
    return -1;
  }
  return static_cast<int>(::syscall(SYS_connect, fd, to, length));
}

namespace fabring {
namespace {

using namespace std::chrono_literals;
using conformance::Bytes;

constexpr int always = 1 << 30;

struct TcpUnreachable : testing::Test {
  ~TcpUnreachable() override {
    with_a_way = without_a_way = 0;
    why_not = EHOSTUNREACH;
  }

  static EndpointOptions two_sockets(std::chrono::milliseconds silence) {
    EndpointOptions options = options_of(0);
    options.config.silence_timeout = silence;
    options.config.sockets_per_peer = 2;
    return options;
  }
};

TEST_F(TcpUnreachable, ALaneThatHasNoWayCostsThatLaneOnly) {
  Bench low(two_sockets(400ms)), high(1);
  const auto began = std::chrono::steady_clock::now();
  with_a_way = 1;
  without_a_way = always;
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  ASSERT_TRUE(low.reach([&] { return high.poll(), !low.notes.empty() || !low.endpoint->peer_error(1).ok(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 400ms);
  EXPECT_TRUE(low.endpoint->peer_error(1).ok()) << low.endpoint->peer_error(1).message();
  ASSERT_EQ(low.notes.size(), 1u);
  for (const char* words : {"one of several connections to rank 1", "no answer for 0.4 s", "No route to host"})
    EXPECT_NE(low.notes[0].find(words), std::string::npos) << low.notes[0];
  EXPECT_EQ(low.endpoint->unconnected(1), "") << "the other is there";
}

/// A receive from a peer whom no attempt to connect reaches ends, and not before `allowed`.
void wait_for_nothing(Bench& bench, int error, std::chrono::milliseconds allowed) {
  const auto began = std::chrono::steady_clock::now();
  why_not = error;
  without_a_way = always;
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp 127.0.0.1:9").ok());
  Bytes into(10);
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, allowed);
}

TEST_F(TcpUnreachable, APeerToWhichThereIsNoWayIsLostAfterTheSilenceAllowed) {
  for (const int error : {EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN}) {
    Bench bench(two_sockets(200ms));
    ASSERT_NO_FATAL_FAILURE(wait_for_nothing(bench, error, 200ms));
    EXPECT_EQ(bench.ending(1), Outcome::lost);
    const Status why = bench.endpoint->peer_error(1);
    EXPECT_EQ(why.code(), ErrorCode::peer_lost);
    EXPECT_EQ(why.context().rank, 1);
    for (const std::string& words :
         {std::string("127.0.0.1:9: no answer for 0.2 s"), net::errno_text(error), std::string("FABRING_INTERFACE")})
      EXPECT_NE(why.message().find(words), std::string::npos) << why.message();
    EXPECT_EQ(why.message().find("somaxconn"), std::string::npos) << "nobody is busy: " << why.message();
    EXPECT_TRUE(bench.notes.empty());
  }
}

// As where a neighbour does not answer: the kernel says so 3 s after each attempt, and the last has less.
TEST_F(TcpUnreachable, ThatThereIsNoWayIsSaidThoughTheLastAttemptWasCutShort) {
  DeafListener deaf;
  EndpointOptions options = two_sockets(400ms);
  options.config.sockets_per_peer = 1;
  Bench bench(options);
  without_a_way = 3;
  ASSERT_TRUE(bench.endpoint->add_peer(1, "tcp " + deaf.address()).ok());
  Bytes into(10);
  ASSERT_EQ(bench.endpoint->post_recv(1, 1, into, 1), Post::accepted);
  ASSERT_TRUE(bench.reach([&] { return bench.ended(1); }));
  EXPECT_EQ(without_a_way, 0);
  const std::string why = bench.endpoint->peer_error(1).message();
  EXPECT_NE(why.find("No route to host"), std::string::npos) << why;
  EXPECT_EQ(why.find("somaxconn"), std::string::npos) << why;
}

// What this host lacks says nothing of the peer.
TEST_F(TcpUnreachable, ALaneForWhichThisHostHasNoPortCostsThatLaneOnly) {
  Bench low(two_sockets(400ms)), high(1);
  with_a_way = 1;
  why_not = EADDRNOTAVAIL;
  without_a_way = always;
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  ASSERT_TRUE(low.reach([&] { return high.poll(), !low.notes.empty() || !low.endpoint->peer_error(1).ok(); }));
  EXPECT_TRUE(low.endpoint->peer_error(1).ok()) << low.endpoint->peer_error(1).message();
  EXPECT_TRUE(low.endpoint->error().ok()) << low.endpoint->error().message();
  ASSERT_EQ(low.notes.size(), 1u);
  for (const char* words : {"one of several connections to rank 1", "for 0.4 s", "net.ipv4.ip_local_port_range"})
    EXPECT_NE(low.notes[0].find(words), std::string::npos) << low.notes[0];
}

TEST_F(TcpUnreachable, ARankWhoseHostLacksWhatConnectionsNeedIsAtFaultItself) {
  for (const int error : {EADDRNOTAVAIL, ENOBUFS, ENOMEM}) {
    Bench bench(two_sockets(200ms));
    ASSERT_NO_FATAL_FAILURE(wait_for_nothing(bench, error, 200ms));
    const Status why = bench.endpoint->error();
    EXPECT_EQ(why.code(), ErrorCode::unavailable);
    for (const std::string& words : {std::string("no connection to rank 1: 127.0.0.1:9: not called for 0.2 s"),
                                     net::errno_text(error), std::string("; this host has ")})
      EXPECT_NE(why.message().find(words), std::string::npos) << why.message();
    EXPECT_EQ(why.message().find("a firewall"), std::string::npos) << why.message();
  }
}

TEST_F(TcpUnreachable, APeerIsConnectedOnceThisHostHasPortsAgain) {
  Bench low(two_sockets(30s)), high(1);
  why_not = EADDRNOTAVAIL;
  without_a_way = 5;
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  EXPECT_TRUE(low.reach([&] {
    high.poll();
    return low.endpoint->unconnected(1).empty();
  }));
  EXPECT_TRUE(low.endpoint->peer_error(1).ok()) << low.endpoint->peer_error(1).message();
  EXPECT_TRUE(low.endpoint->error().ok()) << low.endpoint->error().message();
  EXPECT_TRUE(low.notes.empty());
}

TEST_F(TcpUnreachable, APeerIsConnectedOnceThereIsAWayToIt) {
  Bench low(two_sockets(30s)), high(1);
  without_a_way = 5;  // two lanes, and three attempts of theirs to repeat that
  ASSERT_TRUE(low.endpoint->add_peer(1, high.endpoint->address()).ok());
  EXPECT_EQ(without_a_way, 3);
  EXPECT_TRUE(low.reach([&] {
    high.poll();
    return low.endpoint->unconnected(1).empty();
  }));
  EXPECT_TRUE(low.endpoint->peer_error(1).ok()) << low.endpoint->peer_error(1).message();
  EXPECT_TRUE(low.notes.empty());
}

}  // namespace
}  // namespace fabring
