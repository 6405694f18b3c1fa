// A refused call in real time: small calls run by their callers, several threads with a communicator each.

#include <gmock/gmock.h>

#include <thread>

#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::HasSubstr;

constexpr Rank odd = 2;

Status sum(Communicator& on, std::vector<float>& data, bool wrongly = false) {
  return on.allreduce(wrongly ? nullptr : data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum);
}

void expect_refused(const Status& status) {
  EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
  EXPECT_EQ(status.context().rank, odd) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("the input is null"));
}

class RefusedThreads : public ::testing::TestWithParam<ThreadWorld::Over> {};

TEST_P(RefusedThreads, end_on_their_communicator_while_others_are_in_use) {
  ThreadWorld world(3, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    std::vector<Communicator> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(*all.duplicate());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < parts.size(); ++i)
      threads.emplace_back([&, i] {
        std::vector<float> data(i == 0 ? 4 : 50'000, 1.0f);
        for (int step = 0; step < 300; ++step) ASSERT_TRUE(sum(parts[i], data).ok());
        if (i == 2) return;  // on the others one rank refuses the next call
        if (rank == odd) {
          EXPECT_EQ(sum(parts[i], data, true).code(), ErrorCode::invalid_argument);
        } else {
          expect_refused(sum(parts[i], data));
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(all.barrier().ok());
    if (rank == odd) expect_refused(parts[0].health());
    std::vector<float> data(4, 1.0f);
    EXPECT_TRUE(sum(parts[2], data).ok());
  });
}

// A rank may be refused and call rightly at once, again and again, in the middle of small calls.
TEST_P(RefusedThreads, are_no_more_once_the_call_is_made) {
  ThreadWorld world(3, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    for (int step = 0; step < 500; ++step) {
      std::vector<float> data(step % 7 == 0 ? 50'000 : 4, static_cast<float>(rank + 1));
      if (rank == step % 4) {
        EXPECT_EQ(sum(all, data, true).code(), ErrorCode::invalid_argument);
      }
      const Status done = sum(all, data);
      ASSERT_TRUE(done.ok()) << done.to_string();
      ASSERT_EQ(data.back(), 6.0f);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Over, RefusedThreads, ::testing::Values(ThreadWorld::Over::inproc, ThreadWorld::Over::shm),
                         [](const auto& over) { return over.param == ThreadWorld::Over::shm ? "shm" : "inproc"; });

}  // namespace
}  // namespace fabring::fixture
