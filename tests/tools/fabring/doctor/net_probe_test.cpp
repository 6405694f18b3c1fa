// NetProbe between two ranks of one process, and against doors where somebody else sits: each is told apart.

#include "tools/fabring/doctor/net_probe.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <limits>
#include <thread>

namespace fabring::tools {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

HandshakeOptions greeting(Rank self) {
  HandshakeOptions options;
  options.purpose = Purpose::data;
  options.job_id = "test";
  options.job_nonce = 77;
  options.self = self;
  options.world_size = 2;
  return options;
}

ProbeLimits short_limits() { return {2s, 500ms, 2s}; }

/// A listening socket of somebody else, who treats every visitor in his own way, in a thread.
class Stranger {
 public:
  explicit Stranger(std::function<void(int)> treat) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = {"127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this, treat] {
      for (int visitor; (visitor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(visitor))
        treat(visitor);
    });
  }
  ~Stranger() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  const net::SocketAddress& address() const { return address_; }

 private:
  int listener_;
  net::SocketAddress address_;
  std::thread thread_;
};

Probe probe(const net::SocketAddress& address, Rank rank = 1) {
  NetProbe self(greeting(0), short_limits());
  EXPECT_TRUE(self.start().ok());
  const auto found = self.call({{rank, 0, address}}, std::chrono::steady_clock::now() + 20s);
  return found.at(0);
}

TEST(NetProbe, TwoRanksReachEachOther) {
  NetProbe one(greeting(0), short_limits()), other(greeting(1), short_limits());
  const auto at_one = one.listen("127.0.0.1"), at_other = other.listen("127.0.0.1");
  ASSERT_TRUE(at_one.has_value() && at_other.has_value());
  ASSERT_TRUE(one.start().ok() && other.start().ok());
  const auto end = std::chrono::steady_clock::now() + 20s;
  const auto there = one.call({{1, 0, *at_other}}, end), back = other.call({{0, 0, *at_one}}, end);
  for (const auto& found : {there[0], back[0]}) {
    EXPECT_EQ(found.reach, Reach::fine) << found.text;
    EXPECT_GT(found.rtt_us, 0u);
    EXPECT_GT(found.path_mtu, 0u);
    EXPECT_LT(std::abs(found.offset_us), 1'000'000);
  }
}

TEST(NetProbe, NobodyListens) {
  net::SocketAddress free;
  {
    NetProbe gone(greeting(1), short_limits());
    free = *gone.listen("127.0.0.1");
  }
  EXPECT_EQ(probe(free).reach, Reach::refused);
}

TEST(NetProbe, AnHttpServerIsAWrongService) {
  Stranger http([](int visitor) {
    constexpr std::string_view answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    (void)!::send(visitor, answer.data(), answer.size(), MSG_NOSIGNAL);
    char bytes[256];
    while (::recv(visitor, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  EXPECT_EQ(probe(http.address()).reach, Reach::wrong_service);
}

TEST(NetProbe, WhoeverAcceptsAndClosesCuts) {
  Stranger reset([](int visitor) {
    const linger hard{1, 0};
    (void)::setsockopt(visitor, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  });
  EXPECT_EQ(probe(reset.address()).reach, Reach::cut);
}

TEST(NetProbe, WhoeverAcceptsAndSaysNothingIsMute) {
  Stranger mute([](int visitor) {
    char bytes[256];
    while (::recv(visitor, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  EXPECT_EQ(probe(mute.address()).reach, Reach::mute);
}

TEST(NetProbe, ARankOfAnotherJobOrAnotherRankTurnsAway) {
  HandshakeOptions elsewhere = greeting(1);
  elsewhere.job_id = "another";
  NetProbe other(elsewhere, short_limits()), twin(greeting(0), short_limits());
  const auto at_other = other.listen("127.0.0.1"), at_twin = twin.listen("127.0.0.1");
  ASSERT_TRUE(other.start().ok() && twin.start().ok());
  EXPECT_EQ(probe(*at_other).reach, Reach::turned_away);
  EXPECT_THAT(probe(*at_other).text, HasSubstr("job"));
  EXPECT_NE(probe(*at_twin).reach, Reach::fine) << "rank 0 answers where rank 1 should";
}

// One that speaks the protocol, but whose clock is none.
TEST(NetProbe, ARankMaySayAnyTime) {
  for (const std::int64_t time : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    net::Loop loop;
    std::shared_ptr<void> guard;
    std::shared_ptr<FrameStream> link;
    auto listener = net::Listener::open(loop, {"127.0.0.1", 0}, [&](std::unique_ptr<net::Stream> stream) {
      guard = handshake(loop, std::move(stream), greeting(1), [&](HandshakeResult result) {
        if (!result.stream) return;
        const auto answer = [&](std::uint8_t type, std::string_view payload) {
          const bool small = payload.size() == 16;
          link->send(type + 1, small ? WireWriter().number(time).take() : std::string());
          return true;
        };
        link = FrameStream::open(loop, std::move(result.stream), 1 << 20, {answer, [](const std::string&) {}});
      });
    });
    ASSERT_TRUE(listener);
    std::atomic<bool> over = false;
    std::thread other([&] {
      while (!over) loop.run_for(10ms);
    });
    const Probe found = probe((*listener)->address());
    over = true;
    other.join();
    EXPECT_EQ(found.reach, Reach::fine) << found.text;
    EXPECT_EQ(found.offset_us < 0, time < 0);
    link.reset();
    guard.reset();
  }
}

TEST(NetProbe, ADeadlineLeavesTheRestUntriedAndNothingHangs) {
  Stranger mute([](int visitor) {
    char bytes[256];
    while (::recv(visitor, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  NetProbe self(greeting(0), {2s, 60s, 60s});
  ASSERT_TRUE(self.start().ok());
  const auto began = std::chrono::steady_clock::now();
  const std::vector<NetProbe::Target> targets(40, {1, 0, mute.address()});
  const auto found = self.call(targets, began + 200ms);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  ASSERT_EQ(found.size(), 40u);
  for (const Probe& one : found) EXPECT_EQ(one.reach, Reach::not_tried);
}

TEST(NetProbe, WhatAnEarlierCallLeftDoesNotDisturbTheNext) {
  Stranger mute([](int visitor) {
    char bytes[256];
    while (::recv(visitor, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  NetProbe self(greeting(0), {2s, 300ms, 2s}), other(greeting(1), short_limits());
  const auto at_other = other.listen("127.0.0.1");
  ASSERT_TRUE(self.start().ok() && other.start().ok());
  const std::vector<NetProbe::Target> many(20, {1, 0, mute.address()});
  for (const Probe& one : self.call(many, std::chrono::steady_clock::now() + 10ms))
    EXPECT_EQ(one.reach, Reach::not_tried);
  // The visits of the first call end while this one goes on.
  const auto found = self.call({{1, 3, *at_other}}, std::chrono::steady_clock::now() + 20s);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reach, Reach::fine);
  EXPECT_EQ(found[0].door, 3);
}

}  // namespace
}  // namespace fabring::tools
