// Two rails of tcp, on two addresses of this host: what their ranks hear of each other though one polls seldom.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/support/turned_clock.hpp"
#include "transports/rails/rails.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::rails {
namespace {

using namespace std::chrono_literals;
using fixture::TurnedClock;

class TcpRails : public testing::Test {
 protected:
  static constexpr Rank idle = 0, waiting = 1, talking = 2;

  void SetUp() override {
    for (Rank rank = 0; rank < 3; ++rank) open(rank);
    each_pair([&](Rank one, Rank other) { ASSERT_TRUE(at(one).add_peer(other, at(other).address()).ok()); });
    // As the engine: each posts a receive before anybody sends, then all send.
    each_pair([&](Rank one, Rank other) { receive(one, other, 1, small_); });
    each_pair([&](Rank one, Rank other) { send(one, other, 1); });
    ASSERT_TRUE(reach([&] { return done_ == posted_; }, {idle, waiting, talking}));
  }

  Endpoint& at(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  void each_pair(const std::function<void(Rank, Rank)>& body) {
    for (Rank one = 0; one < 3; ++one)
      for (Rank other = 0; other < 3; ++other)
        if (one != other) body(one, other);
  }

  void receive(Rank rank, Rank from, Slot slot, std::span<std::byte> into) {
    ASSERT_EQ(at(rank).post_recv(from, slot, into, ++posted_), Post::accepted);
  }
  void send(Rank rank, Rank to, Slot slot) {
    ASSERT_EQ(at(rank).post_send(to, slot, small_, ++posted_), Post::accepted);
  }

  void poll(Rank rank, int times = 1) {
    std::array<Completion, 8> out;
    while (times-- > 0) done_ += at(rank).poll(out);
  }

  bool reach(const std::function<bool()>& condition, const std::vector<Rank>& polled) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      for (const Rank rank : polled) poll(rank);
    }
    return true;
  }

  std::shared_ptr<TurnedClock> clock_ = std::make_shared<TurnedClock>();
  std::array<std::byte, 8> small_{};
  std::vector<std::byte> large_ = std::vector<std::byte>(1 << 20);
  std::uint64_t posted_ = 0, done_ = 0;
  std::vector<std::string> notes_;

 private:
  void open(Rank rank) {
    std::vector<Rail> rails;
    for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
      EndpointOptions options;
      options.self = rank;
      options.world_size = 3;
      options.bind_address = address;
      options.one_of_several = true;
      options.config.sockets_per_peer = 1;
      auto endpoint = make_tcp_transport()->open(options);
      ASSERT_TRUE(endpoint) << endpoint.error().message();
      const std::string number = std::to_string(rails.size());
      // As if the ranks were on hosts of their own.
      rails.push_back({{"eth" + number, "net" + number, "10.0." + number + "." + std::to_string(rank + 1), 1000, true},
                       std::move(*endpoint)});
    }
    RailsOptions how;
    how.self = rank;
    how.world_size = 3;
    how.host = "host" + std::to_string(rank);
    how.patience = 3s;
    how.clock = clock_;
    how.note = [this](const std::string& text, bool) { notes_.push_back(text); };
    ranks_.push_back(*make_rails_endpoint(std::move(rails), how));
  }

  std::vector<std::unique_ptr<Endpoint>> ranks_;
};

// A rank that nobody waits in looks at its endpoint for a moment twice a second, at every 16th poll on the further
// cards. Its socket to who probes was quiet while another was busy, so that only the event loop tells of it.
TEST_F(TcpRails, AnIdleRankAnswersProbesOnAFurtherCardInTime) {
  receive(waiting, idle, slot_on_way(10, 0), large_);  // the first way is taken
  ASSERT_TRUE(reach([&] { return at(waiting).way_from(idle, large_.size()) == 1; }, {idle, waiting}));
  receive(waiting, idle, slot_on_way(11, 1), large_);
  // Numbers of messages that leave the endpoint at any distance from the time when it asks the loop by itself.
  for (int time = 0; time < 16; ++time) {
    for (int message = 0; message < 70 + 9 * time; ++message) {
      receive(idle, talking, slot_on_way(12, 1), small_);
      send(talking, idle, slot_on_way(12, 1));
      const std::uint64_t both = done_ + 2;
      ASSERT_TRUE(reach([&] { return done_ == both; }, {idle, talking}));
    }
    for (const Time until = clock_->time + 4s; clock_->time < until; clock_->time += 500ms) {
      poll(idle, 21);
      poll(waiting, 200);
    }
    const Status error = at(waiting).peer_error(idle);
    ASSERT_TRUE(error.ok()) << time << ": " << error.message();
  }
  EXPECT_TRUE(notes_.empty()) << notes_[0];
}

}  // namespace
}  // namespace fabring::rails
