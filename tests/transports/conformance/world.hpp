#pragma once
// The conformance suite: what every Endpoint must do (transports/endpoint.hpp). A transport joins with a Fabric value
// and one INSTANTIATE_TEST_SUITE_P, see tests/transports/tcp/tcp_conformance_test.cpp. All ranks live in the test's
// thread and are polled in turn; every wait has a deadline.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/net/net.hpp"
#include "transports/transport.hpp"

namespace fabring::conformance {

struct Fabric {
  std::string name;
  std::function<std::unique_ptr<Transport>()> transport;  ///< one instance opens all ranks of a world
  std::string bind_address = "127.0.0.1";
  Config config = {};
  /// Wraps each endpoint, to inject faults; empty: as it is.
  std::function<std::unique_ptr<Endpoint>(std::unique_ptr<Endpoint>, Rank)> decorate = {};
  std::size_t ways = 1;  ///< that its addresses may name
  /// A receive from a peer whose endpoint is gone completes as lost by itself (otherwise disconnect() must end it).
  bool notices_death = true;
  /// The listening socket of ours behind an address(), to send strangers to.
  std::function<std::optional<net::SocketAddress>(const std::string& address)> listener = {};
};

/// The same behind faults that are within the contract: refusals, completions late and in another order.
Fabric faulty(Fabric fabric, std::uint32_t seed);

inline void PrintTo(const Fabric& fabric, std::ostream* out) { *out << fabric.name; }
inline std::string fabric_name(const testing::TestParamInfo<Fabric>& info) { return info.param.name; }

using Bytes = std::vector<std::byte>;
Bytes pattern(std::size_t bytes, unsigned seed);

/// What became of a context that was accepted.
struct Ending {
  Outcome outcome;
  std::uint32_t bytes;
};

class World {
 public:
  World(const Fabric& fabric, int size);
  ~World();

  int size() const { return static_cast<int>(ranks_.size()); }
  Endpoint& at(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)].endpoint; }
  const EndpointOptions& options(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)].options; }

  /// Posts, polling all ranks while the answer is `again`; the context.
  std::uint64_t send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes);
  std::uint64_t readable_send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes);
  std::uint64_t recv(Rank at, Rank from, Slot slot, std::span<std::byte> into);
  std::uint64_t cold_recv(Rank at, Rank from, Slot slot, std::span<std::byte> into);
  /// Writes `part` bytes at a time ahead and posts to each of `to`, where that was reached as written; the contexts.
  std::vector<std::uint64_t> send_ahead(Rank from, const std::vector<Rank>& to, Slot slot,
                                        std::span<const std::byte> bytes, std::size_t part);
  /// One try; empty for `again`.
  std::optional<std::uint64_t> try_send(Rank from, Rank to, Slot slot, std::span<const std::byte> bytes);
  std::optional<std::uint64_t> try_recv(Rank at, Rank from, Slot slot, std::span<std::byte> into);

  /// Polls every living rank once. A completion of an unknown or already completed context fails the test.
  void poll();
  void poll(Rank rank);
  /// Polls until it holds; false (and a test failure) after the deadline.
  bool reach(const std::function<bool()>& condition, const char* what);
  bool complete(const std::vector<std::uint64_t>& contexts);
  std::optional<Ending> ending(std::uint64_t context) const;
  std::size_t open_contexts(Rank rank) const { return ranks_[static_cast<std::size_t>(rank)].open.size(); }

  /// A message both ways between all pairs: everything is connected.
  void connect();
  /// Destroys the endpoint; its contexts are forgotten.
  void kill(Rank rank);

 private:
  struct Member {
    EndpointOptions options;
    std::unique_ptr<Endpoint> endpoint;
    std::map<std::uint64_t, Ending> endings;
    std::map<std::uint64_t, bool> open;
  };
  std::optional<std::uint64_t> posted(Member& member, Post post, std::uint64_t context);
  /// Posts with a context of its own until it is accepted, polling all ranks.
  std::uint64_t post(Rank rank, const std::function<Post(std::uint64_t context)>& one, const char* what);

  std::unique_ptr<Transport> transport_;
  std::vector<Member> ranks_;
  std::uint64_t next_context_ = 1;
};

/// A message from rank 0 to rank 1 that arrives whole.
void exchange(World& world);

class Conformance : public testing::TestWithParam<Fabric> {};
using ConformanceOfListener = Conformance;

#define EXPECT_DONE(world, context)                              \
  do {                                                           \
    const auto expect_ending = (world).ending(context);          \
    ASSERT_TRUE(expect_ending.has_value());                      \
    EXPECT_EQ(expect_ending->outcome, ::fabring::Outcome::done); \
  } while (false)

}  // namespace fabring::conformance
