// Blocking sends before their receives, over real threads: nobody looks for news between two of them.

#include <gtest/gtest.h>

#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

TEST(MessageRounds, of_small_blocking_sends_both_ways_before_any_receive_end) {
  for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm}) {
    for (const int messages : {17, 512}) {
      Config config;
      config.timeout = 20s;
      ThreadWorld world(2, config, over);
      world.run([&](Rank rank, Communicator all) {
        for (int round = 0; round < 20; ++round) {
          for (int i = 0; i < messages; ++i) {
            const Status sent = all.send(&i, 1, DataType::int32, 1 - rank);
            ASSERT_TRUE(sent.ok()) << sent.to_string();
          }
          for (int i = 0; i < messages; ++i) {
            int got = -1;
            const Status received = all.recv(&got, 1, DataType::int32, 1 - rank);
            ASSERT_TRUE(received.ok()) << received.to_string();
            ASSERT_EQ(got, i);
          }
        }
      });
    }
  }
}

// Those of one rank alone: its receiver says now and then that there is room, and the sender looks only when it must.
TEST(MessageRounds, of_small_blocking_sends_one_way_end) {
  for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm}) {
    Config config;
    config.timeout = 20s;
    ThreadWorld world(2, config, over);
    world.run([&](Rank rank, Communicator all) {
      for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 512; ++i) {
          int value = i;
          const Status done =
              rank == 0 ? all.send(&value, 1, DataType::int32, 1) : all.recv(&value, 1, DataType::int32, 0);
          ASSERT_TRUE(done.ok() && value == i) << done.to_string();
        }
        int turn = round;  // the other way, so that all of them have been received
        const Status back = rank == 0 ? all.recv(&turn, 1, DataType::int32, 1) : all.send(&turn, 1, DataType::int32, 0);
        ASSERT_TRUE(back.ok() && turn == round) << back.to_string();
      }
    });
  }
}

}  // namespace
}  // namespace fabring::fixture
