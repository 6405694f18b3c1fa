// A program that calls one small operation after the other, without a pause: whatever else its rank has under way goes
// on beside them, and ends when its time is over.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

class SmallLoops : public testing::TestWithParam<ThreadWorld::Over> {};
INSTANTIATE_TEST_SUITE_P(Over, SmallLoops, testing::Values(ThreadWorld::Over::shm, ThreadWorld::Over::inproc),
                         [](const auto& over) { return over.param == ThreadWorld::Over::shm ? "shm" : "inproc"; });

/// Only what this rank calls drives it: the progress thread would not always keep away from a loop, and to ask a Work
/// whether it is done makes progress too.
std::shared_ptr<Execution> begin_without_thread(EngineCore& engine, const Operation& operation) {
  const auto core = engine.world();
  auto call = make_call(operation, *core, *engine.choices(core->shape()), {});
  EXPECT_TRUE(call.has_value());
  return engine.submit(core, std::move(*call), false);
}

/// Operations that never wait, so that none of them is left to whoever drives. False: there was never enough, and it
/// stopped after a while.
bool loop_until(Communicator& all, const std::function<bool()>& enough) {
  const Rank alone[] = {0};
  auto own = all.subgroup(alone, 7);
  EXPECT_TRUE(own.has_value());
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!enough()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::int64_t one = 1, sum = 0;
    const Status status = own->allreduce(&one, &sum, 1, DataType::int64, ReduceOp::sum);
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (!status.ok()) return false;
  }
  return true;
}

TEST_P(SmallLoops, let_a_message_come) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    std::vector<float> large(std::size_t{1} << 18, static_cast<float>(rank));
    if (rank == 1) {
      ASSERT_TRUE(all.send(large.data(), large.size(), DataType::float32, 0).ok());
      return;
    }
    const auto receive =
        begin_without_thread(world.engine(rank), Operation::recv(large.data(), large.size(), DataType::float32, 1));
    EXPECT_TRUE(loop_until(all, [&] { return receive->done(); }));
    ASSERT_TRUE(Work(receive).wait().ok());
    EXPECT_EQ(large.back(), 1.0f);
  });
}

TEST_P(SmallLoops, do_not_keep_a_receive_beyond_its_time) {
  ThreadWorld world(2, {}, GetParam());
  Communicator all = world.world(0);
  std::int32_t nothing = 0;
  Operation what = Operation::recv(&nothing, 1, DataType::int32, 1);
  what.timeout = 200ms;
  const auto receive = begin_without_thread(world.engine(0), what);
  EXPECT_TRUE(loop_until(all, [&] { return receive->done(); }));
  EXPECT_EQ(Work(receive).wait().code(), ErrorCode::timeout) << receive->status().to_string();
}

}  // namespace
}  // namespace fabring::fixture
