#pragma once
// Two ends of a handshake in one loop, and raw peers that misbehave.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/handshake.hpp"

namespace fabring {

using namespace std::chrono_literals;

constexpr auto patience = 60s;  // for a machine that is busy with other things

class HandshakeTest : public testing::Test {
 protected:
  struct Both {
    HandshakeResult initiator;
    HandshakeResult acceptor;
  };

  static HandshakeOptions options(bool initiator) {
    HandshakeOptions options;
    options.initiator = initiator;
    options.job_id = "job";
    options.job_nonce = 77;
    options.self = initiator ? 3 : 0;
    options.world_size = 8;
    options.lane = initiator ? 5 : 0;
    options.limit = patience;
    return options;
  }

  bool run_until(const std::function<bool()>& done, std::chrono::nanoseconds limit = patience,
                 std::chrono::nanoseconds turn = 20ms) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done() && std::chrono::steady_clock::now() < end) loop_.run_for(turn);
    return done();
  }

  struct Ends {
    std::unique_ptr<net::Stream> connected;
    std::unique_ptr<net::Stream> accepted;
  };

  Ends streams() {
    Ends ends;
    auto listener = net::Listener::open(
        loop_, {"127.0.0.1", 0}, [&](std::unique_ptr<net::Stream> stream) { ends.accepted = std::move(stream); });
    EXPECT_TRUE(listener.has_value());
    const auto guard =
        net::connect(loop_, (*listener)->address(), patience, [&](Result<std::unique_ptr<net::Stream>> result) {
          ASSERT_TRUE(result.has_value());
          ends.connected = std::move(*result);
        });
    EXPECT_TRUE(run_until([&] { return ends.connected && ends.accepted; }));
    return ends;
  }

  Both meet(const HandshakeOptions& initiator, const HandshakeOptions& acceptor) {
    Ends ends = streams();
    std::optional<HandshakeResult> first, second;
    const auto a =
        handshake(loop_, std::move(ends.connected), initiator, [&](HandshakeResult r) { first = std::move(r); });
    const auto b =
        handshake(loop_, std::move(ends.accepted), acceptor, [&](HandshakeResult r) { second = std::move(r); });
    EXPECT_TRUE(run_until([&] { return first && second; }));
    return {std::move(*first), std::move(*second)};
  }

  /// An acceptor on one end; the other end is a raw stream.
  struct Raw {
    std::unique_ptr<net::Stream> stream;
    std::optional<HandshakeResult> result;
    std::shared_ptr<void> guard;
  };
  std::unique_ptr<Raw> raw_against(const HandshakeOptions& end) {
    Ends ends = streams();
    auto raw = std::make_unique<Raw>();
    raw->stream = std::move(end.initiator ? ends.accepted : ends.connected);
    raw->guard = handshake(loop_, std::move(end.initiator ? ends.connected : ends.accepted), end,
                           [at = raw.get()](HandshakeResult result) { at->result = std::move(result); });
    return raw;
  }

  std::string read_exactly(net::Stream& stream, std::size_t bytes) {
    std::string all;
    run_until([&] {
      char byte = 0;
      while (all.size() < bytes) {
        const auto got = stream.read(&byte, 1);
        if (got.state != net::Io::done) return got.state != net::Io::again;
        all.push_back(byte);
      }
      return true;
    });
    return all;
  }

  static void write_all(net::Stream& stream, std::string_view bytes) {
    ASSERT_EQ(stream.write(bytes.data(), bytes.size()).bytes, bytes.size());
  }

  net::Loop loop_;
};

}  // namespace fabring
