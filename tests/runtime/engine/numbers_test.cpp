// The numbers of operations and of communicators: when they begin again, when several threads take them at once, and
// what comes for a communicator whose number is not known here yet.

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "runtime/engine/members/membership.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t soon_over = 0xfffffffa;
constexpr std::array<Rank, 2> both_ranks{0, 1};
constexpr std::array<Rank, 1> rank_0_alone{0};

Config timeout_of(std::chrono::seconds timeout) {
  Config config;
  config.timeout = timeout;
  return config;
}

Status add_ones(Communicator& group, int& sum) {
  int one = 1;
  return group.allreduce(&one, &sum, 1, DataType::int32, ReduceOp::sum);
}

void count_past_the_last_number(std::size_t count, bool async) {
  ThreadWorld world(2, timeout_of(20s), ThreadWorld::Over::shm);
  for (Rank rank = 0; rank < 2; ++rank) world.engine(rank).world()->last_sequence.store(soon_over);
  world.run([&](Rank rank, Communicator all) {
    std::vector<float> in(count, 1.F + static_cast<float>(rank)), out(count);
    for (int i = 0; i < 20; ++i) {
      const Status status =
          async ? all.allreduce_async(in.data(), out.data(), count, DataType::float32, ReduceOp::sum).wait()
                : all.allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum);
      ASSERT_TRUE(status.ok()) << "call " << i << ": " << status.to_string();
      ASSERT_EQ(out[0], 3.F);
    }
  });
}

TEST(Numbers, of_operations_begin_again) {
  count_past_the_last_number(4, false);
  count_past_the_last_number(4, true);
  count_past_the_last_number(1'000'000, false);
}

TEST(Numbers, of_operations_leave_out_0) {
  EXPECT_EQ(next_sequence(0), 1u);
  EXPECT_EQ(next_sequence(0xffffffff), 1u);
  EXPECT_TRUE(is_before(1, 2));
  EXPECT_FALSE(is_before(2, 2));
  EXPECT_TRUE(is_before(0xffffffff, 1));
  EXPECT_FALSE(is_before(1, 0xffffffff));
}

// Two threads split two communicators; the threads of the ranks come in opposite order, so that both pairs agree on the
// higher number. Nobody gets it, and the next proposals of the two have nothing in common.
TEST(Numbers, two_splits_that_agree_on_one_number_both_try_again) {
  ThreadWorld world(2);
  EngineCore& a = world.engine(0);
  EngineCore& b = world.engine(1);
  const std::uint32_t first = 40, second = 41;  // parents
  const std::uint32_t a_first = a.propose_communicator_id(0, first, 0),
                      a_second = a.propose_communicator_id(0, second, 0);
  const std::uint32_t b_second = b.propose_communicator_id(0, second, 0),
                      b_first = b.propose_communicator_id(0, first, 0);
  const std::uint32_t agreed = std::max(a_first, b_first);
  ASSERT_EQ(agreed, std::max(a_second, b_second));
  const bool first_on_a = a.claim_communicator_id(a_first, agreed),
             second_on_a = a.claim_communicator_id(a_second, agreed);
  const bool second_on_b = b.claim_communicator_id(b_second, agreed),
             first_on_b = b.claim_communicator_id(b_first, agreed);
  EXPECT_FALSE(first_on_a && first_on_b && second_on_a && second_on_b);
  a.give_back_communicator_id(agreed);
  b.give_back_communicator_id(agreed);
  bool differ = false;
  for (unsigned failed = 1; failed < 32 && !differ; ++failed) {
    const std::uint32_t a1 = a.propose_communicator_id(agreed + 1, first, failed);
    const std::uint32_t a2 = a.propose_communicator_id(agreed + 1, second, failed);
    const std::uint32_t b2 = b.propose_communicator_id(agreed + 1, second, failed);
    const std::uint32_t b1 = b.propose_communicator_id(agreed + 1, first, failed);
    differ = std::max(a1, b1) != std::max(a2, b2);
  }
  EXPECT_TRUE(differ);
}

TEST(Numbers, of_communicators_that_threads_split_at_once_differ) {
  constexpr int rounds = 100;
  ThreadWorld world(2);
  std::array<std::array<Communicator, 2>, 2> parents;  // by thread, rank
  world.run([&](Rank rank, Communicator all) {
    for (auto& parent : parents) parent[static_cast<std::size_t>(rank)] = *all.duplicate();
  });
  for (int round = 0; round < rounds; ++round) {
    std::array<std::array<int, 2>, 2> sums{};
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 2; ++thread)
      for (std::size_t rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, thread, rank] {
          auto made = parents[thread][rank].duplicate();
          ASSERT_TRUE(made.has_value()) << made.error().to_string();
          int one = thread == 0 ? 1 : 100;
          const Status status = made->allreduce(&one, &sums[thread][rank], 1, DataType::int32, ReduceOp::sum);
          ASSERT_TRUE(status.ok()) << status.to_string();
        });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(sums, (std::array<std::array<int, 2>, 2>{{{2, 2}, {200, 200}}})) << "round " << round;
  }
}

// All that a rank may send ahead of time, on more communicators than one.
TEST(Numbers, of_communicators_that_are_made_late_keep_what_came_for_them) {
  constexpr int groups = 40, calls = 120;
  ThreadWorld world(2, timeout_of(20s), ThreadWorld::Over::shm);
  world.run([&](Rank rank, Communicator all) {
    std::vector<int> values(groups * calls, rank == 1 ? 7 : 0);
    std::vector<Communicator> made;
    std::vector<Work> works;
    const auto begin = [&] {
      for (std::size_t group = 0; group < groups; ++group) {
        made.push_back(*all.subgroup(both_ranks, static_cast<std::uint32_t>(group)));
        for (std::size_t call = 0; call < calls; ++call) {
          int* const value = &values[group * calls + call];
          works.push_back(made.back().start(Operation::broadcast(value, value, 1, DataType::int32, 1)));
        }
      }
    };
    if (rank == 1) begin();
    for (Work& work : works) (void)work.wait_for(1ms);  // drives: what may go goes
    const Status met = all.barrier();
    ASSERT_TRUE(met.ok()) << met.to_string();
    if (rank == 0) begin();
    for (Work& work : works) {
      const Status status = work.wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    EXPECT_EQ(values, std::vector<int>(groups * calls, 7));
  });
}

// What is on its way for the earlier group of a number would reach the later one. Groups without a common rank have
// nothing on their way to each other.
TEST(Numbers, of_subgroups_serve_a_rank_once) {
  ThreadWorld world(4, timeout_of(20s), ThreadWorld::Over::shm);
  world.run([&](Rank rank, Communicator all) {
    const Rank other = rank ^ 1;
    const std::array<Rank, 2> pair{std::min(rank, other), std::max(rank, other)}, across{rank & 1, 2 + (rank & 1)};
    const auto sum_on = [&](Communicator& group) {
      int sum = 0;
      const Status status = group.allreduce(&rank, &sum, 1, DataType::int32, ReduceOp::sum);
      EXPECT_TRUE(status.ok()) << status.to_string();
      return sum;
    };
    Communicator made = *all.subgroup(pair, 5);
    EXPECT_EQ(sum_on(made), rank + other);
    const auto expect_refused = [&](const Result<Communicator>& again) {
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error().code(), ErrorCode::invalid_argument);
      EXPECT_NE(again.error().message().find("the number 5 was given to an earlier one"), std::string::npos)
          << again.error().message();
    };
    expect_refused(all.subgroup(pair, 5));
    made = {};
    expect_refused(all.subgroup(pair, 5));
    expect_refused(all.subgroup(across, 5));
    made = *all.subgroup(across, 6);
    EXPECT_EQ(sum_on(made), across[0] + across[1]);
  });
}

// The earlier group of that number may be one that nobody else ever heard of, or one that is long forgotten.
TEST(Numbers, of_subgroups_that_are_refused_are_told_of_whatever_the_earlier_one_was) {
  for (const bool forgotten : {false, true}) {
    ThreadWorld world(2, timeout_of(60s));
    world.run([&](Rank rank, Communicator all) {
      if (rank == 1) {
        const auto began = std::chrono::steady_clock::now();
        Communicator group = *all.subgroup(both_ranks, 5);
        int sum = 0;
        const Status status = add_ones(group, sum);
        EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
        EXPECT_EQ(status.context().rank, 0) << status.to_string();
        EXPECT_NE(status.message().find("the number 5 was given to an earlier one"), std::string::npos)
            << status.message();
        EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
      } else {
        Communicator own = *all.subgroup(rank_0_alone, 5);
        if (forgotten) {
          own = {};
          for (std::uint32_t i = 0; i < SubgroupLists::most_gone + 2; ++i) (void)all.subgroup(rank_0_alone, 100 + i);
        }
        const auto again = all.subgroup(both_ranks, 5);
        ASSERT_FALSE(again);
        EXPECT_EQ(again.error().code(), ErrorCode::invalid_argument) << again.error().to_string();
      }
      EXPECT_TRUE(all.barrier().ok());
    });
  }
}

TEST(Numbers, of_subgroups_do_not_end_a_group_of_one_when_others_are_refused_it) {
  ThreadWorld world(2, timeout_of(60s));
  world.run([&](Rank rank, Communicator all) {
    int sum = 0;
    if (rank == 0) {
      Communicator own = *all.subgroup(rank_0_alone, 5);
      EXPECT_FALSE(all.subgroup(both_ranks, 5));
      EXPECT_TRUE(all.barrier().ok());  // the other has heard
      EXPECT_TRUE(add_ones(own, sum).ok());
      EXPECT_EQ(sum, 1);
    } else {
      Communicator group = *all.subgroup(both_ranks, 5);
      const Status status = add_ones(group, sum);
      EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
      EXPECT_TRUE(all.barrier().ok());
    }
  });
}

}  // namespace
}  // namespace fabring::fixture
