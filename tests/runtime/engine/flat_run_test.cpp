// Small blocking operations that their callers run at once: right, and the same to the others as those that go through
// the queue, whatever the mixture. Through shared memory and over a network's records, in real threads; meant for
// ThreadSanitizer too.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <future>
#include <random>
#include <thread>

#include "tests/support/collective_data.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SmallOperations : public testing::TestWithParam<ThreadWorld::Over> {};
INSTANTIATE_TEST_SUITE_P(Over, SmallOperations,
                         testing::Values(ThreadWorld::Over::shm, ThreadWorld::Over::inproc, ThreadWorld::Over::unasked),
                         [](const auto& over) {
                           return over.param == ThreadWorld::Over::shm      ? "shm"
                                  : over.param == ThreadWorld::Over::inproc ? "inproc"
                                                                            : "unasked";
                         });

/// Of an operation that is not run at once: it takes in whatever has come.
Status polled(Work work) {
  while (!work.done()) std::this_thread::yield();
  return work.status();
}

std::uint64_t ran_at_once(ThreadWorld& world) {
  std::uint64_t sum = 0;
  for (Rank rank = 0; rank < world.size(); ++rank) sum += world.engine(rank).ran_at_once();
  return sum;
}

/// An operation of one rank with its buffers.
struct Asked {
  Asked(const Request& what, Rank rank, int ranks) : data(data_of(what, rank, ranks)) {
    in = data.in;
    out = data.out;
    operation = data.operation(what, (data.one_buffer ? out.data() + data.in_at : in.data()), out.data() + data.out_at);
  }
  bool right() const { return out == data.out_after && (data.one_buffer || in == data.in_after); }
  RankData data;
  std::vector<std::byte> in, out;
  Operation operation;
};

// Every rank by itself decides whether to wait for an operation at once, later, or much later.
TEST_P(SmallOperations, of_every_kind_are_right_whoever_runs_them_at_once) {
  for (const int ranks : {2, 3, 4}) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      ThreadWorld world(ranks, {}, GetParam());
      world.run([&](Rank rank, Communicator all) {
        std::mt19937_64 common(seed), own(seed * 100 + static_cast<std::uint64_t>(rank));
        struct Begun {
          std::unique_ptr<Asked> asked;
          Work work;
        };
        std::deque<Begun> begun;
        const auto end_first = [&](int i) {
          const Status status = begun.front().work.wait();
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_TRUE(begun.front().asked->right()) << "operation " << i << " of seed " << seed;
          begun.pop_front();
        };
        for (int i = 0; i < 400; ++i) {
          const auto collective = static_cast<Collective>(common() % static_cast<std::uint64_t>(Collective::send));
          const std::size_t count = common() % 4 == 0 ? common() % 3000 : common() % 20;
          Request what = any_request(collective, ranks, count, common);
          what.salt = common();
          auto asked = std::make_unique<Asked>(what, rank, ranks);
          if (own() % 4 != 0) {
            const Status status = all.run(asked->operation);
            ASSERT_TRUE(status.ok()) << status.to_string();
            ASSERT_TRUE(asked->right()) << "operation " << i << " of seed " << seed;
          } else {
            Work work = all.start(asked->operation);
            begun.push_back({std::move(asked), std::move(work)});
          }
          while (begun.size() > own() % 6) end_first(i);
        }
        while (!begun.empty()) end_first(400);
      });
      EXPECT_GT(ran_at_once(world), 0u) << "no operation was run at once: nothing has been tested";
    }
  }
}

// The order in which a caller runs the steps of a plan itself is another one than the engine's.
TEST_P(SmallOperations, are_right_by_every_algorithm_and_among_many_ranks) {
  std::uint64_t at_once = 0;  // in all: a few operations of a world may all be handed over where the machine is busy
  for (const Algorithm algorithm : all_algorithms()) {
    for (const int ranks : {2, 3, 5, 8, 9}) {
      Config config;
      config.algorithm = name(algorithm);
      ThreadWorld world(ranks, config, GetParam());
      bool chosen = false;
      world.run([&](Rank rank, Communicator all) {
        std::mt19937_64 common(static_cast<std::uint64_t>(ranks));
        for (int c = 0; c < static_cast<int>(Collective::send); ++c) {
          const auto collective = static_cast<Collective>(c);
          if (!has_algorithm(collective, algorithm) || !takes_ranks(collective, algorithm, ranks)) continue;
          for (const std::size_t count : {0u, 1u, 5u, 40u}) {
            Request what = any_request(collective, ranks, count, common);
            what.salt = common();
            for (int again = 0; again < 2; ++again) {
              Asked asked(what, rank, ranks);
              if (rank == 0 && all.explain(asked.operation).algorithm == name(algorithm)) chosen = true;
              const Status status = all.run(asked.operation);
              ASSERT_TRUE(status.ok()) << status.to_string();
              ASSERT_TRUE(asked.right()) << name(collective) << " by " << name(algorithm) << " over " << ranks;
            }
          }
        }
      });
      EXPECT_TRUE(chosen) << name(algorithm) << " over " << ranks;
      at_once += ran_at_once(world);
    }
  }
  EXPECT_GT(at_once, 0u);
}

// 0.0 and -0.0 compare equal, and what was kept for the first was taken for the second: zeros had the wrong sign.
TEST_P(SmallOperations, scale_by_the_very_factor_that_was_given) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank, Communicator all) {
    for (int i = 0; i < 100; ++i) {
      const double factor = i % 2 == 0 ? 0.0 : -0.0;
      float in = 1, out = 1;
      ASSERT_TRUE(all.allreduce(&in, &out, 1, DataType::float32, Reduction::premul_sum(factor)).ok());
      ASSERT_EQ(out, 0);
      ASSERT_EQ(std::signbit(out), i % 2 != 0) << "call " << i;
    }
  });
}

TEST_P(SmallOperations, without_a_factor_are_none_with_a_factor_of_1) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank, Communicator all) {
    float in = 1, out = 0;
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(all.allreduce(&in, &out, 1, DataType::float32, Reduction::premul_sum(1)).ok());
    ASSERT_EQ(all.allreduce(&in, &out, 1, DataType::float32, ReduceOp::premul_sum).code(), ErrorCode::invalid_argument);
  });
}

TEST_P(SmallOperations, of_many_communicators_and_threads_never_take_each_others_messages) {
  constexpr int ranks = 3, threads = 3;
  ThreadWorld world(ranks, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    std::vector<Communicator> own;
    for (int i = 0; i < threads; ++i) own.push_back(*all.duplicate());
    std::vector<std::thread> callers;
    for (int i = 0; i < threads; ++i)
      callers.emplace_back([&, i] {
        for (int k = 0; k < 300; ++k) {
          std::int64_t value = rank + 1000 * i + 10 * k;
          const Status status =
              own[static_cast<std::size_t>(i)].allreduce(&value, &value, 1, DataType::int64, ReduceOp::sum);
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_EQ(value, 0 + 1 + 2 + 3 * (1000 * i + 10 * k));
        }
      });
    for (std::thread& caller : callers) caller.join();
  });
}

// One thread goes from communicator to communicator, another rank in another order, with operations under way on some.
TEST_P(SmallOperations, on_one_communicator_wait_beside_what_goes_on_on_others) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    Communicator other = *all.duplicate();
    for (int i = 0; i < 200; ++i) {
      std::vector<float> large(50'000, 1), sum(large.size());
      std::int32_t small = rank + i;
      Work work = (i + rank) % 2 == 0
                      ? other.allreduce_async(large.data(), sum.data(), large.size(), DataType::float32, ReduceOp::sum)
                      : Work();
      ASSERT_TRUE(all.allreduce(&small, &small, 1, DataType::int32, ReduceOp::sum).ok());
      ASSERT_EQ(small, 1 + 2 * i);
      if ((i + rank) % 2 != 0)
        work = other.allreduce_async(large.data(), sum.data(), large.size(), DataType::float32, ReduceOp::sum);
      ASSERT_TRUE(work.wait().ok());
      ASSERT_EQ(sum.front(), 2);
      ASSERT_EQ(sum.back(), 2);
    }
  });
}

TEST_P(SmallOperations, that_differ_between_ranks_are_named_on_all_of_them) {
  for (const std::size_t other : {2u, 1'000'000u}) {
    ThreadWorld world(2, {}, GetParam());
    world.run([&](Rank rank, Communicator all) {
      std::vector<float> data(other);
      std::int64_t agreed = 1;
      ASSERT_TRUE(all.allreduce(&agreed, &agreed, 1, DataType::int64, ReduceOp::sum).ok());
      const Status status =
          all.allreduce(data.data(), data.data(), rank == 0 ? 1 : other, DataType::float32, ReduceOp::sum);
      EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
      EXPECT_THAT(status.to_string(), AllOf(HasSubstr("operation #2"), HasSubstr("allreduce(1 x float32"),
                                            HasSubstr("allreduce(" + std::to_string(other) + " x float32")));
    });
  }
}

// Two roots of a broadcast do their parts alone, and rank 0 sees it in its next call. Rank 1 is told by its own next
// one, whatever that is, or else when it leaves.
TEST_P(SmallOperations, that_differed_are_told_once) {
  struct Next {
    const char* name;
    Status (*call)(Communicator);
    ErrorCode left;
  };
  const Next all_next[] = {
      {"a blocking call", [](Communicator all) { return all.barrier(); }, ErrorCode::ok},
      {"a started call", [](Communicator all) { return all.start(Operation::barrier()).wait(); }, ErrorCode::ok},
      {"a message",
       [](Communicator all) {
         const float value = 1;
         return all.send(&value, 1, DataType::float32, 0);
       },
       ErrorCode::ok},
      {"none", [](Communicator) { return Status(ErrorCode::mismatch, "not asked"); }, ErrorCode::mismatch},
  };
  for (const Next& next : all_next) {
    ThreadWorld world(2, {}, GetParam());
    float value = 1;
    for (Rank rank = 0; rank < 2; ++rank) {
      const Status status = world.world(rank).broadcast(&value, 1, DataType::float32, rank);
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    EXPECT_EQ(world.world(0).barrier().code(), ErrorCode::mismatch);
    EXPECT_EQ(next.call(world.world(1)).code(), ErrorCode::mismatch) << next.name;
    auto first = std::async(std::launch::async, [&] { return world.engine(0).leave(); });
    EXPECT_EQ(world.engine(1).leave().code(), next.left) << next.name;
    EXPECT_TRUE(first.get().ok()) << next.name;
  }
}

TEST_P(SmallOperations, wait_for_a_late_rank_and_report_it_while_they_do) {
  ThreadWorld world(2, {}, GetParam());
  std::int32_t first = 1, second = 2;
  Communicator waits = world.world(0), late = world.world(1);
  world.run([](Rank, Communicator all) { ASSERT_TRUE(all.barrier().ok()); });
  auto waiting = std::async(std::launch::async,
                            [&] { return waits.allreduce(&first, &first, 1, DataType::int32, ReduceOp::sum); });
  RankState state;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    state = world.engine(0).state();
  } while ((state.operations.empty() || state.operations[0].phase != OperationPhase::running) &&
           std::chrono::steady_clock::now() < deadline);
  ASSERT_EQ(state.operations.size(), 1u);
  EXPECT_THAT(state.operations[0].call, HasSubstr("allreduce(1 x int32"));
  ASSERT_EQ(state.operations[0].peers.size(), 1u);
  EXPECT_EQ(state.operations[0].peers[0].rank, 1);
  EXPECT_TRUE(state.operations[0].peers[0].awaited);
  EXPECT_EQ(state.operations[0].peers[0].sent, 1u) << "its own part has gone already";
  EXPECT_TRUE(late.allreduce(&second, &second, 1, DataType::int32, ReduceOp::sum).ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 3);
}

TEST_P(SmallOperations, that_wait_are_ended_by_an_abort) {
  ThreadWorld world(3, {}, GetParam());
  std::int32_t value = 1;
  Communicator waits = world.world(0);
  auto waiting = std::async(std::launch::async,
                            [&] { return waits.allreduce(&value, &value, 1, DataType::int32, ReduceOp::sum); });
  world.world(2).abort("enough of it");
  const Status status = waiting.get();
  EXPECT_EQ(status.code(), ErrorCode::aborted);
  EXPECT_THAT(status.to_string(), HasSubstr("enough of it"));
  EXPECT_EQ(waits.allreduce(&value, &value, 1, DataType::int32, ReduceOp::sum).code(), ErrorCode::aborted);
}

// Two ranks exchange a long vector record by record. What one of them does meanwhile besides, or that somebody asks
// what it is doing, makes it go on as any other operation would, from wherever it is.
TEST(LongOperations, of_two_ranks_are_right_whoever_runs_them_and_wherever_that_changes) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    ThreadWorld world(2, {}, ThreadWorld::Over::shm);
    std::atomic<bool> over{false};
    std::thread asks([&] {
      while (!over.load()) EXPECT_EQ(world.engine(1).state().rank, 1);
    });
    world.run([&](Rank rank, Communicator all) {
      Communicator other = *all.duplicate();
      std::mt19937_64 common(seed), own(seed * 100 + static_cast<std::uint64_t>(rank));
      for (int i = 0; i < 60; ++i) {
        const auto collective = static_cast<Collective>(common() % static_cast<std::uint64_t>(Collective::barrier));
        Request what = any_request(collective, 2, 1 + common() % 200'000, common);
        what.salt = common();
        Asked asked(what, rank, 2);
        std::int64_t small = rank + i, sum = 0;
        Work beside;
        if (common() % 2 == 0) beside = other.allreduce_async(&small, &sum, 1, DataType::int64, ReduceOp::sum);
        const Status status = own() % 3 != 0 ? all.run(asked.operation) : all.start(asked.operation).wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(asked.right()) << name(collective) << ", operation " << i << " of seed " << seed;
        ASSERT_TRUE(beside.wait().ok());
        ASSERT_TRUE(sum == 0 || sum == 1 + 2 * i);
      }
    });
    over = true;
    asks.join();
  }
}

TEST(LongOperations, of_two_ranks_are_run_at_once_if_neither_keeps_the_other_waiting) {
  ThreadWorld world(2, {}, ThreadWorld::Over::shm);
  world.run([&](Rank rank, Communicator all) {
    EngineCore& engine = world.engine(rank);
    std::vector<float> data(300'003);
    std::int64_t at_once = 0;  // on either; a busy machine may take a while
    for (int round = 0; round < 2000 && at_once == 0; ++round) {
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 1000);
      const std::uint64_t before = engine.ran_at_once();
      ASSERT_TRUE(all.allreduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum).ok());
      at_once = static_cast<std::int64_t>(engine.ran_at_once() - before);
      for (std::size_t i = 0; i < data.size(); ++i)
        ASSERT_EQ(data[i], static_cast<float>(i % 1000 + (i + 1) % 1000)) << i;
      ASSERT_TRUE(all.allreduce(&at_once, &at_once, 1, DataType::int64, ReduceOp::sum).ok());
    }
    EXPECT_GT(at_once, 0);
  });
}

// A rank that only sends gets ahead. What the others kept of it meanwhile is no reason to queue all that follows.
TEST_P(SmallOperations, are_run_at_once_also_if_their_messages_came_before_they_were_called) {
  constexpr int times = 40;
  ThreadWorld world(2, {}, GetParam());
  std::promise<void> all_sent;
  world.run([&](Rank rank, Communicator all) {
    std::vector<int> values(100);
    const auto call = [&] {
      return Operation::broadcast(values.data(), values.data(), values.size(), DataType::int32, 0);
    };
    if (rank == 0) {
      for (int i = 0; i < times; ++i) {
        std::ranges::fill(values, i);
        ASSERT_TRUE(all.run(call()).ok());
      }
      return all_sent.set_value();
    }
    all_sent.get_future().wait();
    ASSERT_TRUE(polled(all.start(call())).ok());
    const std::uint64_t before = world.engine(rank).ran_at_once();
    for (int i = 1; i < times; ++i) {
      ASSERT_TRUE(all.run(call()).ok());
      ASSERT_THAT(values, testing::Each(i));
    }
    EXPECT_GT(world.engine(rank).ran_at_once(), before);
  });
}

TEST_P(SmallOperations, that_do_not_fit_what_came_before_they_were_called_say_so) {
  ThreadWorld world(2, {}, GetParam());
  std::promise<void> all_sent;
  world.run([&](Rank rank, Communicator all) {
    std::vector<int> values(100);
    const auto call = [&](std::size_t count) {
      return Operation::broadcast(values.data(), values.data(), count, DataType::int32, 0);
    };
    if (rank == 0) {
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(all.run(call(100)).ok());
      return all_sent.set_value();
    }
    all_sent.get_future().wait();
    ASSERT_TRUE(polled(all.start(call(100))).ok());
    const Status status = all.run(call(99));
    EXPECT_EQ(status.code(), ErrorCode::mismatch);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("broadcast(100 x int32"), HasSubstr("broadcast(99 x int32")));
  });
}

TEST_P(SmallOperations, a_message_that_came_before_them_and_is_in_no_plan_is_refused) {
  ThreadWorld world(2, {}, GetParam());
  std::promise<void> sent;
  std::promise<void> refused;
  world.run([&](Rank rank, Communicator all) {
    std::vector<int> values(100);
    const auto call = [&] { return Operation::broadcast(values.data(), values.data(), 100, DataType::int32, 0); };
    if (rank == 0) {
      ASSERT_TRUE(all.run(call()).ok());
      EngineCore& engine = world.engine(0);
      Record record;
      record.communicator = engine.world()->id;
      record.sequence = 2;
      record.message = 999;
      record.signature = engine.world()->past[1].signature;
      record.bytes = sizeof(int);
      engine.transfer().send_record(1, record, std::as_bytes(std::span(values.data(), 1)));
      engine.transfer().flush();
      ASSERT_TRUE(all.run(call()).ok());
      sent.set_value();
      return refused.get_future().wait();
    }
    sent.get_future().wait();
    ASSERT_TRUE(polled(all.start(call())).ok());
    ASSERT_TRUE(all.run(call()).ok());  // all that it needs is here
    Operation unanswered = call();
    unanswered.timeout = std::chrono::seconds(20);
    const Status third = all.run(unanswered);
    EXPECT_THAT(third.message(), AllOf(HasSubstr("closed its data connection to rank 0"),
                                       HasSubstr("in broadcast #2 on communicator 'world' it sent a message that"),
                                       HasSubstr("(number 1000 of part 1, 4 bytes)"), HasSubstr("fabring --version")));
    refused.set_value();
  });
}

// What one rank said last is heard although it has gone.
TEST_P(SmallOperations, of_a_rank_that_leaves_at_once_reach_the_others) {
  for (int i = 0; i < 30; ++i) {
    ThreadWorld world(2, {}, GetParam());
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&world, rank] {
        Communicator all = world.world(rank);
        std::int32_t value = rank + 1;
        const Status status = all.allreduce(&value, &value, 1, DataType::int32, ReduceOp::sum);
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(value, 3);
        world.drop(rank);
      });
    for (std::thread& rank : ranks) rank.join();
  }
}

// One block for all, as they run one after the other; an operation that does not end at once keeps it, and the next has
// another, which on busy processors makes a few.
TEST(SmallOperationsHold, scratch_that_is_counted_and_does_not_grow_with_the_communicators) {
  constexpr int ranks = 4, communicators = 12;
  const std::vector<std::size_t> counts{2000, 500, 1000, 4};
  Config config;
  config.algorithm = "direct_one_shot";
  ThreadWorld world(ranks, config, ThreadWorld::Over::shm);
  std::vector<std::uint64_t> after(communicators);
  world.run([&](Rank rank, Communicator all) {
    std::vector<Communicator> groups;
    for (int i = 0; i < communicators; ++i) {
      auto group = all.duplicate();
      ASSERT_TRUE(group.has_value()) << group.error().to_string();
      groups.push_back(std::move(*group));
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (int round = 0; round < 2; ++round)
        for (const std::size_t count : counts) {
          std::vector<std::int32_t> in(count, rank + 1), out(count);
          ASSERT_TRUE(groups[i].allreduce(in.data(), out.data(), count, DataType::int32, ReduceOp::sum).ok());
          ASSERT_EQ(out, std::vector<std::int32_t>(count, 10));
        }
      if (rank == 0) after[i] = world.engine(0).state().memory->scratch;
    }
  });
  EXPECT_GT(ran_at_once(world), 0u);
  constexpr std::size_t block = (ranks - 1) * 2000 * sizeof(std::int32_t);
  EXPECT_GE(*std::max_element(after.begin(), after.end()), block);
  EXPECT_LT(after.back(), communicators / 2 * block);
}

}  // namespace
}  // namespace fabring::fixture
