// How long messages are, by what ranks told each other of themselves.

#include "runtime/startup/agreed_lengths.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "collectives/tiling.hpp"

namespace fabring {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

Config config_of(int ranks) {
  Config config;
  config.world_size = ranks;
  return config;
}

TEST(LongestLent, is_8_mib_as_far_as_memory_allows) {
  EXPECT_EQ(longest_lent(config_of(2), GpuUse::begun), 8 * mebibyte);
  EXPECT_EQ(longest_lent(config_of(4), GpuUse::begun), 4 * mebibyte);
  EXPECT_EQ(longest_lent(config_of(8), GpuUse::begun), 2 * mebibyte);
  EXPECT_EQ(longest_lent(config_of(64), GpuUse::begun), 0u) << "the usual length";
  Config little = config_of(2);
  little.staging_bytes = 12 * mebibyte;
  EXPECT_EQ(longest_lent(little, GpuUse::begun), 2 * mebibyte);
  little.staging_bytes = mebibyte;
  EXPECT_EQ(longest_lent(little, GpuUse::begun), 0u);
  Config scratch = config_of(2);
  scratch.scratch_bytes = 4 * mebibyte;
  EXPECT_EQ(longest_lent(scratch, GpuUse::begun), mebibyte);
}

TEST(LongestLent, is_1_mib_where_a_gpu_may_be_used_later_and_none_where_none_can_be) {
  EXPECT_EQ(longest_lent(config_of(2), GpuUse::possible), mebibyte);
  EXPECT_EQ(longest_lent(config_of(8), GpuUse::possible), mebibyte);
  EXPECT_EQ(longest_lent(config_of(32), GpuUse::possible), longest_lent(config_of(32), GpuUse::begun));
  EXPECT_EQ(longest_lent(config_of(2), GpuUse::none), 0u);
  Config staged = config_of(2);
  staged.gpu_path = "staged";
  EXPECT_EQ(longest_lent(staged, GpuUse::possible), 0u);
  EXPECT_EQ(longest_lent(staged, GpuUse::begun), 0u);
}

TEST(LentSegment, is_1_mib_where_one_rank_has_not_begun) {
  std::vector<Identity> ranks(2);
  ranks[0].lent_bytes = longest_lent(config_of(2), GpuUse::begun);
  ranks[1].lent_bytes = longest_lent(config_of(2), GpuUse::possible);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0}), mebibyte);
  ranks[1].lent_bytes = longest_lent(config_of(2), GpuUse::none);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0}), 0u);
}

TEST(LentSegment, is_what_every_rank_can_and_only_on_one_node) {
  std::vector<Identity> ranks(3);
  for (Identity& rank : ranks) rank.lent_bytes = 8 * mebibyte;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 8 * mebibyte);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 1}), 0u);
  ranks[2].lent_bytes = 2 * mebibyte;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 2 * mebibyte);
  ranks[1].lent_bytes = 0;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 0u) << "it has no GPU";
  ranks[1].lent_bytes = 2 * mebibyte;
  for (Identity& rank : ranks) rank.segment_bytes = 65536;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 0u) << "FABRING_SEGMENT_BYTES is set";
}

// ---- ranks that all began with a GPU in use ------------------------------------------------------------------------

std::vector<Identity> lenders(int count) {
  std::vector<Identity> ranks(static_cast<std::size_t>(count));
  for (Identity& rank : ranks) {
    rank.lends = true;
  }
  return ranks;
}

TEST(WouldLend, who_had_begun_to_use_a_gpu_and_has_kernels_to_read_what_others_lend) {
  EXPECT_TRUE(would_lend({}, GpuUse::begun, true));
  EXPECT_FALSE(would_lend({}, GpuUse::possible, true));
  EXPECT_FALSE(would_lend({}, GpuUse::begun, false)) << "reductions are staged";
  Config staged;
  staged.gpu_path = "staged";
  EXPECT_FALSE(would_lend(staged, GpuUse::begun, true));
}

TEST(UnaskedLimit, is_low_only_where_every_rank_lends_its_memory_to_all_others) {
  std::vector<Identity> ranks = lenders(3);
  EXPECT_TRUE(all_lend(ranks, {0, 0, 0}));
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 0}), unasked_between_gpus);
  EXPECT_FALSE(all_lend(ranks, {0, 0, 1})) << "two nodes";
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 1}), 0u);
  for (Identity& rank : ranks) rank.segment_bytes = mebibyte;
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 0}), 0u) << "FABRING_SEGMENT_BYTES is set";
  EXPECT_TRUE(all_lend(ranks, {0, 0, 0})) << "which says nothing of prices";
  ranks = lenders(3);
  ranks[1].lends = false;
  EXPECT_FALSE(all_lend(ranks, {0, 0, 0})) << "one began without";
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 0}), 0u);
}

TEST(LongSegment, is_a_sixteenth_of_the_least_scratch_of_all_ranks_between_hosts) {
  std::vector<Identity> ranks(3);
  EXPECT_EQ(long_segment_of(ranks), 0u) << "one host";
  ranks[2].fingerprint = "another host";
  EXPECT_EQ(long_segment_of(ranks), 2 * mebibyte);
  ranks[1].scratch_bytes = 256 * mebibyte;
  EXPECT_EQ(long_segment_of(ranks), 2 * mebibyte) << "others have what they have by themselves";
  ranks[2].scratch_bytes = 8 * mebibyte;
  EXPECT_EQ(long_segment_of(ranks), mebibyte / 2);
  for (Identity& rank : ranks) rank.segment_bytes = 65536;
  EXPECT_EQ(long_segment_of(ranks), 0u) << "FABRING_SEGMENT_BYTES is set";
}

TEST(Scratch, counts_as_what_the_rank_with_least_has) {
  std::vector<Identity> ranks(3);
  EXPECT_EQ(least_scratch_of(ranks), std::size_t{32} << 20) << "what it is without a setting";
  ranks[1].scratch_bytes = std::size_t{64} << 20;
  EXPECT_EQ(least_scratch_of(ranks), std::size_t{32} << 20) << "of the others";
  ranks[2].scratch_bytes = std::size_t{1} << 20;
  EXPECT_EQ(least_scratch_of(ranks), std::size_t{1} << 20);
}

}  // namespace
}  // namespace fabring
