// Waiting, waking, and addresses that are none.

#include <thread>

#include "tests/transports/conformance/world.hpp"

namespace fabring::conformance {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr auto long_wait = std::chrono::duration_cast<std::chrono::microseconds>(60s);
constexpr auto soon = 20s;

TEST_P(Conformance, WakeEndsAWaitThatIsUnderWayAndOneThatIsNot) {
  World world(GetParam(), 2);
  world.connect();
  for (int i = 0; i < 3; ++i) world.poll();
  const auto begin = Clock::now();
  world.at(0).wake();
  world.poll(0);  // must not eat it
  world.at(0).wait(long_wait);
  std::thread other([&] { world.at(0).wake(); });
  world.at(0).wait(long_wait);
  other.join();
  EXPECT_LT(Clock::now() - begin, soon);
}

TEST_P(Conformance, AWaitEndsAtItsLimit) {
  World world(GetParam(), 2);
  const auto begin = Clock::now();
  for (int i = 0; i < 3; ++i) world.at(0).wait(2ms);
  EXPECT_LT(Clock::now() - begin, soon);
}

TEST_P(Conformance, AWaitEndsWhenDataComes) {
  World world(GetParam(), 2);
  world.connect();
  const Bytes from = pattern(2'000'000, 1);
  Bytes into(2'000'000);
  for (int round = 0; round < 5; ++round) {
    const auto received = world.recv(1, 0, 1, into);
    // Rank 0 belongs to the other thread from here to the join.
    std::thread other([&world, &from] {
      while (world.at(0).post_send(1, 1, from, 1u << 30) == Post::again) {
        Completion none;
        ASSERT_EQ(world.at(0).poll(std::span(&none, 1)), 0u);
      }
      Completion completion;
      const auto until = Clock::now() + soon;
      while (world.at(0).poll(std::span(&completion, 1)) == 0 && Clock::now() < until) world.at(0).wait(100ms);
      EXPECT_EQ(completion.context, 1u << 30);
    });
    const auto begin = Clock::now();
    while (!world.ending(received) && Clock::now() - begin < soon) {
      world.poll(1);
      if (!world.ending(received)) world.at(1).wait(long_wait);
    }
    other.join();
    EXPECT_LT(Clock::now() - begin, soon);
    EXPECT_TRUE(into == from);
  }
}

TEST_P(Conformance, AnAddressThatCannotBeReadIsAnErrorAndHarmless) {
  World world(GetParam(), 2);
  for (const std::string& bad : {std::string(), std::string("garbage"), std::string(256, 'x'), std::string(256, '\xff'),
                                 std::string(16, '\0'), std::string("tcp 127.0.0.1:99999"), std::string("tcp :1")}) {
    const Status status = world.at(0).add_peer(1, bad);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << bad;
  }
  EXPECT_EQ(world.at(0).add_peer(2, world.at(1).address()).code(), ErrorCode::invalid_argument) << "no such rank";
  EXPECT_EQ(world.at(0).add_peer(-1, world.at(1).address()).code(), ErrorCode::invalid_argument);
  world.connect();
}

}  // namespace
}  // namespace fabring::conformance
