// Operations on memory of a fake GPU where threads are real: callers that record streams while the progress thread
// copies, blocking calls that drive, several communicators and streams at once.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <optional>
#include <thread>

#include "tests/support/fake_device.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

class DeviceThreads : public ::testing::TestWithParam<ThreadWorld::Over> {
 protected:
  static constexpr std::size_t count = 3000;
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>(11);
  std::atomic<int> wrong{0};

  struct Buffer {
    std::byte* at;
    void* stream;
  };
  Buffer buffer() { return {*device->allocate(0, count * sizeof(int)), device->open_stream(0)}; }
  void fill(const Buffer& buffer, int value) {
    int* const at = reinterpret_cast<int*>(device->see(buffer.at));
    device->enqueue(buffer.stream, [at, value] { std::fill_n(at, count, value); });
  }
  Operation allreduce(const Buffer& buffer) {
    Operation made = Operation::allreduce(buffer.at, buffer.at, count, DataType::int32, ReduceOp::sum);
    made.stream = buffer.stream;
    return made;
  }
  void check(const Buffer& buffer, int value) {
    const int* const at = reinterpret_cast<int*>(device->see(buffer.at));
    if (std::any_of(at, at + count, [&](int each) { return each != value; })) ++wrong;
  }
};

TEST_P(DeviceThreads, works_that_nobody_waits_for_go_on_and_their_results_are_seen) {
  ThreadWorld world(3, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    std::vector<Buffer> buffers;
    std::vector<Work> works;
    for (int i = 0; i < 12; ++i) {
      buffers.push_back(buffer());
      fill(buffers.back(), rank + i);
      works.push_back(all.start(allreduce(buffers.back())));
    }
    for (int i = 0; i < 12; ++i) {
      while (i % 2 == 0 && !works[static_cast<std::size_t>(i)].done()) std::this_thread::yield();
      EXPECT_TRUE(works[static_cast<std::size_t>(i)].wait().ok());
      check(buffers[static_cast<std::size_t>(i)], 3 + 3 * i);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceThreads, blocking_calls_on_two_communicators_from_two_threads_do_not_wait_for_each_other) {
  ThreadWorld world(2, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    auto other = all.duplicate();
    ASSERT_TRUE(other.has_value());
    const auto calls = [&](Communicator communicator) {
      const Buffer mine = buffer();
      for (int i = 0; i < 15; ++i) {
        fill(mine, rank + i);
        EXPECT_TRUE(communicator.run(allreduce(mine)).ok());
        check(mine, 1 + 2 * i);
      }
    };
    std::thread second([&] { calls(*other); });
    calls(all);
    second.join();
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceThreads, a_prepared_operation_is_ordered_behind_its_stream_at_each_start) {
  ThreadWorld world(2, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    const Buffer mine = buffer();
    auto prepared = all.prepare(allreduce(mine));
    ASSERT_TRUE(prepared.has_value());
    for (int i = 0; i < 10; ++i) {
      fill(mine, rank + i);
      EXPECT_TRUE(prepared->run().ok());
      check(mine, 1 + 2 * i);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceThreads, a_prepared_operation_is_started_on_another_stream_than_it_was_prepared_with) {
  ThreadWorld world(2, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    const Buffer mine = buffer();
    const Buffer late{mine.at, device->open_stream(0)};
    auto prepared = all.prepare(allreduce(mine));
    ASSERT_TRUE(prepared.has_value());
    device->hold(mine.stream);  // for good: nothing waits for it
    device->hold(late.stream);
    fill(late, rank + 1);
    Work work = prepared->start_on(late.stream);
    EXPECT_EQ(work.wait_for(std::chrono::milliseconds(50)).code(), ErrorCode::timeout) << "it began too early";
    device->release(late.stream);
    EXPECT_TRUE(work.wait().ok());
    check(mine, 3);
    device->release(mine.stream);
  });
  EXPECT_EQ(wrong, 0);
}

// Larger than what travels in records: over shared memory ranks read each other's buffers, which are written again as
// soon as the operation that lent them is over.
TEST_P(DeviceThreads, what_ranks_lend_each_other_is_theirs_again_when_their_own_call_returns) {
  constexpr std::size_t many = 60'000;
  ThreadWorld world(3, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    std::byte* const at = *device->allocate(0, many * sizeof(int));
    std::vector<int> host(many);
    void* const stream = device->open_stream(0);
    for (int i = 0; i < 6; ++i) {
      const bool on_gpu = rank != 1 || i % 3 != 0;  // now and then among ranks with memory of the host
      int* const values = on_gpu ? reinterpret_cast<int*>(device->see(at)) : host.data();
      const auto write = [&, values] { std::fill_n(values, many, rank + i); };
      on_gpu ? device->enqueue(stream, write) : write();
      Operation sum = on_gpu ? Operation::allreduce(at, at, many, DataType::int32, ReduceOp::sum)
                             : Operation::allreduce(values, values, many, DataType::int32, ReduceOp::sum);
      if (on_gpu) sum.stream = stream;
      EXPECT_TRUE(all.run(sum).ok());
      if (std::any_of(values, values + many, [&](int each) { return each != 3 + 3 * i; })) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(world.engine(0).transfer().loans() > 0, GetParam() == ThreadWorld::Over::shm);
}

// Small blocking operations on memory of the host are run by their caller; the same on memory of a GPU must not be.
TEST_P(DeviceThreads, small_operations_on_both_kinds_of_memory_follow_each_other) {
  ThreadWorld world(3, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    const Buffer mine = buffer();
    Operation on_gpu = allreduce(mine);
    on_gpu.count = 10;
    int host[10];
    Operation on_host = Operation::allreduce(host, host, 10, DataType::int32, ReduceOp::sum);
    auto prepared = all.prepare(on_gpu);
    ASSERT_TRUE(prepared.has_value());
    for (int i = 0; i < 30; ++i) {
      std::fill_n(host, 10, rank + i);
      fill(mine, rank + i);
      EXPECT_TRUE(all.run((i + rank) % 3 == 0 ? on_gpu : on_host).ok());  // each rank its own way
      const int result = (i + rank) % 3 == 0 ? *reinterpret_cast<int*>(device->see(mine.at)) : host[9];
      EXPECT_EQ(result, 3 + 3 * i);
      if ((i + rank) % 3 != 0) device->synchronize();
      fill(mine, rank);
      EXPECT_TRUE(prepared->run().ok());
      EXPECT_EQ(*reinterpret_cast<int*>(device->see(mine.at)), 3);
    }
  });
}

// As often before, but now it is no memory any more: found out by asking, not by touching.
TEST_P(DeviceThreads, a_freed_buffer_is_found_out_also_in_an_operation_like_many_before) {
  ThreadWorld world(2, {}, GetParam(), device);
  std::latch all_well(2);  // the error ends what is under way
  world.run([&](Rank rank, Communicator all) {
    int host[10] = {};
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(all.allreduce(host, host, 10, DataType::int32, ReduceOp::sum).to_string(), Status().to_string());
    all_well.arrive_and_wait();
    Operation again = allreduce(buffer());
    again.count = 10;
    if (rank == 1) device->free(0, static_cast<std::byte*>(again.out));
    EXPECT_EQ(all.run(again).code(), ErrorCode::device_error);
  });
}

TEST_P(DeviceThreads, a_freed_buffer_of_one_rank_is_an_error_on_all) {
  ThreadWorld world(2, {}, GetParam(), device);
  world.run([&](Rank rank, Communicator all) {
    const Buffer mine = buffer();
    if (rank == 1) device->free(0, mine.at);
    const Status status = all.run(allreduce(mine));
    EXPECT_EQ(status.code(), ErrorCode::device_error) << status.to_string();
    EXPECT_NE(status.message().find("was it freed?"), std::string::npos) << status.message();
  });
}

TEST_P(DeviceThreads, explain_says_which_way_memory_of_a_gpu_takes) {
  ThreadWorld world(2, {}, GetParam(), device);
  EXPECT_NE(world.world(0).explain(allreduce(buffer())).reason.find("staged"), std::string::npos);
  int host = 0;
  EXPECT_EQ(world.world(0)
                .explain(Operation::allreduce(&host, &host, 1, DataType::int32, ReduceOp::sum))
                .reason.find("staged"),
            std::string::npos);
}

// Without GPUs in sight when the job began, shared memory cuts long vectors by parts: a tile is then a slice of each
// rank's part, and lies in several places of what it is staged from.
TEST(DeviceParts, long_vectors_that_are_staged_are_whole_where_tiles_are_cut_by_parts) {
  constexpr std::size_t count = (std::size_t{1} << 20) + 5;
  for (const int ranks : {2, 3})
    for (const bool in_place : {true, false}) {
      const auto device = std::make_shared<FakeDevice>(13);
      Config config;
      config.gpu_path = "staged";
      ThreadWorld world(ranks, config, ThreadWorld::Over::shm, device);
      ASSERT_TRUE(world.engine(0).tiling_rules().by_parts);
      world.run([&](Rank rank, Communicator all) {
        std::vector<int> host(2 * count);
        const bool on_host = rank == ranks - 1;
        auto* const in = on_host ? host.data() : reinterpret_cast<int*>(*device->allocate(0, count * sizeof(int)));
        auto* const out = in_place  ? in
                          : on_host ? host.data() + count
                                    : reinterpret_cast<int*>(*device->allocate(0, count * sizeof(int)));
        int* const given = reinterpret_cast<int*>(device->see(in));
        for (std::size_t i = 0; i < count; ++i) given[i] = static_cast<int>(i) * (rank + 1);
        EXPECT_EQ(all.allreduce(in, out, count, DataType::int32, ReduceOp::sum).to_string(), Status().to_string());
        const int* const made = reinterpret_cast<const int*>(device->see(out));
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) wrong += made[i] != static_cast<int>(i) * ranks * (ranks + 1) / 2;
        EXPECT_EQ(wrong, 0u) << "rank " << rank << " of " << ranks << (in_place ? ", in place" : "");
      });
    }
}

// To pin memory and to free it waits for what devices do, so it is done once for all lengths.
TEST(DeviceStaging, of_operations_of_many_lengths_pins_no_memory_once_each_has_been_there) {
  const auto device = std::make_shared<FakeDevice>(17);
  Config config;
  config.gpu_path = "staged";
  config.segment_bytes = std::size_t{1} << 20;  // about as where hosts have GPUs
  ThreadWorld world(2, config, ThreadWorld::Over::shm, device);
  constexpr std::size_t most = std::size_t{1} << 20;
  std::vector<std::byte*> buffers(4);  // two for each rank: input and output are staged in one block
  for (std::byte*& buffer : buffers) buffer = *device->allocate(0, most * sizeof(int));
  std::vector<std::uint64_t> pinned;
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = device->pinnings();
    world.run([&](Rank rank, Communicator all) {
      const auto buffer = [&](int i) {
        return reinterpret_cast<int*>(buffers[static_cast<std::size_t>(2 * rank + i)]);
      };
      for (std::size_t i = 1; i <= 20; ++i)
        EXPECT_TRUE(
            all.allreduce(buffer(0), buffer(1), most / 2 + i * (most / 40), DataType::int32, ReduceOp::sum).ok());
    });
    pinned.push_back(device->pinnings() - before);
  }
  EXPECT_GT(pinned[0], 0u);
  EXPECT_EQ(pinned[1], 0u);
  EXPECT_EQ(pinned[2], 0u);
}

// What an engine frees at its end waits for all that the device has to do: of a stream that stands still, for ever.
TEST(DeviceEnd, of_an_engine_whose_operation_waited_for_a_stream_that_stands_still_waits_for_nothing) {
  constexpr std::size_t count = 200'000;
  const auto device = std::make_shared<FakeDevice>(19);
  void* const still = device->open_stream(0);
  {
    ThreadWorld world(2, {}, ThreadWorld::Over::shm, device);
    world.run([&](Rank rank, Communicator all) {
      auto* const at = reinterpret_cast<int*>(*device->allocate(0, count * sizeof(int)));
      EXPECT_TRUE(all.allreduce(at, at, count, DataType::int32, ReduceOp::sum).ok());
      if (rank == 1) return;
      device->hold(still);
      Operation waits = Operation::allreduce(at, at, count, DataType::int32, ReduceOp::sum);
      waits.stream = still;
      Work work = all.start(waits);
      EXPECT_EQ(work.wait_for(std::chrono::milliseconds(20)).code(), ErrorCode::timeout);
      all.abort("the program has had enough");
      EXPECT_EQ(work.wait().code(), ErrorCode::aborted);
    });
    EXPECT_GT(device->pinned_bytes(), 0u);
  }
  EXPECT_EQ(device->frees_behind_held_streams(), 0u);
  device->release(still);
}

/// An operation of a rank that is alone, which the device does not run, as a kernel of the program holds all of it.
struct NotRun {
  NotRun() {
    Config config;
    config.leave_timeout = std::chrono::milliseconds(10);
    world.emplace(1, config, device);
    device->hold_queues(true);
    work = world->world(0).start(Operation::allreduce(*device->allocate(0, bytes), *device->allocate(0, bytes), bytes,
                                                      DataType::int8, ReduceOp::sum));
    while (device->busy() == 0) std::this_thread::yield();
  }
  static constexpr std::size_t bytes = 200'000;
  const std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>(23);
  std::optional<ThreadWorld> world;
  Work work;
};

// It would write to the output after that.
TEST(DeviceEnd, of_an_engine_waits_for_what_was_posted_to_the_device) {
  NotRun one;
  auto dropped = std::async(std::launch::async, [&] { one.world->drop(0); });
  EXPECT_EQ(dropped.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  one.device->hold_queues(false);
  dropped.get();
  EXPECT_EQ(one.device->busy(), 0u);
  EXPECT_EQ(one.work.wait().code(), ErrorCode::aborted);
}

TEST(DeviceEnd, of_an_engine_does_not_wait_for_ever_for_the_device_and_who_waits_hears_of_it) {
  NotRun one;
  auto waits = std::async(std::launch::async, [&] { return one.work.wait(); });
  one.world->drop(0);
  const Status ended = waits.get();
  EXPECT_EQ(ended.code(), ErrorCode::aborted);
  EXPECT_NE(ended.message().find("GPU 0 has not run what was posted to it"), std::string::npos) << ended.message();
  EXPECT_EQ(one.device->frees_behind_held_streams(), 0u);
  one.device->hold_queues(false);
  one.device->synchronize();
}

INSTANTIATE_TEST_SUITE_P(Over, DeviceThreads, ::testing::Values(ThreadWorld::Over::inproc, ThreadWorld::Over::shm),
                         [](const auto& of) { return of.param == ThreadWorld::Over::shm ? "shm" : "inproc"; });

}  // namespace
}  // namespace fabring::fixture
