// Messages that a small operation finds in front of its own while its caller runs it: those that fit their receive, and
// those that do not, which end everything on their communicator, the operation that found them too.

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

class MessagesInSmallOperations : public testing::TestWithParam<ThreadWorld::Over> {};
INSTANTIATE_TEST_SUITE_P(Over, MessagesInSmallOperations,
                         testing::Values(ThreadWorld::Over::shm, ThreadWorld::Over::inproc),
                         [](const auto& over) { return over.param == ThreadWorld::Over::shm ? "shm" : "inproc"; });

/// Nobody drives it until this rank waits for something.
Work begin_alone(EngineCore& engine, const Operation& operation) {
  const auto core = engine.world();
  auto call = make_call(operation, *core, *engine.choices(core->shape()), {});
  EXPECT_TRUE(call.has_value());
  return Work(engine.submit(core, std::move(*call), false));
}

/// Has something come from there that this rank has not taken? It may also have been taken, by the progress thread: so
/// not for ever.
void await_record(EngineCore& engine, Rank peer) {
  Record record;
  std::span<const std::byte> payload;
  for (int looks = 0; looks < 100'000; ++looks) {
    {
      std::lock_guard drive(*engine.world()->drive);
      if (engine.transfer().front(peer, record, payload)) return;
    }
    std::this_thread::yield();
  }
}

Status add_one(Communicator& all) {
  std::int64_t one = 1, sum = 0;
  return all.allreduce(&one, &sum, 1, DataType::int64, ReduceOp::sum);
}

struct Sent {
  std::size_t count;
  DataType type;
};

TEST_P(MessagesInSmallOperations, that_do_not_fit_their_receive_end_both_well) {
  const Sent misfits[] = {{100, DataType::float32}, {10, DataType::int32}, {std::size_t{1} << 18, DataType::float32}};
  for (const Sent& sent : misfits) {
    ThreadWorld world(2, {}, GetParam());
    world.run([&](Rank rank, Communicator all) {
      EngineCore& engine = world.engine(rank);
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(add_one(all).ok());
      std::vector<float> buffer(sent.count);
      if (rank == 1) {
        Work send = begin_alone(engine, Operation::send(buffer.data(), sent.count, sent.type, 0));
        (void)add_one(all);  // its part may have come before the failure
        EXPECT_EQ(all.barrier().code(), ErrorCode::mismatch);
        EXPECT_EQ(all.health().code(), ErrorCode::mismatch);
        (void)send.wait();
      } else {
        await_record(engine, 1);
        Work receive = begin_alone(engine, Operation::recv(buffer.data(), 10, DataType::float32, 1));
        const Status status = add_one(all);
        EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
        ASSERT_TRUE(receive.done());
        EXPECT_EQ(receive.wait().code(), ErrorCode::mismatch) << receive.wait().to_string();
        EXPECT_EQ(all.health().code(), ErrorCode::mismatch);
      }
      const RankState state = engine.state();
      EXPECT_EQ(state.operation_count, 0u);
      EXPECT_EQ(state.driver, Driver::nobody) << "something is counted that is not over";
    });
  }
}

TEST_P(MessagesInSmallOperations, that_fit_their_receive_are_taken) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    EngineCore& engine = world.engine(rank);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(add_one(all).ok());
    for (const std::size_t count : {std::size_t{10}, std::size_t{1} << 18}) {
      std::vector<float> buffer(count, rank == 1 ? 2.5f : 0);
      Work work = begin_alone(engine, rank == 1 ? Operation::send(buffer.data(), count, DataType::float32, 0)
                                                : Operation::recv(buffer.data(), count, DataType::float32, 1));
      ASSERT_TRUE(add_one(all).ok());
      ASSERT_TRUE(work.wait().ok());
      EXPECT_EQ(buffer, std::vector<float>(count, 2.5f));
    }
  });
}

}  // namespace
}  // namespace fabring::fixture
