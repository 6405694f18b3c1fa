// Handles of operations under way: waited for, asked, told of, freed.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <vector>

#include "ranks.hpp"

namespace fabring::c_api::tests {
namespace {

fabring_operation receive_of(std::int32_t* into, std::size_t count, std::int32_t source, std::int32_t tag) {
  fabring_operation receive = FABRING_OPERATION_INIT;
  receive.collective = FABRING_COLLECTIVE_RECV;
  receive.type = FABRING_TYPE_INT32;
  receive.out = into;
  receive.count = count;
  receive.root = source;
  receive.tag = tag;
  return receive;
}

TEST(Works, are_waited_for_asked_and_tell_what_came) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t data[4] = {1, 2, 3, 4};
    if (self.rank == 0) {
      const fabring_operation receive = receive_of(data, 4, FABRING_ANY_SOURCE, FABRING_ANY_TAG);
      fabring_work* work = nullptr;
      fabring_received received = FABRING_RECEIVED_INIT;
      int done = -1;
      ASSERT_EQ(fabring_start(self.world, &receive, &work, &error), FABRING_STATUS_OK) << error.message;
      EXPECT_EQ(fabring_work_wait_for(work, 1, &error), FABRING_STATUS_TIMEOUT);
      EXPECT_OK(fabring_work_done(work, &done, &error));
      EXPECT_EQ(done, 0);
      EXPECT_OK(fabring_work_status(work, &error));
      EXPECT_EQ(fabring_work_received(work, &received, &error), FABRING_STATUS_INVALID_ARGUMENT);
      EXPECT_OK(fabring_barrier(self.world, &error));  // only now rank 1 sends
      EXPECT_OK(fabring_work_wait_for(work, UINT64_MAX, &error));
      EXPECT_OK(fabring_work_wait(work, &error));
      EXPECT_OK(fabring_work_done(work, &done, &error));
      EXPECT_EQ(done, 1);
      EXPECT_OK(fabring_work_received(work, &received, &error));
      EXPECT_EQ(received.source, 1);
      EXPECT_EQ(received.tag, 9);
      EXPECT_EQ(received.count, 2u);
      EXPECT_THAT(data, testing::ElementsAre(50, 51, 3, 4));
      EXPECT_OK(fabring_work_free(work));
    } else {
      EXPECT_OK(fabring_barrier(self.world, &error));
      const std::int32_t sent[2] = {50, 51};
      EXPECT_OK(fabring_send(self.world, sent, 2, FABRING_TYPE_INT32, 0, 9, &error));
    }
  });
}

// What fabring_work_notify calls.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  int times = 0;
  static void ring(void* bell) {
    auto* const self = static_cast<Bell*>(bell);
    const std::lock_guard lock(self->mutex);
    ++self->times;
    self->rung.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex);
    return rung.wait_for(lock, std::chrono::seconds(60), [&] { return times > 0; });
  }
};

TEST(Works, tell_when_they_are_done_while_nobody_waits) {
  run_ranks(3, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t sum = 1;
    fabring_operation allreduce = FABRING_OPERATION_INIT;
    allreduce.in = allreduce.out = &sum;
    allreduce.count = 1;
    allreduce.type = FABRING_TYPE_INT32;
    fabring_work* work = nullptr;
    Bell bell, late;
    EXPECT_OK(fabring_start(self.world, &allreduce, &work, &error));
    EXPECT_OK(fabring_work_notify(work, &Bell::ring, &bell, &error));
    EXPECT_TRUE(bell.wait());
    EXPECT_EQ(sum, 3) << "the results are in place when it rings";
    EXPECT_OK(fabring_work_notify(work, &Bell::ring, &late, &error));
    EXPECT_EQ(late.times, 1) << "at once, when it is over";
    EXPECT_EQ(bell.times, 1);
    EXPECT_EQ(fabring_work_notify(work, nullptr, nullptr, &error), FABRING_STATUS_INVALID_ARGUMENT);
    EXPECT_OK(fabring_work_free(work));
  });
}

TEST(Works, tell_the_last_function_that_was_given) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t value = 1;
    if (self.rank == 1) {
      EXPECT_OK(fabring_barrier(self.world, &error));
      EXPECT_OK(fabring_send(self.world, &value, 1, FABRING_TYPE_INT32, 0, 0, &error));
      return;
    }
    const fabring_operation receive = receive_of(&value, 1, 1, 0);
    fabring_work* work = nullptr;
    Bell first, second;
    EXPECT_OK(fabring_start(self.world, &receive, &work, &error));
    EXPECT_OK(fabring_work_notify(work, &Bell::ring, &first, &error));
    EXPECT_OK(fabring_work_notify(work, &Bell::ring, &second, &error));
    EXPECT_OK(fabring_barrier(self.world, &error));  // only now rank 1 sends
    EXPECT_TRUE(second.wait());
    EXPECT_EQ(first.times, 0);
    EXPECT_OK(fabring_work_free(work));
  });
}

TEST(Works, tell_also_of_failures) {
  run_ranks(2,
            [](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              fabring_operation barrier = FABRING_OPERATION_INIT;
              barrier.collective = FABRING_COLLECTIVE_BARRIER;
              if (self.rank == 1) return;  // leaves
              fabring_work* work = nullptr;
              Bell bell;
              EXPECT_OK(fabring_start(self.world, &barrier, &work, &error));
              EXPECT_OK(fabring_work_notify(work, &Bell::ring, &bell, &error));
              EXPECT_TRUE(bell.wait());
              EXPECT_NE(fabring_work_status(work, &error), FABRING_STATUS_OK);
              EXPECT_OK(fabring_work_free(work));
            },
            {{"FABRING_LEAVE_TIMEOUT", "100ms"}});
}

// Returning earlier would give the caller a buffer that is still written to.
TEST(Works, are_waited_for_also_with_an_error_that_is_not_initialised) {
  std::atomic<bool> waiting{false};
  run_ranks(2, [&](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t value = 1;
    if (self.rank == 0) {
      const fabring_operation receive = receive_of(&value, 1, 1, 0);
      fabring_work* work = nullptr;
      EXPECT_OK(fabring_start(self.world, &receive, &work, &error));
      fabring_error bad;
      std::memset(&bad, 0, sizeof bad);
      EXPECT_EQ(fabring_work_wait_for(work, 1, &bad), FABRING_STATUS_TIMEOUT) << "it was waited for";
      waiting = true;
      waiting.notify_all();
      EXPECT_EQ(fabring_work_wait(work, &bad), FABRING_STATUS_INVALID_ARGUMENT);
      EXPECT_EQ(value, 50);
      EXPECT_OK(fabring_work_free(work));
    } else {
      waiting.wait(false);
      value = 50;
      EXPECT_OK(fabring_send(self.world, &value, 1, FABRING_TYPE_INT32, 0, 0, &error));
    }
  });
}

TEST(Works, are_ended_by_an_abort_with_an_error_that_is_not_initialised) {
  run_ranks(2,
            [](Rank self) {
              fabring_error error = FABRING_ERROR_INIT;
              if (self.rank == 0) {
                fabring_error bad;
                std::memset(&bad, 0, sizeof bad);
                EXPECT_EQ(fabring_comm_abort(self.world, "enough", &bad), FABRING_STATUS_INVALID_ARGUMENT);
                EXPECT_EQ(fabring_comm_health(self.world, &error), FABRING_STATUS_ABORTED);
              } else {
                EXPECT_EQ(fabring_barrier(self.world, &error), FABRING_STATUS_ABORTED) << error.message;
                EXPECT_THAT(error.message, testing::HasSubstr("enough"));
              }
            },
            {{"FABRING_TIMEOUT", "20s"}});
}

TEST(Works, that_are_done_are_delivered_while_their_rank_does_something_else) {
  std::promise<void> arrived;
  std::future<void> arrival = arrived.get_future();
  run_ranks(2, [&](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t value = 7;
    if (self.rank == 0) {
      EXPECT_OK(fabring_send(self.world, &value, 1, FABRING_TYPE_INT32, 1, 0, &error));
      EXPECT_EQ(arrival.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    } else {
      EXPECT_OK(fabring_recv(self.world, &value, 1, FABRING_TYPE_INT32, 0, 0, &error));
      arrived.set_value();
    }
  });
}

TEST(Works, go_on_when_their_handle_and_the_communicators_are_freed) {
  run_ranks(2, [](Rank self) {
    fabring_error error = FABRING_ERROR_INIT;
    const std::size_t count = 1 << 20;  // more than goes without the receiver
    std::vector<std::int32_t> data(count, self.rank);
    fabring_comm* own = nullptr;
    EXPECT_OK(fabring_comm_duplicate(self.world, nullptr, &own, &error));
    if (self.rank == 0) {
      fabring_operation send = FABRING_OPERATION_INIT;
      send.collective = FABRING_COLLECTIVE_SEND;
      send.type = FABRING_TYPE_INT32;
      data[count - 1] = 77;
      send.in = data.data();
      send.count = count;
      send.root = 1;
      fabring_work* work = nullptr;
      EXPECT_OK(fabring_start(own, &send, &work, &error));
      EXPECT_OK(fabring_comm_free(own));
      EXPECT_OK(fabring_work_free(work));
    } else {
      EXPECT_OK(fabring_recv(own, data.data(), count, FABRING_TYPE_INT32, 0, 0, &error));
      EXPECT_EQ(data[count - 1], 77);
      EXPECT_OK(fabring_comm_free(own));
    }
    EXPECT_OK(fabring_barrier(self.world, &error));  // the buffer lives until the receiver has it
  });
}

TEST(Works, that_leaving_ends_say_so) {
  std::promise<void> ended;
  run_ranks(2, [&ended](Rank self) {
    if (self.rank == 1) return ended.get_future().wait();  // it leaves second
    fabring_error error = FABRING_ERROR_INIT;
    std::int32_t nothing = 0;
    fabring_operation receive = receive_of(&nothing, 1, 1, 0);
    fabring_work* work = nullptr;
    EXPECT_OK(fabring_start(self.world, &receive, &work, &error));
    auto left = std::async(std::launch::async, [&] { return fabring_engine_leave(self.engine, nullptr); });
    EXPECT_EQ(fabring_work_wait(work, &error), FABRING_STATUS_ABORTED);
    EXPECT_THAT(error.message, testing::HasSubstr("this rank left the job while this operation was under way"));
    EXPECT_EQ(fabring_work_free(work), FABRING_STATUS_OK);
    ended.set_value();
    EXPECT_EQ(left.get(), FABRING_STATUS_OK);
  });
}

}  // namespace
}  // namespace fabring::c_api::tests
