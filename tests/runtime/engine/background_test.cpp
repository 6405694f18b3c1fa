// What a rank's endpoint is asked while its program calls, or calls nothing.

#include <gtest/gtest.h>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

// What it calls may never ask the network: two ranks of a host share memory.
TEST(Background, busy_rank_has_its_endpoint_look_at_all_of_it_now_and_then) {
  SimWorld world({.ranks = 2});
  world.engine(0).look_when_idle();
  world.everyone_calls({.count = 10});
  ASSERT_TRUE(world.run());
  const auto before = world.fabric().looks(0);
  for (int i = 0; i < 1200; ++i) {  // a minute
    world.everyone_calls({.count = 10});
    world.linger(50ms);
  }
  const auto looks = world.fabric().looks(0) - before;
  EXPECT_GE(looks, 4u);
  EXPECT_LE(looks, 12u);
}

}  // namespace
}  // namespace fabring::fixture
