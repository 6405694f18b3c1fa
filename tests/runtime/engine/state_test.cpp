// What a rank says of itself while it works, waits, idles or is stuck in a function of the caller: asked from another
// thread, at any time, and the operations are right all the same. Meant for ThreadSanitizer too.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "tests/support/exact_data.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

RankState until(EngineCore& engine, const std::function<bool(const RankState&)>& enough) {
  const auto deadline = steady_clock::now() + 60s;
  for (;;) {
    RankState state = engine.state();
    if (enough(state) || steady_clock::now() > deadline) return state;
  }
}

TEST(State, OfARankThatHasCalledNothing) {
  ThreadWorld world(2);
  const RankState state = world.engine(1).state();
  EXPECT_EQ(state.rank, 1);
  EXPECT_EQ(state.world, 2);
  EXPECT_EQ(state.driver, Driver::nobody);
  EXPECT_EQ(state.idle_ms, -1);
  EXPECT_TRUE(state.operations.empty());
  ASSERT_EQ(state.communicators.size(), 1u);
  EXPECT_EQ(state.communicators[0].label, "world");
  EXPECT_EQ(state.communicators[0].called, 0u);
}

TEST(State, OfARankThatWaitsNamesTheOneItWaitsFor) {
  ThreadWorld world(2);
  std::vector<float> in(100'000, 1), out0(in.size()), out1(in.size());
  Communicator first = world.world(0), second = world.world(1);
  auto waiting = std::async(std::launch::async, [&] {
    return first.allreduce(in.data(), out0.data(), in.size(), DataType::float32, ReduceOp::sum);
  });
  const RankState state = until(world.engine(0), [](const RankState& one) {
    return !one.operations.empty() && one.operations[0].phase == OperationPhase::running &&
           one.operations[0].stuck_ms > 0;
  });
  ASSERT_EQ(state.operations.size(), 1u);
  EXPECT_EQ(state.operations[0].sequence, 1u);
  EXPECT_THAT(state.operations[0].call, HasSubstr("allreduce(100000 x float32"));
  ASSERT_EQ(state.operations[0].peers.size(), 1u);
  EXPECT_EQ(state.operations[0].peers[0].rank, 1);
  EXPECT_TRUE(state.operations[0].peers[0].awaited);
  EXPECT_GT(state.operations[0].peers[0].to_receive, 0u);
  EXPECT_EQ(world.engine(1).state().communicators[0].called, 0u) << "and that one has not called it";

  ASSERT_TRUE(second.allreduce(in.data(), out1.data(), in.size(), DataType::float32, ReduceOp::sum).ok());
  ASSERT_TRUE(waiting.get().ok());
  const RankState after = until(world.engine(0), [](const RankState& one) { return one.operations.empty(); });
  EXPECT_GE(after.idle_ms, 0);
  EXPECT_EQ(after.communicators[0].called, 1u);
  EXPECT_THAT(after.communicators[0].last_call, HasSubstr("allreduce"));
}

TEST(State, OfADriverInsideAFunctionOfTheCallerIsUnheard) {
  struct Gate {
    std::promise<void> entered, go;
    std::atomic<bool> first{true};
    std::shared_future<void> may_go{go.get_future()};
  } gate;
  const auto stuck = [](void*, const void*, std::size_t, DataType, void* context) {
    auto& shut = *static_cast<Gate*>(context);
    if (!shut.first.exchange(false)) return;
    shut.entered.set_value();
    shut.may_go.wait();
  };
  ThreadWorld world(2);
  std::vector<float> in(16, 1), out0(16), out1(16);
  Communicator first = world.world(0), second = world.world(1);
  const auto call = [&](Communicator on, std::vector<float>& out) {
    return on.allreduce(in.data(), out.data(), in.size(), DataType::float32, Reduction::user(stuck, &gate, true));
  };
  auto one = std::async(std::launch::async, [&] { return call(first, out0); });
  auto two = std::async(std::launch::async, [&] { return call(second, out1); });
  gate.entered.get_future().wait();
  // One of the two is in the function: it, and only it, is not heard; the question is answered all the same.
  const auto began = steady_clock::now();
  const bool unheard0 = world.engine(0).state().driver == Driver::unheard;
  const bool unheard1 = world.engine(1).state().driver == Driver::unheard;
  EXPECT_LT(steady_clock::now() - began, 30s);
  EXPECT_NE(unheard0, unheard1);
  gate.go.set_value();
  EXPECT_TRUE(one.get().ok());
  EXPECT_TRUE(two.get().ok());
}

// Of two communicators beyond what is listed by age one has failed, and one is in use.
TEST(State, OfManyCommunicatorsThoseThatFailedAndThoseInUseAreListed) {
  constexpr std::size_t many = RankState::most_communicators + 8;
  ThreadWorld world(2);
  std::vector<Communicator> parts[2];
  world.run([&](Rank rank, Communicator all) {
    for (std::size_t i = 0; i < many; ++i) {
      auto part = all.duplicate("part" + std::to_string(i));
      ASSERT_TRUE(part) << part.error().to_string();
      parts[rank].push_back(std::move(*part));
    }
  });
  parts[0][many - 3].abort("the test said so");
  std::vector<float> in(100'000, 1), out0(in.size()), out1(in.size());
  const auto call = [&](Rank rank, std::vector<float>& out) {
    return parts[rank][many - 2].allreduce(in.data(), out.data(), in.size(), DataType::float32, ReduceOp::sum);
  };
  auto waiting = std::async(std::launch::async, [&] { return call(0, out0); });
  const auto lists = [](const RankState& one, const std::string& label) {
    return std::any_of(one.communicators.begin(), one.communicators.end(),
                       [&](const CommunicatorState& each) { return each.label == label; });
  };
  const std::string failed = "part" + std::to_string(many - 3), used = "part" + std::to_string(many - 2);
  const RankState state = until(world.engine(0), [&](const RankState& one) {
    return !one.operations.empty() && one.operations[0].phase == OperationPhase::running;
  });
  EXPECT_EQ(state.communicator_count, many + 1);
  EXPECT_EQ(state.communicators.size(), RankState::most_communicators);
  EXPECT_EQ(state.communicators[0].label, "world");
  EXPECT_TRUE(lists(state, failed));
  EXPECT_TRUE(lists(state, used));
  EXPECT_TRUE(call(1, out1).ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST(State, WhatRunsIsListedBeforeWhatIsQueued) {
  ThreadWorld world(2);
  Communicator late[2];
  world.run([&](Rank rank, Communicator all) {
    auto part = all.duplicate("late");
    ASSERT_TRUE(part) << part.error().to_string();
    late[rank] = *part;
  });
  constexpr std::size_t many = 4 * RankState::most_operations, count = 1 << 18;
  std::vector<std::vector<float>> data[2];
  std::vector<Work> works[2];
  const auto start = [&](Rank rank) {
    data[rank].assign(many + 1, std::vector<float>(count, 1));
    for (std::size_t i = 0; i <= many; ++i) {
      Communicator on = i < many ? world.world(rank) : late[rank];
      float* at = data[rank][i].data();
      works[rank].push_back(on.allreduce_async(at, at, count, DataType::float32, ReduceOp::sum));
    }
  };
  start(0);
  const RankState state = until(world.engine(0), [](const RankState& one) {
    return one.operation_count > many &&
           std::any_of(one.operations.begin(), one.operations.end(), [&](const OperationState& each) {
             return each.phase == OperationPhase::running && each.communicator == one.communicators.back().id;
           });
  });
  EXPECT_EQ(state.operation_count, many + 1);
  EXPECT_EQ(state.operations.size(), RankState::most_operations);
  EXPECT_TRUE(std::any_of(state.operations.begin(), state.operations.end(), [&](const OperationState& one) {
    return one.communicator == state.communicators.back().id && one.phase == OperationPhase::running;
  })) << "the one on 'late' runs";
  EXPECT_TRUE(std::is_sorted(state.operations.begin(), state.operations.end(),
                             [](const OperationState& a, const OperationState& b) {
                               return a.phase != OperationPhase::queued && b.phase == OperationPhase::queued;
                             }));
  start(1);
  for (auto& each : works)
    for (Work& work : each) EXPECT_TRUE(work.wait().ok());
}

TEST(State, AskingAllTheTimeDisturbsNothing) {
  ThreadWorld world(3);
  std::atomic<bool> over{false};
  std::atomic<int> asked{0};
  std::vector<std::thread> askers;
  for (Rank rank = 0; rank < 3; ++rank)
    askers.emplace_back([&, rank] {
      while (!over.load()) {
        const RankState state = world.engine(rank).state();
        EXPECT_TRUE(RankState::decode(state.encode()).has_value());
        ++asked;
      }
    });
  world.run([&](Rank rank, Communicator all) {
    for (std::uint64_t step = 0; step < 100; ++step) {
      const std::size_t count = 1 + step * 401;
      const auto in = input_of(DataType::float32, ReduceOp::sum, rank, 3, count, step);
      std::vector<std::byte> out(in.size());
      const Status done =
          step % 2 == 0 ? all.allreduce(in.data(), out.data(), count, DataType::float32, ReduceOp::sum)
                        : all.allreduce_async(in.data(), out.data(), count, DataType::float32, ReduceOp::sum).wait();
      ASSERT_TRUE(done.ok()) << done.to_string();
      ASSERT_EQ(out, output_of(DataType::float32, ReduceOp::sum, 3, count, step));
    }
  });
  over.store(true);
  for (std::thread& asker : askers) asker.join();
  EXPECT_GT(asked.load(), 0);
}

}  // namespace
}  // namespace fabring::fixture
