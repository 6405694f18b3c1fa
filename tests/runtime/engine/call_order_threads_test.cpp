// Collectives that work on each other's results, begun one after the other without waiting: over real threads, in
// memory and through sockets. Meant for ThreadSanitizer too.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <numeric>

#include "tests/support/thread_world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

using Ints = std::vector<std::int32_t>;
constexpr auto type = DataType::int32;

/// The same on ranks of every number, over everything they may be connected by.
void everywhere(const std::function<void(Rank, std::size_t, Communicator)>& rank_main) {
  for (const int ranks : {2, 4}) {
    const auto main = [&](Rank rank, Communicator all) { rank_main(rank, static_cast<std::size_t>(ranks), all); };
    for (const auto over : {ThreadWorld::Over::inproc, ThreadWorld::Over::shm, ThreadWorld::Over::unasked})
      ThreadWorld(ranks, {}, over).run(main);
    const auto transport = make_tcp_transport();
    EndpointOptions options;
    options.bind_address = "127.0.0.1";
    ThreadWorld(ranks, {}, nullptr, *transport, options).run(main);
    if (::testing::Test::HasFailure()) return;
  }
}

struct Size {
  std::size_t bytes;
  int rounds;
};
constexpr std::array<Size, 3> sizes{{{4096, 100}, {65536, 50}, {std::size_t{4} << 20, 2}}};

TEST(CallOrderThreads, of_reduce_scatter_and_all_gather_in_a_group_is_kept) {
  everywhere([](Rank rank, std::size_t ranks, Communicator all) {
    const auto own = static_cast<std::int32_t>(rank), n = static_cast<std::int32_t>(ranks);
    for (const auto& [bytes, rounds] : sizes) {
      const std::size_t count = bytes / sizeof(std::int32_t) / ranks;
      Ints gradients(ranks * count), shard(count), sums(ranks * count), expected(ranks * count);
      for (std::int32_t round = 1; round <= rounds; ++round) {
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          const auto at = static_cast<std::int32_t>(i % 1000);
          gradients[i] = round * (at + own);
          expected[i] = round * (n * at + n * (n - 1) / 2);
        }
        const Status status = all.run_group(std::array{
            Operation::reduce_scatter(gradients.data(), shard.data(), count, type, ReduceOp::sum),
            Operation::all_gather(shard.data(), sums.data(), count, type),
        });
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(sums == expected) << bytes << " bytes, round " << round;
      }
    }
  });
}

// The sum goes to all, then that of rank 0, to which it adds one before the next round; nobody waits in between.
TEST(CallOrderThreads, of_calls_that_are_begun_on_one_buffer_is_kept) {
  everywhere([](Rank rank, std::size_t ranks, Communicator all) {
    for (const auto& [bytes, rounds] : sizes) {
      Ints data(bytes / sizeof(std::int32_t)), ones(data.size(), rank == 0 ? 1 : 0), expected(data.size());
      for (std::int32_t round = 1; round <= rounds; ++round) {
        std::iota(data.begin(), data.end(), round + rank);
        std::iota(expected.begin(), expected.end(), 0);
        const auto n = static_cast<std::int32_t>(ranks);
        for (std::int32_t& value : expected) value = n * (value + round) + n * (n - 1) / 2;
        std::array works{all.start(Operation::allreduce(data.data(), data.data(), data.size(), type, ReduceOp::sum)),
                         all.start(Operation::broadcast(data.data(), data.data(), data.size(), type, 1)),
                         all.start(Operation::allreduce(ones.data(), ones.data(), ones.size(), type, ReduceOp::max)),
                         all.start(Operation::reduce(data.data(), ones.data(), data.size(), type, ReduceOp::max, 0))};
        for (Work& work : works) {
          const Status status = work.wait();
          ASSERT_TRUE(status.ok()) << status.to_string();
        }
        EXPECT_TRUE(data == expected) << bytes << " bytes, round " << round;
        if (rank == 0) {
          EXPECT_TRUE(ones == expected) << bytes << " bytes, round " << round;
        }
        ones.assign(ones.size(), rank == 0 ? 1 : 0);
      }
    }
  });
}

// Its input is copied, but not before what was called earlier has written it.
TEST(CallOrderThreads, of_an_alltoall_in_place_is_kept) {
  everywhere([](Rank rank, std::size_t ranks, Communicator all) {
    for (const auto& [bytes, rounds] : sizes) {
      const std::size_t count = bytes / sizeof(std::int32_t) / ranks;
      Ints data(ranks * count), expected(ranks * count);
      for (std::int32_t round = 1; round <= rounds; ++round) {
        std::iota(data.begin(), data.end(), round);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const std::size_t sent = static_cast<std::size_t>(rank) * count + i % count;
          expected[i] = static_cast<std::int32_t>(ranks) * (static_cast<std::int32_t>(sent) + round);
        }
        std::array works{all.start(Operation::allreduce(data.data(), data.data(), data.size(), type, ReduceOp::sum)),
                         all.start(Operation::alltoall(data.data(), data.data(), count, type))};
        for (Work& work : works) ASSERT_TRUE(work.wait().ok());
        EXPECT_TRUE(data == expected) << bytes << " bytes, round " << round;
      }
    }
  });
}

// Each start works on what the one before left.
TEST(CallOrderThreads, of_starts_of_a_prepared_operation_is_kept) {
  everywhere([](Rank rank, std::size_t ranks, Communicator all) {
    constexpr std::size_t starts = 3;
    for (const auto& [bytes, rounds] : sizes) {
      Ints data(bytes / sizeof(std::int32_t)), expected(data.size());
      auto prepared = all.prepare(Operation::allreduce(data.data(), data.data(), data.size(), type, ReduceOp::sum));
      ASSERT_TRUE(prepared) << prepared.error().to_string();
      for (std::int32_t round = 1; round <= rounds; ++round) {
        std::iota(data.begin(), data.end(), round + rank);
        const auto n = static_cast<std::int32_t>(ranks);
        std::iota(expected.begin(), expected.end(), round);
        for (std::int32_t& value : expected) value = n * n * (n * value + n * (n - 1) / 2);
        std::array<Work, starts> works;
        for (Work& work : works) work = prepared->start();
        for (Work& work : works) {
          const Status status = work.wait();
          ASSERT_TRUE(status.ok()) << status.to_string();
        }
        EXPECT_TRUE(data == expected) << bytes << " bytes, round " << round;
      }
    }
  });
}

// Every start copies its input anew, when the one before has written it.
TEST(CallOrderThreads, of_starts_of_a_prepared_alltoall_in_place_is_kept) {
  everywhere([](Rank rank, std::size_t ranks, Communicator all) {
    for (const bool by_blocks : {false, true}) {
      for (const auto& [bytes, rounds] : sizes) {
        const std::size_t count = bytes / sizeof(std::int32_t) / ranks;
        Ints data(ranks * count), before(data.size()), after(data.size());
        const std::vector<std::size_t> counts(ranks, count);
        auto prepared =
            all.prepare(by_blocks ? Operation::alltoall_v(data.data(), {counts, {}}, data.data(), {counts, {}}, type)
                                  : Operation::alltoall(data.data(), data.data(), count, type));
        ASSERT_TRUE(prepared) << prepared.error().to_string();
        for (std::int32_t round = 1; round <= std::min(rounds, by_blocks ? 3 : 20); ++round) {
          const auto all_blocks = static_cast<std::int32_t>(data.size());
          std::iota(data.begin(), data.end(), all_blocks * rank + round);
          before = data;
          for (std::size_t i = 0; i < after.size(); ++i)
            after[i] = all_blocks * static_cast<std::int32_t>(i / count) + round +
                       static_cast<std::int32_t>(static_cast<std::size_t>(rank) * count + i % count);
          std::array works{prepared->start(), prepared->start()};
          for (Work& work : works) {
            const Status status = work.wait();
            ASSERT_TRUE(status.ok()) << status.to_string();
          }
          ASSERT_TRUE(data == before) << "there and back: " << bytes << " bytes, round " << round;
          const Status status = prepared->run();
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_TRUE(data == after) << bytes << " bytes, round " << round;
        }
      }
    }
  });
}

}  // namespace
}  // namespace fabring::fixture
