// What ranks tell each other of themselves, as far as it says how long messages are between GPUs.

#include "runtime/startup/identity.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

Config config_of(int ranks) {
  Config config;
  config.world_size = ranks;
  return config;
}

TEST(LongestLent, is_8_mib_as_far_as_memory_allows) {
  EXPECT_EQ(longest_lent(config_of(2)), 8 * mib);
  EXPECT_EQ(longest_lent(config_of(4)), 4 * mib);
  EXPECT_EQ(longest_lent(config_of(8)), 2 * mib);
  EXPECT_EQ(longest_lent(config_of(64)), 0u) << "the usual length";
  Config little = config_of(2);
  little.staging_bytes = 12 * mib;
  EXPECT_EQ(longest_lent(little), 2 * mib);
  little.staging_bytes = mib;
  EXPECT_EQ(longest_lent(little), 0u);
  Config scratch = config_of(2);
  scratch.scratch_bytes = 4 * mib;
  EXPECT_EQ(longest_lent(scratch), mib);
}

TEST(LentSegment, is_what_every_rank_can_and_only_on_one_node) {
  std::vector<Identity> ranks(3);
  for (Identity& rank : ranks) rank.lent_bytes = 8 * mib;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 8 * mib);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 1}), 0u);
  ranks[2].lent_bytes = 2 * mib;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 2 * mib);
  ranks[1].lent_bytes = 0;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 0u) << "it began without a GPU";
  ranks[1].lent_bytes = 2 * mib;
  for (Identity& rank : ranks) rank.segment_bytes = 65536;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 0u) << "FABRING_SEGMENT_BYTES is set";
}

TEST(Identity, tells_how_long_a_message_it_would_lend) {
  Identity own;
  own.gpus = true;
  own.lent_bytes = 3 * mib;
  const auto read = Identity::decode(own.encode());
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->gpus);
  EXPECT_EQ(read->lent_bytes, 3 * mib);
  const std::string bytes = own.encode();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(Identity::decode(bytes.substr(0, length)).has_value());
}

}  // namespace
}  // namespace fabring
