// The public Communicator over real threads: blocking calls, several threads of one rank, wrong arguments. Meant for
// ThreadSanitizer too.

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include "tests/runtime/engine/sum.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Threads, blocking_calls_of_all_sizes_are_right) {
  for (const int ranks : {1, 2, 4}) {
    ThreadWorld world(ranks);
    world.run([&](Rank rank, Communicator all) {
      for (const std::size_t count : {0u, 1u, 1000u, 100'000u, 400'000u}) {
        Sum sum(rank, ranks, count, count);
        const Status status = sum.run(all);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(sum.right()) << count;
      }
      ASSERT_TRUE(all.barrier().ok());
    });
  }
}

// Memory that a call copied for itself is not sent again by the next one, whatever came of the first.
TEST(Threads, only_what_is_rounded_has_to_be_reproducible) {
  Config config;
  config.reproducible = true;
  config.algorithm = "ring";
  ThreadWorld world(3, config);
  const auto algorithm = [&](DataType type, const Reduction& reduction) {
    return world.world(0).explain(Operation::allreduce(nullptr, nullptr, 3000, type, reduction)).algorithm;
  };
  EXPECT_EQ(algorithm(DataType::int32, ReduceOp::sum), "ring");
  EXPECT_NE(algorithm(DataType::uint8, ReduceOp::avg), "ring");
  EXPECT_EQ(algorithm(DataType::boolean, ReduceOp::logical_and), "ring");
  EXPECT_NE(algorithm(DataType::float32, ReduceOp::sum), "ring");
  EXPECT_NE(algorithm(DataType::float8_e5m2, ReduceOp::max), "ring");
  const auto nothing = [](void*, const void*, std::size_t, DataType, void*) {};
  EXPECT_NE(algorithm(DataType::int32, Reduction::user(nothing, nullptr, true)), "ring");
}

// Each rank knows only what it sends and receives itself, so it must not choose by that.
TEST(Threads, alltoall_of_unequal_blocks_has_one_algorithm_whatever_a_rank_has_of_it) {
  Config config;
  config.algorithm = "alltoall:-100:pairwise,alltoall:101-:direct_one_shot";
  ThreadWorld world(3, config);
  world.run([&](Rank rank, Communicator all) {
    // What rank i sends to j, in elements: 4 B in all or 40 KB.
    constexpr std::size_t lengths[3][3] = {{0, 0, 0}, {0, 0, 0}, {1, 0, 10'000}};
    std::vector<std::size_t> counts, out_counts;
    for (int other = 0; other < 3; ++other) {
      counts.push_back(lengths[rank][other]);
      out_counts.push_back(lengths[other][rank]);
    }
    std::vector<std::int32_t> in(20'000, 100 + rank),
        out(std::accumulate(out_counts.begin(), out_counts.end(), 0UL), -1);
    Operation operation = Operation::alltoall(in.data(), out.data(), 0, DataType::int32);
    operation.by_blocks = true;
    operation.blocks = {counts, {}};
    operation.out_blocks = {out_counts, {}};
    const Status status = all.run(operation);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_THAT(out, Each(102));
    EXPECT_THAT(all.explain(operation).reason,
                AllOf(HasSubstr("each rank knows only its own lengths"), Not(HasSubstr("asked for"))));
  });
}

TEST(Threads, alltoall_in_place_sends_what_is_there_now_also_after_a_call_that_was_refused) {
  for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm}) {
    ThreadWorld world(2, {}, over);
    world.run([&](Rank rank, Communicator all) {
      std::vector<std::int32_t> blocks(2);
      for (int round = 1; round <= 5; ++round) {
        for (int block = 0; block < 2; ++block)
          blocks[static_cast<std::size_t>(block)] = 1000 * round + 10 * rank + block;
        if (round == 3) {
          ASSERT_FALSE(all.allreduce(nullptr, nullptr, 5, DataType::int32, ReduceOp::sum).ok());
        }
        const Status status = all.alltoall(blocks.data(), blocks.data(), 1, DataType::int32);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(blocks, (std::vector<std::int32_t>{1000 * round + rank, 1000 * round + 10 + rank}))
            << "round " << round;
      }
    });
  }
}

// Whoever calls at the moment in which the engine leaves gets an error: it takes long until the call of a new
// communicator, whose plan is to be made, is under way.
TEST(Threads, calls_made_while_the_engine_leaves_end) {
  for (int round = 0; round < 100; ++round) {
    ThreadWorld world(1);
    std::atomic<int> calls{0};
    Status status;
    std::thread caller([&calls, &status, all = world.world(0)]() mutable {
      std::vector<int> values(10);
      const std::array<Rank, 1> self{0};
      for (; status.ok(); ++calls) {
        auto made = all.subgroup(self, static_cast<std::uint32_t>(calls.load()));
        status =
            made ? made->allreduce(values.data(), values.data(), 10, DataType::int32, ReduceOp::sum) : made.error();
      }
    });
    while (calls < 3 + round % 5) std::this_thread::yield();
    (void)world.engine(0).leave();
    caller.join();
    ASSERT_EQ(status.code(), ErrorCode::aborted) << status.to_string();
    ASSERT_THAT(status.message(),
                AnyOf(HasSubstr("this rank has left the job"), HasSubstr("the engine was destroyed")));
  }
}

TEST(Threads, several_threads_of_a_rank_use_communicators_of_their_own) {
  constexpr int ranks = 3, threads = 3;
  ThreadWorld world(ranks);
  world.run([&](Rank rank, Communicator all) {
    std::vector<Communicator> own;
    for (int i = 0; i < threads; ++i) {
      auto made = all.split(0, rank, "thread" + std::to_string(i));
      ASSERT_TRUE(made.has_value()) << made.error().to_string();
      own.push_back(*made);
    }
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&, i] {
        for (std::uint64_t turn = 0; turn < 30; ++turn) {
          Sum sum(rank, ranks, 100 + turn * 300, turn * 8 + static_cast<std::uint64_t>(i));
          if (turn % 2 == 0) {
            EXPECT_TRUE(sum.run(own[static_cast<std::size_t>(i)]).ok());
          } else {
            EXPECT_TRUE(sum.begin(own[static_cast<std::size_t>(i)]).wait().ok());
          }
          EXPECT_TRUE(sum.right());
          (void)world.engine(rank).traffic();
        }
      });
    for (std::thread& worker : workers) worker.join();
  });
}

TEST(Threads, two_communicators_in_opposite_orders_finish_even_with_the_least_scratch) {
  constexpr int ranks = 3;
  Config least;
  least.scratch_bytes = 4096;
  least.segment_bytes = 1500;  // one operation at a time fits; ranks that meet in earnest find such a length themselves
  least.depth = 1;
  for (const Config& config : {Config(), least}) {
    ThreadWorld world(ranks, config);
    world.run([&](Rank rank, Communicator all) {
      auto first = all.duplicate("first"), second = all.duplicate("second");
      ASSERT_TRUE(first.has_value() && second.has_value());
      // Even ranks begin on the first and odd ones on the second; each is then waited for by a thread of its own.
      for (std::uint64_t turn = 0; turn < 10; ++turn) {
        Sum on_first(rank, ranks, 9'000 + turn, turn), on_second(rank, ranks, 5'000 + turn, turn + 100);
        Work one, two;
        if (rank % 2 == 0) one = on_first.begin(*first);
        two = on_second.begin(*second);
        if (rank % 2 == 1) one = on_first.begin(*first);
        std::thread beside([&] { EXPECT_TRUE(one.wait().ok()); });
        EXPECT_TRUE(two.wait().ok());
        beside.join();
        EXPECT_TRUE(on_first.right() && on_second.right());
      }
      // And with blocking calls all the way, begun by whichever thread comes first.
      const auto run = [&](Communicator on, std::size_t count) {
        for (std::uint64_t turn = 0; turn < 10; ++turn) {
          Sum sum(rank, ranks, count + turn, turn);
          EXPECT_TRUE(sum.run(on).ok());
          EXPECT_TRUE(sum.right());
        }
      };
      std::thread beside(run, rank % 2 == 0 ? *first : *second, rank % 2 == 0 ? 9'000 : 5'000);
      run(rank % 2 == 0 ? *second : *first, rank % 2 == 0 ? 5'000 : 9'000);
      beside.join();
    });
  }
}

TEST(Threads, split_makes_groups_ordered_by_key) {
  ThreadWorld world(5);
  world.run([&](Rank rank, Communicator all) {
    auto parts = all.split(rank == 4 ? -1 : rank % 2, -rank);
    ASSERT_TRUE(parts.has_value());
    if (rank == 4) {
      EXPECT_EQ(parts->size(), 0);
      EXPECT_FALSE(static_cast<bool>(*parts));
      return;
    }
    EXPECT_EQ(parts->size(), 2);
    EXPECT_EQ(parts->rank(), rank < 2 ? 1 : 0);  // the higher world rank comes first
    std::int64_t value = rank;
    ASSERT_TRUE(parts->allreduce(&value, &value, 1, DataType::int64, ReduceOp::sum).ok());
    EXPECT_EQ(value, rank % 2 == 0 ? 2 : 4);
    auto again = parts->split(0, 0, "again");
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->label(), "again");
    EXPECT_TRUE(again->barrier().ok());
  });
}

TEST(Threads, a_split_that_fails_says_so_and_names_who_took_part) {
  ThreadWorld world(3);
  world.run([&](Rank rank, Communicator all) {
    if (rank == 2) {
      int value = 0;
      EXPECT_EQ(all.broadcast(&value, 1, DataType::int32, 0).code(), ErrorCode::mismatch);
      return;
    }
    const auto parts = all.split(rank, 0);
    ASSERT_FALSE(parts.has_value());
    EXPECT_THAT(parts.error().message(), HasSubstr("split of 'world' (ranks 0-2) failed: "));
  });
}

TEST(Threads, abort_from_another_thread_ends_a_blocking_call) {
  ThreadWorld world(2);
  Communicator here = world.world(0);
  auto waiting = std::async(std::launch::async, [here]() mutable { return here.barrier(); });  // rank 1 never comes
  here.abort("the test says so");
  const Status ended = waiting.get();
  EXPECT_EQ(ended.code(), ErrorCode::aborted);
  EXPECT_THAT(ended.message(), HasSubstr("the test says so"));
  EXPECT_EQ(world.world(1).barrier().code(), ErrorCode::aborted);
}

TEST(Threads, leaving_ends_a_blocking_call_of_another_thread) {
  ThreadWorld world(2);
  Communicator here = world.world(0);
  std::promise<void> about_to_wait;
  auto waiting = std::async(std::launch::async, [&about_to_wait, here]() mutable {
    about_to_wait.set_value();
    return here.barrier();  // rank 1 never comes
  });
  about_to_wait.get_future().wait();
  auto other = std::async(std::launch::async, [&] { return world.engine(1).leave(); });
  EXPECT_TRUE(world.engine(0).leave().ok());
  EXPECT_TRUE(other.get().ok());
  EXPECT_EQ(waiting.get().code(), ErrorCode::aborted);
}

// The program may end once it has returned, and with it the thread that says goodbye.
TEST(Threads, who_leaves_second_waits_for_who_left_first) {
  ThreadWorld world(2);
  auto first = std::async(std::launch::async, [&] { return world.engine(0).leave(); });  // waits for rank 1's goodbye
  while (world.world(0).health().ok()) std::this_thread::yield();
  auto second = std::async(std::launch::async, [&] { return world.engine(0).leave(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(world.engine(1).leave().ok());
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST(Threads, what_is_called_after_leaving_was_not_under_way) {
  ThreadWorld world(2);
  Communicator here = world.world(0);
  Work waiting = here.start(Operation::barrier());  // rank 1 never comes
  auto other = std::async(std::launch::async, [&] { return world.engine(1).leave(); });
  EXPECT_TRUE(world.engine(0).leave().ok());
  EXPECT_TRUE(other.get().ok());
  EXPECT_THAT(waiting.wait().message(), HasSubstr("while this operation was under way"));
  EXPECT_THAT(here.barrier().message(), HasSubstr("this rank has left the job"));
  EXPECT_THAT(here.health().message(), HasSubstr("this rank has left the job"));
}

// A small call takes no reference to its engine: the engine's end waits for it, and it for the operation's.
TEST(Threads, the_end_of_an_engine_ends_a_small_call_of_another_thread) {
  for (int round = 0; round < 5; ++round) {
    ThreadWorld world(2, {}, ThreadWorld::Over::shm);
    world.run([](Rank, Communicator all) {
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(all.barrier().ok());  // the second knows its like
    });
    Communicator here = world.world(0);
    std::promise<void> about_to_wait;
    auto waiting = std::async(std::launch::async, [&about_to_wait, &here] {
      about_to_wait.set_value();
      return here.barrier();  // rank 1 never comes
    });
    about_to_wait.get_future().wait();
    auto other = std::async(std::launch::async, [&] { world.drop(1); });
    world.drop(0);
    other.get();
    EXPECT_EQ(waiting.get().code(), ErrorCode::aborted);
    EXPECT_EQ(here.barrier().code(), ErrorCode::aborted);
  }
}

TEST(Arguments, that_are_wrong_are_refused_and_the_communicator_stays_usable) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  alignas(64) std::array<float, 64> data{};
  const auto code = [&](const void* in, void* out, std::size_t count, DataType type = DataType::float32,
                        ReduceOp op = ReduceOp::sum) { return all.allreduce(in, out, count, type, op).code(); };
  EXPECT_EQ(code(nullptr, data.data(), 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), nullptr, 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code(nullptr, nullptr, 0), ErrorCode::ok);
  EXPECT_EQ(code(reinterpret_cast<char*>(data.data()) + 1, data.data() + 32, 1), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), data.data() + 1, 2), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), data.data() + 2, 2), ErrorCode::ok);
  EXPECT_EQ(code(data.data(), data.data(), SIZE_MAX / 2), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), data.data(), 1, static_cast<DataType>(99)), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), data.data(), 1, DataType::float32, static_cast<ReduceOp>(99)),
            ErrorCode::invalid_argument);
  for (const ReduceOp op : {ReduceOp::bitwise_or, ReduceOp::logical_and})
    EXPECT_EQ(code(data.data(), data.data(), 1, DataType::float32, op), ErrorCode::unsupported) << name(op);
  EXPECT_EQ(code(data.data(), data.data(), 1, DataType::float32, ReduceOp::user), ErrorCode::invalid_argument);
  EXPECT_EQ(code(data.data(), data.data(), 1, DataType::boolean, ReduceOp::avg), ErrorCode::unsupported);
  EXPECT_EQ(all.allreduce_async(nullptr, data.data(), 1, DataType::float32, ReduceOp::sum).wait().code(),
            ErrorCode::invalid_argument);
  EXPECT_TRUE(all.health().ok());
  EXPECT_EQ(code(data.data(), data.data(), 64), ErrorCode::ok);
}

TEST(Communicator, starts_a_list_of_tensors) {
  ThreadWorld world(2);
  world.run([](Rank rank, Communicator all) {
    std::array<float, 2> first{1, 2};
    float second = static_cast<float>(rank), sum = 0;
    const std::array tensors{Tensor{first.data(), first.data(), first.size()}, Tensor{&second, &sum, 1}};
    Work work = all.grouped_allreduce_async(tensors, DataType::float32, ReduceOp::sum);
    EXPECT_TRUE(work.wait().ok()) << work.status().to_string();
    EXPECT_EQ(first, (std::array<float, 2>{2, 4}));
    EXPECT_EQ(sum, 1.F);
  });
}

TEST(Communicator, of_one_rank_gives_truth_values) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  std::array<std::int32_t, 3> numbers{0, 7, -1};
  ASSERT_TRUE(all.allreduce(numbers.data(), numbers.data(), 3, DataType::int32, ReduceOp::logical_or).ok());
  EXPECT_EQ(numbers, (std::array<std::int32_t, 3>{0, 1, 1}));
  const std::array<std::uint8_t, 3> booleans{0, 2, 0xFF};
  std::array<std::uint8_t, 3> out{9, 9, 9};
  ASSERT_TRUE(all.allreduce(booleans.data(), out.data(), 3, DataType::boolean, ReduceOp::max).ok());
  EXPECT_EQ(out, (std::array<std::uint8_t, 3>{0, 1, 1}));
}

TEST(Communicator, is_not_healthy_once_its_engine_has_left_or_is_gone) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  EXPECT_TRUE(all.health().ok());
  ASSERT_TRUE(world.engine(0).leave().ok());
  EXPECT_EQ(all.health().code(), ErrorCode::aborted);
  EXPECT_THAT(all.barrier().message(), HasSubstr(all.health().message()));
  const auto left = all.shrink();
  ASSERT_FALSE(left) << "of whom, when the others have left too?";
  EXPECT_EQ(left.error().code(), ErrorCode::aborted);
  world.drop(0);
  EXPECT_EQ(all.health().code(), ErrorCode::aborted);
}

TEST(Communicator, that_is_empty_answers_with_errors) {
  Communicator none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.rank(), -1);
  EXPECT_EQ(none.barrier().code(), ErrorCode::aborted);
  EXPECT_EQ(none.split(0, 0).error().code(), ErrorCode::aborted);
  EXPECT_EQ(none.subgroup({}, 1).error().code(), ErrorCode::aborted);
  EXPECT_EQ(none.prepare(Operation::barrier()).error().code(), ErrorCode::aborted);
  EXPECT_EQ(none.explain(Operation::barrier()).status.code(), ErrorCode::aborted);
  EXPECT_EQ(none.health().code(), ErrorCode::aborted);
  none.abort("nothing");
  EXPECT_EQ(none.allreduce_async(nullptr, nullptr, 0, DataType::float32, ReduceOp::sum).wait().code(),
            ErrorCode::aborted);
  Prepared unprepared;
  EXPECT_EQ(unprepared.run().code(), ErrorCode::aborted);
  EXPECT_EQ(unprepared.start().wait().code(), ErrorCode::aborted);
  EXPECT_EQ(unprepared.start_on(nullptr).wait().code(), ErrorCode::aborted);
  EXPECT_TRUE(Work().done());
}

}  // namespace
}  // namespace fabring::fixture
