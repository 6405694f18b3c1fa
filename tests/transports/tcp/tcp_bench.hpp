#pragma once
// Bench: an endpoint of the tcp transport whose peer is played by the test.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/handshake.hpp"
#include "runtime/base/net/net.hpp"
#include "transports/tcp/dialer.hpp"
#include "transports/tcp/frame.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring {

inline EndpointOptions options_of(Rank self, int world_size = 2) {
  EndpointOptions options;
  options.self = self;
  options.world_size = world_size;
  options.bind_address = "127.0.0.1";
  options.job_nonce = 42;
  options.job_id = "tcp test";
  options.config.sockets_per_peer = 1;
  return options;
}

inline HandshakeOptions hello_of(Rank self, int world_size = 2) {
  HandshakeOptions hello;
  hello.job_id = "tcp test";
  hello.job_nonce = 42;
  hello.self = self;
  hello.world_size = world_size;
  hello.lane = tcp::pack_lane(0, 1);
  return hello;
}

/// An endpoint, and the test's own loop for the other side of its connection.
struct Bench {
  explicit Bench(Rank self) : Bench(options_of(self)) {}
  explicit Bench(EndpointOptions options) : world_size(options.world_size) {
    options.note = [this](const std::string& text) { notes.push_back(text); };
    auto opened = make_tcp_transport()->open(options);
    if (opened) endpoint = std::move(*opened);
  }

  template <class Condition>
  bool reach(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
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

  /// Connects as a rank below the endpoint's, by this one of so many lanes.
  bool connect(std::uint32_t lanes = 1, Rank as = 0, std::uint32_t lane = 0) {
    const auto address = net::SocketAddress::parse(endpoint->address().substr(4));
    std::shared_ptr<void> shake;
    const auto guard =
        net::connect(loop, *address, std::chrono::seconds(30), [&](Result<std::unique_ptr<net::Stream>> result) {
          if (!result) return;
          HandshakeOptions hello = hello_of(as, world_size);
          hello.initiator = true;
          hello.lane = tcp::pack_lane(lane, lanes);
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

  const int world_size;
  net::Loop loop;
  std::unique_ptr<net::Stream> stream;
  std::unique_ptr<Endpoint> endpoint;
  std::map<std::uint64_t, Completion> endings;
  std::vector<std::string> notes;
};

}  // namespace fabring
