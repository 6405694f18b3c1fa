#pragma once
// A few fabric endpoints in one thread that know each other, and waiting with a deadline: the fixture of the fabric
// transport's own tests (what all transports must do is tested by tests/transports/conformance).

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "transports/fabric/fabric_transport.hpp"

namespace fabring {

using Steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

inline EndpointOptions fabric_options(Rank self, int world_size, const std::string& provider = "tcp",
                                      const std::string& address = "127.0.0.1") {
  EndpointOptions options;
  options.self = self;
  options.world_size = world_size;
  options.bind_address = address;
  options.job_nonce = 0x1234'5678'9abc'def0;
  options.config.provider = provider;
  return options;
}

inline std::unique_ptr<Endpoint> open_fabric(const EndpointOptions& options) {
  auto endpoint = make_fabric_transport()->open(options);
  if (!endpoint) {
    ADD_FAILURE() << endpoint.error().to_string();
    return nullptr;
  }
  return std::move(*endpoint);
}

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 7 + (i >> 8)) & 0xff);
  return bytes;
}

// One endpoint and what has completed on it.
struct Member {
  std::unique_ptr<Endpoint> endpoint;
  std::map<std::uint64_t, Completion> done;
  int twice = 0;  // completions of a context that had completed

  void poll() {
    Completion room[8];
    const std::size_t count = endpoint->poll(room);
    for (std::size_t i = 0; i < count; ++i)
      if (!done.emplace(room[i].context, room[i]).second) ++twice;
  }
  bool has(std::uint64_t context) const { return done.count(context) > 0; }
  Outcome outcome(std::uint64_t context) const { return done.at(context).outcome; }
};

struct World {
  std::vector<Member> members;

  explicit World(int size, const std::string& provider = "tcp", const std::string& address = "127.0.0.1") {
    std::vector<std::string> addresses;
    for (Rank rank = 0; rank < size; ++rank) {
      members.push_back({open_fabric(fabric_options(rank, size, provider, address)), {}, 0});
      addresses.push_back(members.back().endpoint ? members.back().endpoint->address() : "");
    }
    for (Rank rank = 0; rank < size; ++rank)
      for (Rank peer = 0; peer < size; ++peer)
        if (peer != rank && members[rank].endpoint) {
          EXPECT_TRUE(members[rank].endpoint->add_peer(peer, addresses[peer]).ok());
        }
  }

  Member& operator[](Rank rank) { return members[static_cast<std::size_t>(rank)]; }

  // Polls everybody until the condition holds; false when it took too long.
  bool until(const std::function<bool()>& condition, std::chrono::milliseconds limit = 60s) {
    const auto deadline = Steady::now() + limit;
    while (!condition()) {
      for (Member& member : members) member.poll();
      if (Steady::now() > deadline) return false;
    }
    return true;
  }

  bool post(const std::function<Post()>& attempt) {
    return until([&] { return attempt() == Post::accepted; });
  }
  bool send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes, std::uint64_t context) {
    return post([&] { return (*this)[from].endpoint->post_send(to, slot, bytes, context); });
  }
  bool receive(Rank at, Rank from, Slot slot, std::span<std::byte> into, std::uint64_t context) {
    return post([&] { return (*this)[at].endpoint->post_recv(from, slot, into, context); });
  }
};

}  // namespace fabring
