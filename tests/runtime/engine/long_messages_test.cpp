// Between hosts whose cards move bytes themselves vectors are cut by what it costs, in the engine as in the simulation.

#include "runtime/engine/call/message_lengths.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

constexpr std::size_t long_count = std::size_t{2} << 20;  // 8 MiB

SimWorldOptions four_hosts_of_two() {
  SimWorldOptions options{.ranks = 8, .nodes = {2, 2, 2, 2}};
  options.algorithm = Algorithm::hierarchical;
  options.segment_bytes = 0;
  options.depth = 0;
  options.eager_bytes = eager_message_bytes;
  options.machine = "efa-400";
  options.long_segment_bytes = std::size_t{2} << 20;
  return options;
}

/// Of an allreduce, on every rank.
std::uint32_t tiles_with(const SimWorldOptions& options, ReduceOp op = ReduceOp::sum) {
  SimWorld world(options);
  world.everyone_calls({.count = long_count, .op = op});
  EXPECT_TRUE(world.run());
  std::vector<std::uint32_t> tiles;
  for (const auto& each : world.operations()) tiles.push_back(each->execution->tiles());
  EXPECT_THAT(tiles, ::testing::Each(tiles.front()));
  return tiles.front();
}

TEST(LongMessages, are_as_long_as_the_simulation_says) {
  const WorldShape shape{8, 4, 2, 2};
  const TilingRules rules =
      rules_on(*find_machine("efa-400"), Collective::allreduce, "hierarchical", shape, long_count * sizeof(float));
  const auto longest_message = static_cast<std::size_t>(long_count * sizeof(float) / 2);  // inside a host
  EXPECT_GT(rules.segment_bytes, TilingRules().segment_bytes);
  EXPECT_EQ(tiles_with(four_hosts_of_two()), longest_message / rules.segment_bytes);
}

TEST(LongMessages, are_not_where_a_setting_or_a_copying_processor_says_otherwise) {
  SimWorldOptions options = four_hosts_of_two();
  options.segment_bytes = std::size_t{128} << 10;
  EXPECT_EQ(tiles_with(options), 32u) << "FABRING_SEGMENT_BYTES";
  options = four_hosts_of_two();
  options.long_segment_bytes = 0;
  EXPECT_EQ(tiles_with(options), 16u) << "messages of 256 KiB";
  options = four_hosts_of_two();
  options.machine = "100g";
  EXPECT_EQ(tiles_with(options), 16u);
}

TEST(LongMessages, are_not_of_what_is_multiplied_whole_tiles_at_a_time) {
  EXPECT_EQ(tiles_with(four_hosts_of_two(), ReduceOp::premul_sum), 16u) << "messages of 256 KiB";
}

TEST(LongMessages, make_do_with_little_scratch) {
  SimWorldOptions options = four_hosts_of_two();
  const std::uint32_t tiles = tiles_with(options);
  options.short_of_memory = 3;  // told too late to be known to the others
  options.scratch_bytes = std::size_t{3} << 20;
  EXPECT_EQ(tiles_with(options), tiles);
}

// A carrier keeps a block of every node in scratch: of eight nodes seven of this length do not fit.
TEST(LongMessages, of_many_nodes_are_short_enough_for_what_carriers_keep) {
  for (const std::vector<int>& nodes : {std::vector<int>(8, 2), {1, 1, 1, 1, 1, 4}}) {
    for (const Collective collective : {Collective::reduce_scatter, Collective::alltoall}) {
      SimWorldOptions options{.ranks = std::accumulate(nodes.begin(), nodes.end(), 0), .nodes = nodes};
      options.algorithm = Algorithm::hierarchical;
      options.segment_bytes = std::size_t{16} << 10;
      options.scratch_bytes = std::size_t{64} << 10;
      SimWorld world(options);
      world.everyone_calls({.count = 8192, .collective = collective});
      EXPECT_TRUE(world.run());
      for (const auto& each : world.operations()) EXPECT_TRUE(each->status().ok()) << each->status().message();
    }
  }
}

}  // namespace
}  // namespace fabring::fixture
