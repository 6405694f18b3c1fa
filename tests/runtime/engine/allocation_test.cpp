// An allocation fails on one rank in the middle of a call, whichever it is: every rank gets its result or an error that
// names that rank, the others go on without it, and its engine ends.

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/failing_allocation.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

constexpr int ranks = 3;
constexpr Rank short_of_memory = 1;

struct Case {
  std::string name;
  ThreadWorld::Over over;
  bool warm;     ///< the same was called before
  bool at_once;  ///< its caller may run it, which the second time needs no memory
  bool of_messages;
  std::size_t count;
  std::function<Status(Communicator&, Rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out)> call;
};

Status allreduce(Communicator& all, Rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out) {
  return all.allreduce(in.data(), out.data(), in.size(), DataType::int32, ReduceOp::sum);
}

Status allreduce_begun(Communicator& all, Rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out) {
  return all.allreduce_async(in.data(), out.data(), in.size(), DataType::int32, ReduceOp::sum).wait();
}

Status alltoall_in_place(Communicator& all, Rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>&) {
  return all.alltoall(in.data(), in.data(), in.size() / ranks, DataType::int32);
}

// To the next rank, from the one before.
Status messages(Communicator& all, Rank rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out) {
  const std::array both{Operation::send(in.data(), in.size(), DataType::int32, (rank + 1) % ranks),
                        Operation::recv(out.data(), out.size(), DataType::int32, (rank + ranks - 1) % ranks)};
  return all.run_group(both);
}

// What comes early on rank 1 is kept: it takes part in nothing but the end.
Status many_small(Communicator& all, Rank rank, std::vector<std::int32_t>& in, std::vector<std::int32_t>& out) {
  Status status;
  for (int root = 0; root < ranks && status.ok(); ++root)
    status = all.gather(in.data(), rank == root ? out.data() : nullptr, in.size() / ranks, DataType::int32, root);
  return status.ok() ? all.barrier() : status;
}

void expect_an_end(const Case& what, std::size_t number, bool& failed_some) {
  Config config;
  config.timeout = std::chrono::seconds(20);
  config.leave_timeout = std::chrono::seconds(2);
  ThreadWorld world(ranks, config, what.over);
  std::array<Status, ranks> ended;
  std::barrier ready(ranks);
  world.run([&](Rank rank, Communicator all) {
    const std::array<Rank, 2> others{0, 2};
    Communicator without;
    if (rank != short_of_memory) without = *all.subgroup(others, 1);
    std::vector<std::int32_t> in(what.count, rank), out(what.count);
    ASSERT_TRUE(all.barrier().ok());  // what is chosen from is there
    if (what.warm) {
      ASSERT_TRUE(what.call(all, rank, in, out).ok());
    }
    ready.arrive_and_wait();
    Status& status = ended[static_cast<std::size_t>(rank)];
    if (rank == short_of_memory) {
      const FailingAllocation failing(number);
      status = what.call(all, rank, in, out);
      failed_some = failing.failed() > 0;
    } else {
      status = what.call(all, rank, in, out);
    }
    // It was refused before it began, and may be repeated. Of a group the other half may have begun.
    if (rank == short_of_memory && !status.ok() && all.health().ok()) {
      EXPECT_EQ(status.code(), ErrorCode::out_of_memory) << status.to_string();
      if (!what.of_messages) status = what.call(all, rank, in, out);
    }
    if (rank != short_of_memory) {
      std::int32_t value = 1;
      const Status beside = without.allreduce(&value, &value, 1, DataType::int32, ReduceOp::sum);
      EXPECT_TRUE(beside.ok()) << beside.to_string();
    }
  });
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Status& status = ended[static_cast<std::size_t>(rank)];
    if (status.ok()) continue;
    const bool refused = what.of_messages && rank != short_of_memory && status.code() == ErrorCode::mismatch;
    EXPECT_TRUE(refused || status.code() == ErrorCode::out_of_memory)
        << "on rank " << rank << ": " << status.to_string();
    EXPECT_EQ(status.context().rank, short_of_memory) << "on rank " << rank << ": " << status.to_string();
  }
}

constexpr std::size_t most_allocations = 2000;

/// The last one that was to fail was never made; all before it were.
void expect_all_failed(std::size_t number, bool may_be_none = false) {
  if (!may_be_none) {
    EXPECT_GT(number, 2u) << "nothing was allocated: nothing has been tested";
  }
  EXPECT_LT(number, most_allocations) << "there are more than were tried";
}

class AllocationsInCalls : public ::testing::TestWithParam<Case> {};

TEST_P(AllocationsInCalls, that_fail_end_them_everywhere) {
  std::size_t number = 1;
  for (bool failed_some = true; failed_some && number < most_allocations; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    expect_an_end(GetParam(), number, failed_some);
    if (HasFailure()) return;
  }
  expect_all_failed(number, GetParam().warm && GetParam().at_once);
}

TEST(Allocations, that_fail_while_an_engine_leaves_do_not_keep_it) {
  std::size_t number = 1;
  for (bool failed_some = true; failed_some && number < most_allocations; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number));
    Config config;
    config.leave_timeout = std::chrono::milliseconds(50);
    ThreadWorld world(ranks, config);
    std::barrier ready(ranks);
    world.run([&](Rank rank, Communicator all) {
      std::int32_t in = 1, out = 0;
      EXPECT_TRUE(all.allreduce(&in, &out, 1, DataType::int32, ReduceOp::sum).ok());
      const Work unmatched = all.start(Operation::recv(&out, 1, DataType::int32, rank == 0 ? 1 : 0));
      ready.arrive_and_wait();
      if (rank != short_of_memory) return;
      const FailingAllocation failing(number);
      (void)world.engine(rank).leave();
      failed_some = failing.failed() > 0;
    });
  }
  expect_all_failed(number);
}

std::vector<Case> all_cases() {
  using Over = ThreadWorld::Over;
  std::vector<Case> cases;
  for (const auto& [name, over] :
       {std::pair{"shm", Over::shm}, std::pair{"inproc", Over::inproc}, std::pair{"unasked", Over::unasked}})
    for (const bool warm : {false, true}) {
      const auto add = [&, name = std::string(name)](const std::string& what, std::size_t count, auto call) {
        const bool of_messages = what == "messages";
        if (of_messages && !warm) return;
        const bool at_once = what == "small" || what == "of_some_kib" || what == "gathers";
        cases.push_back({name + "_" + what + (warm ? "_again" : ""), over, warm, at_once, of_messages, count, call});
      };
      add("small", 30, allreduce);
      if (over == Over::shm) add("of_some_kib", 9'000, allreduce);
      if (warm && over == Over::shm) add("large", 60'000, allreduce);
      add("begun", 30, allreduce_begun);
      if (warm) add("in_place", 3'000, alltoall_in_place);
      if (over == Over::shm) add("messages", 30, messages);
      add("gathers", 300, many_small);
    }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(OnOneRank, AllocationsInCalls, ::testing::ValuesIn(all_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace fabring::fixture
