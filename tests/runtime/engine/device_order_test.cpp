// Operations on memory of a fake GPU: what they begin after, what keeps them waiting or ends them, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/engine/device_world.hpp"

namespace fabring::fixture {
namespace {

TEST(OnDevice, an_operation_begins_after_the_work_its_stream_was_given_before) {
  DeviceWorld ranks(3);
  ranks.world.device().hold(ranks.world.stream(1));
  for (Rank rank = 0; rank < 3; ++rank) {
    ranks.fill_late(rank);
    ranks.call(rank);
  }
  EXPECT_FALSE(ranks.run(std::chrono::milliseconds(500)));
  ranks.world.device().release(ranks.world.stream(1));
  ASSERT_TRUE(ranks.run());
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(ranks.works[static_cast<std::size_t>(rank)]->status().ok());
    EXPECT_EQ(ranks.see(rank)[0], 6.0F);
    EXPECT_EQ(ranks.see(rank)[DeviceWorld::count - 1], 6.0F);
  }
}

TEST(OnDevice, an_operation_without_a_stream_begins_after_the_default_ones_of_both_its_gpus) {
  for (const int held : {0, 1}) {
    SimWorldOptions options = on_device(2, 5);
    options.devices = 2;
    DeviceWorld ranks(options);
    FakeDevice& device = ranks.world.device();
    device.hold(device.default_stream(held));
    std::vector<std::byte*> results;
    for (Rank rank = 0; rank < 2; ++rank) {
      results.push_back(*device.allocate(1, DeviceWorld::count * sizeof(float)));
      Operation sum = ranks.operation(rank);
      sum.out = results.back();
      sum.stream = nullptr;
      device.enqueue(device.default_stream(0), [&, rank] { std::fill_n(ranks.see(rank), DeviceWorld::count, 1.0F); });
      device.enqueue(device.default_stream(1), [at = device.see(results.back())] {  // the result of a call before
        std::fill_n(at, DeviceWorld::count * sizeof(float), std::byte{255});
      });
      auto made = ranks.make(rank, sum);
      ASSERT_TRUE(made.has_value()) << made.error().message();
      ranks.works.push_back(ranks.world.engine(rank).submit(ranks.world.communicator(rank), std::move(*made), false));
    }
    EXPECT_FALSE(ranks.run(std::chrono::milliseconds(500))) << held;
    device.release(device.default_stream(held));
    ASSERT_TRUE(ranks.run());
    device.synchronize();
    for (std::byte* const result : results) {
      EXPECT_EQ(reinterpret_cast<float*>(device.see(result))[0], 2.0F) << held;
      EXPECT_EQ(reinterpret_cast<float*>(device.see(result))[DeviceWorld::count - 1], 2.0F) << held;
    }
  }
}

TEST(OnDevice, nothing_of_ours_is_queued_behind_a_stream_so_an_abort_is_bounded) {
  DeviceWorld ranks(2);
  ranks.world.device().hold(ranks.world.stream(0));
  for (Rank rank = 0; rank < 2; ++rank) ranks.call(rank);
  (void)ranks.run(std::chrono::milliseconds(50));
  ranks.world.engine(1).abort(*ranks.world.communicator(1), "the test says so");
  ASSERT_TRUE(ranks.run(std::chrono::milliseconds(100)));  // although the stream still stands
  for (const auto& work : ranks.works) EXPECT_EQ(work->status().code(), ErrorCode::aborted);
}

TEST(OnDevice, a_stream_that_stands_still_is_named_when_time_is_up) {
  DeviceWorld ranks(2);
  ranks.world.device().hold(ranks.world.stream(1));
  for (Rank rank = 0; rank < 2; ++rank) {
    auto made = ranks.make(rank, ranks.operation(rank));
    ASSERT_TRUE(made.has_value());
    made->timeout = rank == 1 ? std::chrono::seconds(1) : std::chrono::seconds(9);
    ranks.works.push_back(ranks.world.engine(rank).submit(ranks.world.communicator(rank), std::move(*made), false));
  }
  ASSERT_TRUE(ranks.run(std::chrono::seconds(5)));
  for (const auto& work : ranks.works) {
    EXPECT_EQ(work->status().code(), ErrorCode::timeout);
    EXPECT_NE(work->status().message().find("rank 1"), std::string::npos);
    EXPECT_NE(work->status().message().find("the work that its GPU stream was given before"), std::string::npos)
        << work->status().message();
  }
}

// Where a kernel of the program holds all of it, say.
TEST(OnDevice, a_gpu_that_does_not_run_what_was_posted_is_named_when_time_is_up_and_awaited) {
  DeviceWorld ranks(2);
  ranks.world.device().hold_queues(true);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto made = ranks.make(rank, ranks.operation(rank));
    ASSERT_TRUE(made.has_value());
    made->timeout = std::chrono::seconds(1);
    ranks.works.push_back(ranks.world.engine(rank).submit(ranks.world.communicator(rank), std::move(*made), false));
  }
  EXPECT_FALSE(ranks.run(std::chrono::seconds(5))) << "its memory may be written to yet";
  EXPECT_THAT(ranks.world.log(), ::testing::Contains(::testing::HasSubstr("cannot end before GPU 0 has run")));
  ranks.world.device().hold_queues(false);
  ASSERT_TRUE(ranks.run());
  for (const auto& work : ranks.works) {
    EXPECT_EQ(work->status().code(), ErrorCode::timeout);
    EXPECT_NE(work->status().message().find("waiting for GPU 0 to run what was posted to it; "), std::string::npos)
        << work->status().message();
  }
}

TEST(OnDevice, a_gpu_that_fails_is_an_error_on_every_rank) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    DeviceWorld ranks(3, seed);
    for (Rank rank = 0; rank < 3; ++rank) {
      ranks.fill_late(rank);
      ranks.call(rank);
    }
    (void)ranks.run(Time(static_cast<Time::rep>(seed % 7) * 20'000));
    ranks.world.device().break_down();
    ASSERT_TRUE(ranks.run());
    for (const auto& work : ranks.works) {
      if (work->status().ok()) continue;  // it was faster
      EXPECT_EQ(work->status().code(), ErrorCode::device_error);
      EXPECT_NE(work->status().message().find("FAKE_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
      EXPECT_NE(work->status().message().find("rank "), std::string::npos);
    }
    EXPECT_FALSE(ranks.works.back()->status().ok() && ranks.works.front()->status().ok() && seed % 7 == 0);
  }
}

TEST(OnDevice, a_copy_that_is_refused_is_an_error_on_every_rank_and_memory_is_given_back) {
  for (int n = 0; n < 6; ++n) {
    DeviceWorld ranks(2, 9);
    for (Rank rank = 0; rank < 2; ++rank) {
      ranks.fill_late(rank);
      ranks.call(rank);
    }
    ranks.world.device().refuse_copy(n);
    ASSERT_TRUE(ranks.run());
    for (Rank rank = 0; rank < 2; ++rank) {
      const Status status = ranks.works[static_cast<std::size_t>(rank)]->status();
      EXPECT_TRUE(status.ok() || status.code() == ErrorCode::device_error) << status.to_string();
      EXPECT_EQ(ranks.world.engine(rank).devices().staging().lent(), 0u);
    }
    EXPECT_FALSE(ranks.works[0]->status().ok() && ranks.works[1]->status().ok());
  }
}

TEST(OnDevice, ranks_that_die_or_stop_are_named_and_nothing_hangs) {
  for (const std::uint64_t seed : seeds(40, 5)) {
    std::mt19937_64 chance(seed);
    const int ranks = 2 + static_cast<int>(chance() % 5);
    SimWorldOptions options = any_world(ranks, seed);
    options.device = true;
    options.weather.tickets = seed % 2 == 0;
    options.algorithm = any_algorithm(Collective::allreduce, chance);
    SimWorld world(options);
    for (int i = 0; i < 4; ++i)
      world.everyone_calls_soon(any_allreduce(chance() % 2000, chance), std::chrono::microseconds(100));
    const auto victim = static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks));
    world.kill_at(victim, Time(static_cast<Time::rep>(chance() % 2'000'000)));
    if (!world.run(std::chrono::seconds(3))) return;
    for (const auto& operation : world.operations()) {
      if (operation->rank == victim || operation->status().ok()) continue;
      EXPECT_EQ(operation->status().code(), ErrorCode::peer_lost) << operation->status().to_string() << world.replay();
    }
    for (Rank rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(!world.alive(rank) || world.engine(rank).devices().staging().lent() == 0u) << world.replay();
  }
}

// ---- bad input ----------------------------------------------------------------------------------------------------

TEST(OnDevice, a_freed_buffer_is_refused) {
  DeviceWorld ranks(2);
  ranks.world.device().free(0, ranks.buffers[0]);
  const auto made = ranks.make(0, ranks.operation(0));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), ErrorCode::device_error);
  EXPECT_NE(made.error().message().find("freed"), std::string::npos) << made.error().message();
}

TEST(OnDevice, a_buffer_that_ends_before_its_data_is_refused) {
  DeviceWorld ranks(2);
  Operation operation = ranks.operation(0);
  operation.count += 1;
  const auto made = ranks.make(0, operation);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), ErrorCode::invalid_argument);
  EXPECT_NE(made.error().message().find("4 beyond the end of its allocation on GPU 0"), std::string::npos)
      << made.error().message();
}

TEST(OnDevice, a_stream_under_capture_is_refused) {
  DeviceWorld ranks(2);
  ranks.world.device().capture(ranks.world.stream(0), true);
  const auto made = ranks.make(0, ranks.operation(0));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), ErrorCode::unsupported);
  EXPECT_NE(made.error().message().find("captured"), std::string::npos);
}

TEST(OnDevice, a_gpu_that_does_not_exist_and_one_that_is_not_said_are_refused) {
  DeviceWorld ranks(2);
  Operation operation = ranks.operation(0);
  operation.memory = Memory::device;
  EXPECT_EQ(ranks.make(0, operation).error().code(), ErrorCode::invalid_argument);
  operation.device = 7;
  EXPECT_EQ(ranks.make(0, operation).error().code(), ErrorCode::invalid_argument);
  operation.device = 0;
  EXPECT_TRUE(ranks.make(0, operation).has_value());
}

TEST(OnDevice, a_buffer_of_the_device_that_is_freed_by_another_is_an_error_on_every_rank_not_a_crash) {
  DeviceWorld ranks(2);
  ranks.world.device().hold(ranks.world.stream(0));
  for (Rank rank = 0; rank < 2; ++rank) ranks.call(rank);
  (void)ranks.run(std::chrono::milliseconds(1));
  ranks.world.device().free(0, ranks.buffers[0]);  // against the rules: the operation has it
  ranks.world.device().release(ranks.world.stream(0));
  ASSERT_TRUE(ranks.run());
  for (const auto& work : ranks.works) EXPECT_EQ(work->status().code(), ErrorCode::device_error);
}

// A message finds no staging while a collective of its communicator has it all: it is begun when there is some.

}  // namespace
}  // namespace fabring::fixture
