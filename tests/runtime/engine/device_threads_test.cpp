// Operations on memory of a fake GPU where threads are real: callers that record streams while the progress thread
// copies, blocking calls that drive, several communicators and streams at once.

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/fake_device.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

class DeviceThreads : public ::testing::Test {
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

TEST_F(DeviceThreads, works_that_nobody_waits_for_go_on_and_their_results_are_seen) {
  ThreadWorld world(3, {}, device);
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

TEST_F(DeviceThreads, blocking_calls_on_two_communicators_from_two_threads_do_not_wait_for_each_other) {
  ThreadWorld world(2, {}, device);
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

TEST_F(DeviceThreads, a_prepared_operation_is_ordered_behind_its_stream_at_each_start) {
  ThreadWorld world(2, {}, device);
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

TEST_F(DeviceThreads, a_freed_buffer_of_one_rank_is_an_error_on_all) {
  ThreadWorld world(2, {}, device);
  world.run([&](Rank rank, Communicator all) {
    const Buffer mine = buffer();
    if (rank == 1) device->free(0, mine.at);
    const Status status = all.run(allreduce(mine));
    EXPECT_EQ(status.code(), ErrorCode::device_error) << status.to_string();
    EXPECT_NE(status.message().find("was it freed?"), std::string::npos) << status.message();
  });
}

TEST_F(DeviceThreads, explain_says_which_way_memory_of_a_gpu_takes) {
  ThreadWorld world(2, {}, device);
  EXPECT_NE(world.world(0).explain(allreduce(buffer())).reason.find("staged"), std::string::npos);
  int host = 0;
  EXPECT_EQ(world.world(0)
                .explain(Operation::allreduce(&host, &host, 1, DataType::int32, ReduceOp::sum))
                .reason.find("staged"),
            std::string::npos);
}

}  // namespace
}  // namespace fabring::fixture
