// Buffers of Engine::allocate through shared memory, in real threads: right whichever ranks have them, read where they
// lie, and the program may let go of them at any time. Meant for ThreadSanitizer too.

#include <gmock/gmock.h>

#include <cstring>
#include <future>
#include <memory_resource>
#include <random>

#include "fabring/memory.hpp"
#include "tests/support/buffer_place.hpp"
#include "tests/support/collective_data.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto shm = ThreadWorld::Over::shm;

Config config_with(std::string algorithm, std::size_t segment_bytes = 0) {
  Config config;
  config.algorithm = std::move(algorithm);
  config.segment_bytes = segment_bytes;
  return config;
}

void every_collective(ThreadWorld& world, std::uint64_t seed, int operations) {
  const int ranks = world.size();
  world.run([&](Rank rank, Communicator all) {
    std::mt19937_64 common(seed), own(seed * 100 + static_cast<std::uint64_t>(rank));
    for (int i = 0; i < operations; ++i) {
      const auto collective = static_cast<Collective>(common() % static_cast<std::uint64_t>(Collective::barrier));
      Request what = any_request(collective, ranks, 1 + common() % 60'000, common);
      what.salt = common();
      const RankData data = data_of(what, rank, ranks);
      const std::size_t offset = 64 * (own() % 100);
      BufferPlace in(world.engine(rank), data.in, own() % 3 != 0, offset);
      BufferPlace out(world.engine(rank), data.out, own() % 3 != 0, offset);
      const Operation operation =
          data.operation(what, data.one_buffer ? out.data() + data.in_at : in.data(), out.data() + data.out_at);
      const Status status = own() % 2 == 0 ? all.run(operation) : all.start(operation).wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(out.holds(data.out_after)) << name(collective) << ", operation " << i << " of seed " << seed;
      ASSERT_TRUE(data.one_buffer || in.holds(data.in_after)) << name(collective) << ", operation " << i;
    }
  });
}

TEST(MappedMemory, in_any_mixture_gives_what_ordinary_memory_gives) {
  std::uint64_t loans = 0, seed = 1;
  for (const int ranks : {2, 3, 4})
    for (const char* algorithm :
         {"auto", "direct", "ring", "allreduce:4-1G:recursive_doubling", "circulant", "binomial"}) {
      ThreadWorld world(ranks, config_with(algorithm, 48 * 1024), shm);
      every_collective(world, ++seed, 20);
      for (Rank rank = 0; rank < ranks; ++rank) loans += world.engine(rank).transfer().loans();
    }
  EXPECT_GT(loans, 200u) << "nothing was read where it lies: nothing has been tested";
}

// Uncut by a setting, two ranks exchange record by record.
TEST(MappedMemory, of_two_ranks_is_read_where_it_lies_record_by_record) {
  std::uint64_t loans = 0, seed = 100;
  for (const char* algorithm : {"auto", "direct", "ring", "allreduce:4-1G:recursive_doubling"}) {
    ThreadWorld world(2, config_with(algorithm), shm);
    every_collective(world, ++seed, 60);
    for (Rank rank = 0; rank < 2; ++rank) loans += world.engine(rank).transfer().loans();
  }
  EXPECT_GT(loans, 100u) << "nothing was read where it lies: nothing has been tested";
}

TEST(MappedMemory, is_read_where_it_lies_and_stays_so_over_many_tiles) {
  constexpr std::size_t count = 3'000'001;
  for (const char* algorithm : {"direct", "ring"}) {
    ThreadWorld world(2, config_with(algorithm), shm);
    world.run([&](Rank rank, Communicator all) {
      const auto block = *world.engine(rank).mapped().allocate(count * sizeof(float));
      auto* const values = reinterpret_cast<float*>(block->data());
      for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i + rank + round) % 1000);
        ASSERT_TRUE(all.allreduce(values, values, count, DataType::float32, ReduceOp::sum).ok());
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(values[i], static_cast<float>((i + round) % 1000 + (i + 1 + round) % 1000)) << i;
      }
    });
    EXPECT_GT(world.engine(0).transfer().loans(), 3 * 20u);
  }
}

void wait_for_it(void*, const void*, std::size_t, DataType, void* awaited) {
  if (awaited != nullptr) (void)static_cast<std::shared_future<void>*>(awaited)->wait_for(100ms);
}

// It is lent to both others, and one of them reads nothing at first: its driver is inside a reduction of its own.
// Rank 0 waits for it, so it waits in vain; if rank 0 did not wait, it would go on when the buffer has been written to.
TEST(MappedMemory, is_the_callers_again_only_when_all_peers_have_read_it) {
  constexpr std::size_t count = 2000;
  ThreadWorld world(3, {}, shm);
  for (const Rank late : {1, 2, 1, 2, 1, 2}) {  // it is not always run by its caller
    std::promise<void> overwritten;
    std::shared_future<void> awaited = overwritten.get_future().share();
    world.run([&](Rank rank, Communicator all) {
      const auto reduction = Reduction::user(wait_for_it, rank == late ? &awaited : nullptr, true);
      std::int32_t value = 0, result = 0;
      ASSERT_TRUE(all.reduce(&value, &result, 1, DataType::int32, reduction, late).ok());
      std::vector<float> out(count);
      const auto block = *world.engine(rank).mapped().allocate(3 * count * sizeof(float));
      auto* const values = reinterpret_cast<float*>(block->data());
      std::fill_n(values, 3 * count, 1.0f);
      ASSERT_TRUE(all.scatter(values, out.data(), count, DataType::float32, 0).ok());
      if (rank == 0) {
        std::fill_n(values, 3 * count, 2.0f);
        overwritten.set_value();
      }
      EXPECT_EQ(out, std::vector<float>(count, 1.0f)) << "read by rank " << rank << " when it was no longer lent";
    });
  }
}

TEST(MappedMemory, let_go_during_an_operation_stays_until_that_is_over) {
  constexpr std::size_t count = 300'000;
  ThreadWorld world(2, {}, shm);
  std::byte* freed = nullptr;
  world.run([&](Rank rank, Communicator all) {
    auto block = *world.engine(rank).mapped().allocate(count * sizeof(float));
    auto* const values = reinterpret_cast<float*>(block->data());
    std::fill_n(values, count, static_cast<float>(rank + 1));
    if (rank == 1) {
      float go = 0;
      ASSERT_TRUE(all.recv(&go, 1, DataType::float32, 0).ok());  // rank 0 has begun, and let go
      ASSERT_TRUE(all.allreduce(values, values, count, DataType::float32, ReduceOp::sum).ok());
      EXPECT_EQ(values[count - 1], 3);
      return;
    }
    Work work = all.start(Operation::allreduce(values, values, count, DataType::float32, ReduceOp::sum));
    freed = block->data();
    block.reset();
    EXPECT_NE(world.engine(0).mapped().keep(freed), nullptr) << "the operation has it";
    const auto other = *world.engine(0).mapped().allocate(count * sizeof(float));
    EXPECT_NE(other->data(), freed);
    ASSERT_TRUE(all.send(values, 1, DataType::float32, 1).ok());
    ASSERT_TRUE(work.wait().ok());
    EXPECT_TRUE(
        std::all_of(other->data(), other->data() + other->size(), [](std::byte b) { return b == std::byte{0}; }));
  });
  EXPECT_EQ(world.engine(0).mapped().keep(freed), nullptr);
}

void abort_it(void*, const void*, std::size_t, DataType, void* communicator) {
  if (communicator != nullptr) static_cast<Communicator*>(communicator)->abort("in the middle of it");
}

// Rank 0 has lent a block to rank 1, which does nothing yet, when it reduces what rank 2 sent: there the communicator
// is aborted, before what is left of the operation could be started.
TEST(MappedMemory, lent_by_a_small_operation_that_is_aborted_is_taken_back_before_that_returns) {
  constexpr std::size_t count = 2000;
  ThreadWorld world(3, config_with("ring"), shm);
  world.run([](Rank, Communicator all) { ASSERT_TRUE(all.barrier().ok()); });  // they have met
  std::promise<void> over;
  world.run([&](Rank rank, Communicator all) {
    Record record;
    std::span<const std::byte> payload;
    if (rank == 1) {
      over.get_future().wait();
      ASSERT_TRUE(world.engine(1).transfer().front(0, record, payload));
      ASSERT_EQ(payload.size(), count * sizeof(float));
      EXPECT_FALSE(world.engine(1).transfer().is_intact(0)) << "rank 0 may be using that memory again";
      return;
    }
    const auto block = *world.engine(rank).mapped().allocate(3 * count * sizeof(float));
    auto* const values = reinterpret_cast<float*>(block->data());
    std::vector<float> out(count);
    if (rank == 0)
      while (!world.engine(0).transfer().front(2, record, payload)) std::this_thread::yield();
    const Status status = all.reduce_scatter(values, out.data(), count, DataType::float32,
                                             Reduction::user(abort_it, rank == 0 ? &all : nullptr, true));
    EXPECT_EQ(status.code(), ErrorCode::aborted) << status.to_string();
    if (rank == 0) over.set_value();
  });
}

TEST(MappedMemory, of_an_aborted_operation_is_whole_and_goes_on_elsewhere) {
  constexpr std::size_t count = 500'000;
  ThreadWorld world(3, config_with("direct"), shm);
  world.run([&](Rank rank, Communicator all) {
    Communicator other = *all.duplicate();
    const auto block = *world.engine(rank).mapped().allocate((count + 2) * sizeof(float));
    auto* const values = reinterpret_cast<float*>(block->data()) + 1;
    std::fill_n(values - 1, count + 2, 1.0f);
    if (rank == 2) {
      other.abort("to see what is left");  // never called by this rank, while the others lend and read
    } else {
      EXPECT_EQ(other.allreduce(values, values, count, DataType::float32, ReduceOp::sum).code(), ErrorCode::aborted);
    }
    EXPECT_EQ(values[-1], 1.0f);
    EXPECT_EQ(values[count], 1.0f);
    std::fill_n(values, count, static_cast<float>(rank));
    ASSERT_TRUE(all.allreduce(values, values, count, DataType::float32, ReduceOp::sum).ok());
    EXPECT_TRUE(std::all_of(values, values + count, [](float value) { return value == 3.0f; }));
  });
}

TEST(MappedMemory, beyond_the_limit_is_refused_with_both_numbers) {
  MappedBlocks ordinary(nullptr);
  const auto block = ordinary.allocate(10'000);
  ASSERT_TRUE(block.has_value());
  EXPECT_FALSE((*block)->shared());
  EXPECT_EQ((*block)->size(), 10'000u);
  EXPECT_TRUE(std::all_of((*block)->data(), (*block)->data() + 10'000, [](std::byte b) { return b == std::byte{0}; }));
  const auto absurd = ordinary.allocate(~std::size_t{0});
  ASSERT_FALSE(absurd.has_value());
  EXPECT_EQ(absurd.error().code(), ErrorCode::out_of_memory);

  ThreadWorld world(2, {}, shm);
  MappedBlocks& mapped = world.engine(0).mapped();
  const auto some = *mapped.allocate(1 << 20);
  const auto more = mapped.allocate(std::size_t{1} << 50);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(more.error().message(), AllOf(HasSubstr("1 MiB of the"), HasSubstr("FABRING_MAPPED_BYTES")))
      << more.error().message();
}

}  // namespace
}  // namespace fabring::fixture
