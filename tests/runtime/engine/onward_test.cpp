// Results that go on to other ranks while they are made, and receives that go past the caches, through shared memory in
// real threads: right for every operation, whichever buffers are mapped. Meant for ThreadSanitizer too.

#include <gtest/gtest.h>

#include <random>

#include "tests/support/buffer_place.hpp"
#include "tests/support/collective_data.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

// With a segment, messages are asked for also between two ranks, which exchange records otherwise.
Config config_with(std::string algorithm, std::size_t segment_bytes = 128 * 1024) {
  Config config;
  config.algorithm = std::move(algorithm);
  config.segment_bytes = segment_bytes;
  return config;
}

enum class Memory : std::uint8_t { ordinary, mapped, mixed };

/// Allreduces of any type and operation that are long enough to be sent in messages that are asked for.
std::uint64_t long_allreduces(ThreadWorld& world, Memory memory, std::uint64_t seed, int operations) {
  const int ranks = world.size();
  world.run([&](Rank rank, Communicator all) {
    std::mt19937_64 common(seed), own(seed * 100 + static_cast<std::uint64_t>(rank));
    for (int i = 0; i < operations; ++i) {
      Request what = any_request(Collective::allreduce, ranks, 100'000 + common() % 300'000, common);
      what.salt = common();
      const RankData data = data_of(what, rank, ranks);
      const auto mapped = [&] { return memory == Memory::mapped || (memory == Memory::mixed && own() % 2 == 0); };
      const std::size_t offset = memory == Memory::mapped ? 0 : 64 * (own() % 100);
      BufferPlace in(world.engine(rank), data.in, mapped(), offset);
      BufferPlace out(world.engine(rank), data.out, mapped(), offset);
      const Operation operation =
          data.operation(what, data.one_buffer ? out.data() + data.in_at : in.data(), out.data() + data.out_at);
      const Status status = own() % 2 == 0 ? all.run(operation) : all.start(operation).wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(out.holds(data.out_after)) << "operation " << i << " of seed " << seed;
      ASSERT_TRUE(data.one_buffer || in.holds(data.in_after)) << "operation " << i << " of seed " << seed;
    }
  });
  std::uint64_t ahead = 0;
  for (Rank rank = 0; rank < ranks; ++rank) ahead += world.engine(rank).transfer().written_ahead();
  return ahead;
}

TEST(Onward, results_are_right_whichever_memory_they_go_to) {
  std::uint64_t seed = 1;
  for (const int ranks : {2, 3, 4, 6})
    for (const Memory memory : {Memory::ordinary, Memory::mapped, Memory::mixed}) {
      ThreadWorld world(ranks, config_with("direct_two_shot"), ThreadWorld::Over::shm);
      const std::uint64_t ahead = long_allreduces(world, memory, ++seed, 6);
      if (ranks > 2 || memory == Memory::mapped) {  // one message to ordinary memory goes ahead by chance only
        EXPECT_GT(ahead, 10u) << "nothing was written ahead with " << ranks << " ranks: nothing has been tested";
      }
    }
}

// Uncut by a setting, each rank makes one part of the whole vector, tile by tile.
TEST(Onward, results_made_by_parts_are_right_whichever_memory_they_go_to) {
  std::uint64_t seed = 200;
  for (const int ranks : {2, 3, 4, 6})
    for (const Memory memory : {Memory::ordinary, Memory::mapped, Memory::mixed}) {
      ThreadWorld world(ranks, config_with("direct_two_shot", 0), ThreadWorld::Over::shm);
      ASSERT_TRUE(world.engine(0).tiling_rules().by_parts);
      (void)long_allreduces(world, memory, ++seed, 6);
    }
}

TEST(Onward, results_of_any_algorithm_are_right) {
  std::uint64_t seed = 100;
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce))
    for (const int ranks : {2, 4}) {
      ThreadWorld world(ranks, config_with(std::string(name(algorithm))), ThreadWorld::Over::shm);
      (void)long_allreduces(world, Memory::mixed, ++seed, 3);
    }
}

}  // namespace
}  // namespace fabring::fixture
