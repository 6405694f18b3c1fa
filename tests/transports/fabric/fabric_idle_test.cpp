// Connections of libfabric's TCP on which nothing moves for long, by a clock that is turned.

#include "tests/support/turned_clock.hpp"
#include "tests/transports/fabric/fabric_world.hpp"

namespace fabring {
namespace {

// One side looks at nothing for ten minutes, as a program that computes in a thread that drives; what the other sent it
// meanwhile does not keep data from coming.
TEST(FabricIdle, ConnectionIsSpokenOnAndDataComeBehindThat) {
  auto clock = std::make_shared<fixture::TurnedClock>();
  World world{0};
  for (Rank rank : {0, 1}) {
    EndpointOptions options = fabric_options(rank, 2);
    options.clock = clock;
    world.members.push_back({open_fabric(options), {}, 0});
  }
  for (Rank rank : {0, 1})
    ASSERT_TRUE(world[rank].endpoint->add_peer(1 - rank, world[1 - rank].endpoint->address()).ok());
  const auto from = pattern(50'000, 1);
  std::vector<std::byte> into(from.size());
  const auto exchange = [&](std::uint64_t context) {
    ASSERT_TRUE(world.receive(1, 0, 1, into, context));
    ASSERT_TRUE(world.until([&] {
      clock->time += 10us;
      return world[0].endpoint->post_send(1, 1, from, context) == Post::accepted;
    }));
    ASSERT_TRUE(world.until([&] { return world[0].has(context) && world[1].has(context); }));
    EXPECT_EQ(into, from);
  };
  exchange(1);
  const auto sent = world[0].endpoint->counters().messages_sent;
  const auto received = world[1].endpoint->counters().messages_received;
  for (auto second = 0s; second < 600s; ++second) {
    clock->time += 1s;
    world[0].endpoint->look_now();
    world[0].poll();
  }
  const auto spoken = world[0].endpoint->counters().messages_sent - sent;
  EXPECT_GE(spoken, 10u);
  EXPECT_LE(spoken, 24u);
  exchange(2);
  EXPECT_TRUE(world.until([&] { return world[1].endpoint->counters().messages_received - received == spoken + 1; }));
  EXPECT_TRUE(world[0].endpoint->peer_error(1).ok());
}

}  // namespace
}  // namespace fabring
