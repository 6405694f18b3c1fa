// Asynchronous calls over real threads: who drives them, the progress thread, Works that are polled, awaited twice,
// dropped or outlive their engine. Meant for ThreadSanitizer too.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "runtime/engine/call/make_call.hpp"
#include "tests/runtime/engine/sum.hpp"
#include "tests/support/thread_world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

TEST(Asynchronous, calls_end_whether_waited_for_or_polled) {
  ThreadWorld world(3);
  world.run([&](Rank rank, Communicator all) {
    std::vector<Sum> sums;
    std::vector<Work> works;
    for (std::uint64_t i = 0; i < 20; ++i) sums.emplace_back(rank, 3, 1 + i * 997, i);
    for (Sum& sum : sums) works.push_back(sum.begin(all));
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (i % 3 == 0) {
        while (!works[i].done()) std::this_thread::yield();
      } else if (i % 3 == 1) {
        while (works[i].wait_for(1ms).code() == ErrorCode::timeout) {
        }
      }
      ASSERT_TRUE(works[i].wait().ok());
      ASSERT_TRUE(sums[i].right());
    }
  });
}

// The progress thread keeps away from what is polled, so polls of no length must make progress by themselves. Without
// that thread, which is not always quick to keep away, it is certain that they do.
TEST(Asynchronous, calls_go_on_by_polls_of_no_length) {
  for (const auto limit : {0ns, -1ns, 1ns}) {
    for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm}) {
      ThreadWorld world(2, {}, over);
      world.run([&](Rank rank, Communicator all) {
        Sum sum(rank, 2, std::size_t{1} << 20, 1);
        if (rank == 1) {
          ASSERT_TRUE(sum.run(all).ok());
          ASSERT_TRUE(sum.right());
          return;
        }
        EngineCore& engine = world.engine(rank);
        const auto core = engine.world();
        auto call = make_call(
            Operation::allreduce(sum.in.data(), sum.out.data(), sum.count(), DataType::float32, ReduceOp::sum), *core,
            *engine.choices(core->shape()), {});
        ASSERT_TRUE(call);
        Work work(engine.submit(core, std::move(*call), false));
        const auto end = std::chrono::steady_clock::now() + 10s;
        bool over_in_time = false;
        while (!over_in_time && std::chrono::steady_clock::now() < end)
          over_in_time = work.wait_for(limit).code() != ErrorCode::timeout;
        EXPECT_TRUE(over_in_time);
        ASSERT_TRUE(work.wait().ok());
        ASSERT_TRUE(sum.right());
      });
    }
  }
}

// Who waits for several, one after the other, runs each as a blocking call would be, in its own thread.
TEST(Asynchronous, calls_that_are_waited_for_are_run_at_once) {
  for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm}) {
    ThreadWorld world(2, {}, over);
    world.run([&](Rank rank, Communicator all) {
      for (std::uint64_t round = 0; round < 100; ++round) {
        std::vector<Sum> sums;
        std::vector<Work> works;
        for (std::uint64_t i = 0; i < 8; ++i) sums.emplace_back(rank, 2, 1 + i * 97, 8 * round + i);
        for (Sum& sum : sums) works.push_back(sum.begin(all));
        for (std::size_t i = 0; i < works.size(); ++i) {
          ASSERT_TRUE(works[i].wait().ok());
          ASSERT_TRUE(sums[i].right()) << i;
        }
      }
    });
    EXPECT_GT(world.engine(0).ran_at_once() + world.engine(1).ran_at_once(), 0u);
  }
}

// Through sockets many are sooner over together than in turn: of so many only the last ones may be run at once.
TEST(Asynchronous, many_calls_through_sockets_that_are_waited_for_are_begun_together) {
  constexpr std::size_t calls = 200, most_in_turn = 16;
  const auto transport = make_tcp_transport();
  EndpointOptions options;
  options.bind_address = "127.0.0.1";
  ThreadWorld world(2, {}, nullptr, *transport, options);
  world.run([&](Rank rank, Communicator all) {
    for (int round = 0; round < 20; ++round) {
      const std::uint64_t before = world.engine(rank).ran_at_once();
      std::vector<Sum> sums;
      std::vector<Work> works;
      for (std::uint64_t i = 0; i < calls; ++i) sums.emplace_back(rank, 2, 1 + i, i);
      for (Sum& sum : sums) works.push_back(sum.begin(all));
      for (std::size_t i = 0; i < calls; ++i) {
        ASSERT_TRUE(works[i].wait().ok());
        ASSERT_TRUE(sums[i].right()) << i;
      }
      EXPECT_LE(world.engine(rank).ran_at_once() - before, most_in_turn);
    }
  });
}

TEST(Asynchronous, who_waits_for_one_call_is_not_kept_by_another_that_a_peer_has_not_called) {
  ThreadWorld world(2);
  std::atomic<bool> first_is_over{false};
  world.run([&](Rank rank, Communicator all) {
    Sum first(rank, 2, 100, 1), second(rank, 2, 100, 2);
    Work one = first.begin(all);
    if (rank == 1) {
      ASSERT_TRUE(one.wait().ok());
      while (!first_is_over) std::this_thread::yield();
    }
    Work two = second.begin(all);
    ASSERT_TRUE(one.wait().ok());
    first_is_over = true;
    ASSERT_TRUE(two.wait().ok());
    ASSERT_TRUE(first.right());
    ASSERT_TRUE(second.right());
  });
}

// Nobody waits for it, and it does not wait for the progress thread, unless that drives just then.
TEST(Asynchronous, a_short_message_is_sent_by_its_caller) {
  ThreadWorld world(2);
  world.run([&](Rank rank, Communicator all) {
    std::vector<float> values(100);
    const std::size_t bytes = values.size() * sizeof(float);
    int at_once = 0;
    for (int message = 0; message < 20; ++message) {
      if (rank == 1) {
        ASSERT_TRUE(all.run(Operation::recv(values.data(), values.size(), DataType::float32, 0)).ok());
        continue;
      }
      const std::uint64_t before = world.engine(0).traffic().payload_bytes_sent;
      Work work = all.start(Operation::send(values.data(), values.size(), DataType::float32, 1));
      if (world.engine(0).traffic().payload_bytes_sent == before + bytes) ++at_once;
      ASSERT_TRUE(work.wait().ok());
    }
    EXPECT_TRUE(rank == 1 || at_once > 0);
  });
}

// Far more than may be under way at once: of most of them nobody hears when they are called.
TEST(Asynchronous, many_calls_end_without_anybody_waiting) {
  ThreadWorld world(3);
  world.run([&](Rank rank, Communicator all) {
    std::vector<Sum> sums;
    std::vector<Work> works;
    for (std::uint64_t i = 0; i < 200; ++i) sums.emplace_back(rank, 3, 1 + i % 50, i);
    for (int round = 0; round < 3; ++round) {
      works.clear();
      for (Sum& sum : sums) works.push_back(sum.begin(all));
      if (round == 1) {
        ASSERT_TRUE(works[7].wait().ok()) << "who waited for one leaves the others to the progress thread";
      }
      for (Work& work : works)
        while (!work.done()) std::this_thread::yield();
      for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_TRUE(works[i].wait().ok() && sums[i].right()) << i;
    }
  });
}

TEST(Asynchronous, two_threads_may_wait_for_the_same_work) {
  ThreadWorld world(2);
  world.run([&](Rank rank, Communicator all) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      Sum sum(rank, 2, 5000, i);
      Work work = sum.begin(all);
      auto other = std::async(std::launch::async, [work]() mutable { return work.wait(); });
      EXPECT_TRUE(work.wait().ok());
      EXPECT_TRUE(other.get().ok());
      EXPECT_TRUE(sum.right());
    }
  });
}

TEST(Asynchronous, work_that_outlives_its_engine_is_over) {
  Sum sum(0, 2, 100'000, 3);
  Work work;
  {
    ThreadWorld world(2);
    Communicator here = world.world(0);
    work = sum.begin(here);  // rank 1 never comes
  }
  EXPECT_TRUE(work.done());
  EXPECT_EQ(work.status().code(), ErrorCode::aborted);
  EXPECT_FALSE(work.wait().ok());
}

TEST(Asynchronous, work_under_way_when_an_engine_ends_is_aborted_on_every_rank) {
  for (const bool duplicate : {false, true}) {
    Config config;
    config.leave_timeout = std::chrono::milliseconds(200);  // the others stay
    ThreadWorld world(3, config);
    std::vector<Sum> sums;
    for (Rank rank = 0; rank < 3; ++rank) sums.emplace_back(rank, 3, 100'000, 3);
    std::vector<Communicator> all;
    for (Rank rank = 0; rank < 3; ++rank) all.push_back(world.world(rank));
    if (duplicate)
      world.run([&](Rank rank, Communicator here) {
        if (auto made = here.duplicate("another"); made) all[static_cast<std::size_t>(rank)] = *std::move(made);
      });
    Work mine = sums[0].begin(all[0]), theirs = sums[1].begin(all[1]);  // rank 2 never comes
    world.drop(0);
    EXPECT_EQ(mine.status().code(), ErrorCode::aborted);
    EXPECT_EQ(theirs.wait().code(), ErrorCode::aborted) << theirs.status().to_string();
    EXPECT_NE(theirs.status().message().find("rank 0 (host here) has ended its engine"), std::string::npos)
        << theirs.status().message();
  }
}

TEST(Asynchronous, a_receive_of_nothing_that_an_engine_ends_is_nobody_elses_business) {
  Config config;
  config.leave_timeout = std::chrono::milliseconds(200);  // the others stay
  ThreadWorld world(3, config);
  int nothing = 0, sent = 7, got = 0;
  Work waiting = world.world(0).start(Operation::recv(&nothing, 1, DataType::int32, any_source));
  world.drop(0);
  EXPECT_EQ(waiting.status().code(), ErrorCode::aborted);
  Work receive = world.world(2).start(Operation::recv(&got, 1, DataType::int32, 1));
  Work send = world.world(1).start(Operation::send(&sent, 1, DataType::int32, 2));
  EXPECT_TRUE(send.wait().ok()) << send.status().to_string();
  EXPECT_TRUE(receive.wait().ok()) << receive.status().to_string();
  EXPECT_EQ(got, sent);
}

TEST(Asynchronous, work_dropped_unwaited_goes_on_in_the_progress_thread) {
  std::vector<Sum> at_first, at_second;
  ThreadWorld world(2);
  for (std::uint64_t i = 0; i < 10; ++i) {
    at_first.emplace_back(0, 2, 10'000, i);
    at_second.emplace_back(1, 2, 10'000, i);
  }
  Communicator first = world.world(0), second = world.world(1);
  std::vector<Work> kept;
  for (std::size_t i = 0; i < 10; ++i) {
    (void)at_first[i].begin(first);
    kept.push_back(at_second[i].begin(second));
  }
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(kept[i].wait().ok());  // needs the other rank's part
    EXPECT_TRUE(at_second[i].right());
  }
  // What is still under way ends with the engines, before the buffers do.
}

// It is called with the drive held: who waits there next would wait for ever, and with it the other ranks.
TEST(AsynchronousDeathTest, a_function_that_throws_when_it_is_notified_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto notified = [](bool before_the_end) {
    ThreadWorld world(2);
    world.run([&](Rank rank, Communicator all) {
      Sum sum(rank, 2, 1000, 1);
      if (rank == 1) {
        if (before_the_end) (void)all.barrier();
        (void)sum.run(all);
        return;
      }
      const Work barrier = before_the_end ? all.start(Operation::barrier()) : Work();
      Work work = sum.begin(all);
      if (!before_the_end) (void)work.wait();
      work.notify([](void*) { throw std::runtime_error("no such future"); }, nullptr);
      (void)work.wait();
    });
  };
  for (const bool before_the_end : {true, false})
    EXPECT_DEATH(notified(before_the_end), "\\(notify\\) threw an exception \\(no such future\\).*this process ends");
}

}  // namespace
}  // namespace fabring::fixture
