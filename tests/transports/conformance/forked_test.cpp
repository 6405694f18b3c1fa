// A program may fork: its children have copies of every connection, which must neither hide an end from a peer nor keep
// this rank awake.

#include "tests/support/forked_child.hpp"
#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Does wait() last? What has just ended may still wake it a few times.
bool sleeps(World& world, Rank rank) {
  int lasted = 0;
  for (int tries = 0; tries < 50 && lasted < 3; ++tries) {
    world.poll(rank);
    const auto begin = Clock::now();
    world.at(rank).wait(20ms);
    if (Clock::now() - begin >= 15ms) ++lasted;
  }
  return lasted == 3;
}

TEST_P(Conformance, AForkedChildHidesNoEndFromAPeer) {
  if (!GetParam().notices_death) GTEST_SKIP() << "it notices no end by itself";
  World world(GetParam(), 3);
  world.connect();
  const ForkedChild child;
  ASSERT_TRUE(child.started());
  Bytes into(1000);
  const auto from_one = world.recv(0, 1, 1, into), from_two = world.recv(2, 0, 1, into);
  world.kill(1);
  world.at(0).disconnect(2);
  ASSERT_TRUE(world.complete({from_one, from_two}));
  EXPECT_EQ(world.ending(from_one)->outcome, Outcome::lost);
  EXPECT_EQ(world.ending(from_two)->outcome, Outcome::lost);
}

TEST_P(Conformance, AForkedChildKeepsNobodyAwake) {
  World world(GetParam(), 3);
  world.connect();
  const ForkedChild child;
  ASSERT_TRUE(child.started());
  world.at(1).disconnect(2);  // both ends of one connection end here, of another only the peer's
  world.at(2).disconnect(1);
  world.kill(0);
  world.at(1).disconnect(0);
  EXPECT_TRUE(sleeps(world, 1));
  EXPECT_TRUE(sleeps(world, 2));
}

}  // namespace
}  // namespace fabring::conformance
