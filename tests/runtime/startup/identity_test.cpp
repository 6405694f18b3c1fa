// What ranks tell each other of themselves, as far as it says how long messages are between GPUs and who
// shares processors.

#include "runtime/startup/identity.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/tiling.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/startup/own_identity.hpp"
#include "runtime/startup/provider_agreement.hpp"

namespace fabring {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

Config config_of(int ranks) {
  Config config;
  config.world_size = ranks;
  return config;
}

TEST(LongestLent, is_8_mib_as_far_as_memory_allows) {
  EXPECT_EQ(longest_lent(config_of(2), GpuUse::begun), 8 * mib);
  EXPECT_EQ(longest_lent(config_of(4), GpuUse::begun), 4 * mib);
  EXPECT_EQ(longest_lent(config_of(8), GpuUse::begun), 2 * mib);
  EXPECT_EQ(longest_lent(config_of(64), GpuUse::begun), 0u) << "the usual length";
  Config little = config_of(2);
  little.staging_bytes = 12 * mib;
  EXPECT_EQ(longest_lent(little, GpuUse::begun), 2 * mib);
  little.staging_bytes = mib;
  EXPECT_EQ(longest_lent(little, GpuUse::begun), 0u);
  Config scratch = config_of(2);
  scratch.scratch_bytes = 4 * mib;
  EXPECT_EQ(longest_lent(scratch, GpuUse::begun), mib);
}

TEST(LongestLent, is_1_mib_where_a_gpu_may_be_used_later_and_none_where_none_can_be) {
  EXPECT_EQ(longest_lent(config_of(2), GpuUse::possible), mib);
  EXPECT_EQ(longest_lent(config_of(8), GpuUse::possible), mib);
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
  EXPECT_EQ(lent_segment_of(ranks, {0, 0}), mib);
  ranks[1].lent_bytes = longest_lent(config_of(2), GpuUse::none);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0}), 0u);
}

TEST(LentSegment, is_what_every_rank_can_and_only_on_one_node) {
  std::vector<Identity> ranks(3);
  for (Identity& rank : ranks) rank.lent_bytes = 8 * mib;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 8 * mib);
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 1}), 0u);
  ranks[2].lent_bytes = 2 * mib;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 2 * mib);
  ranks[1].lent_bytes = 0;
  EXPECT_EQ(lent_segment_of(ranks, {0, 0, 0}), 0u) << "it has no GPU";
  ranks[1].lent_bytes = 2 * mib;
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
  for (Identity& rank : ranks) rank.segment_bytes = mib;
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 0}), 0u) << "FABRING_SEGMENT_BYTES is set";
  EXPECT_TRUE(all_lend(ranks, {0, 0, 0})) << "which says nothing of prices";
  ranks = lenders(3);
  ranks[1].lends = false;
  EXPECT_FALSE(all_lend(ranks, {0, 0, 0})) << "one began without";
  EXPECT_EQ(unasked_limit_of(ranks, {0, 0, 0}), 0u);
}

TEST(Identity, tells_how_long_a_message_it_would_lend) {
  Identity own;
  own.gpus = true;
  own.lent_bytes = 3 * mib;
  own.lends = true;
  const auto read = Identity::decode(own.encode());
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->gpus);
  EXPECT_EQ(read->lent_bytes, 3 * mib);
  EXPECT_TRUE(read->lends);
  const std::string bytes = own.encode();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(Identity::decode(bytes.substr(0, length)).has_value());
}

/// Another value than it has by itself.
std::string another_value(const Setting& row) {
  if (!row.choices.empty()) return std::string(row.choices.substr(row.choices.rfind(',') + 1));
  if (row.type == "flag") return row.show(Config{}) == "yes" ? "no" : "yes";
  if (row.type == "integer") return "3";
  if (row.type == "size") return "128K";
  return row.type == "duration" ? "7s" : "sample";
}

TEST(Identities, fit_together_unless_they_differ_in_a_setting_that_must_be_alike) {
  for (const Setting& row : settings()) {
    Config config;
    ASSERT_TRUE(apply_setting(row, another_value(row), config).ok()) << row.name;
    std::vector<Identity> ranks{own_identity({}, {}), own_identity({}, {}), own_identity(config, {})};
    const Status status = compare(ranks);
    EXPECT_EQ(status.ok(), !row.alike) << row.name << ": " << status.message();
    if (row.alike) {
      EXPECT_NE(status.message().find(fmt::format("{} differs", row.name)), std::string::npos) << status.message();
    }
    ranks[0] = ranks[1] = ranks[2];
    EXPECT_TRUE(compare(ranks).ok()) << row.name;
  }
}

/// Ranks of one kernel, in these network namespaces.
std::vector<Identity> in_containers(const std::vector<std::string>& namespaces) {
  std::vector<Identity> ranks(namespaces.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].fingerprint = "boot/net:" + namespaces[rank];
  }
  return ranks;
}

TEST(LongSegment, is_a_sixteenth_of_the_least_scratch_of_all_ranks_between_hosts) {
  std::vector<Identity> ranks = in_containers({"a", "a", "a"});
  EXPECT_EQ(long_segment_of(ranks), 0u) << "one host";
  ranks[2].fingerprint = "another boot/net:a";
  EXPECT_EQ(long_segment_of(ranks), 2 * mib);
  ranks[1].scratch_bytes = 256 * mib;
  EXPECT_EQ(long_segment_of(ranks), 2 * mib) << "others have what they have by themselves";
  ranks[2].scratch_bytes = 8 * mib;
  EXPECT_EQ(long_segment_of(ranks), mib / 2);
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

TEST(RanksBeside, are_those_of_other_containers_of_the_machine_too) {
  std::vector<Identity> ranks = in_containers({"a", "a", "b", "b"});
  EXPECT_EQ(ranks_beside(ranks, 0), 4);
  ranks[3].fingerprint = "another boot/net:b";
  EXPECT_EQ(ranks_beside(ranks, 0), 3);
  EXPECT_EQ(ranks_beside(ranks, 3), 1);
  for (std::size_t rank = 0; rank < 4; ++rank) ranks[rank].cpus = rank < 2 ? "0-3" : "4-7";
  EXPECT_EQ(ranks_beside(ranks, 0), 2) << "containers with processors of their own";
}

TEST(CommonNetwork, is_inproc_only_where_all_ranks_are_one_process) {
  std::vector<Identity> ranks = in_containers({"a", "a"});
  for (Identity& rank : ranks) {
    rank.usable = {"inproc", "tcp"};
    rank.pid = 7;
  }
  EXPECT_EQ(*common_network(ranks), "inproc");
  ranks[1].pid = 8;
  EXPECT_EQ(*common_network(ranks), "tcp");
  for (Identity& rank : ranks) {
    rank.usable = {"inproc"};
    rank.transports = "inproc";
  }
  const auto none = common_network(ranks);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("threads of one process"), std::string::npos) << none.error().message();
  ranks[1].pid = 7;
  ranks[1].fingerprint = "another host";
  EXPECT_FALSE(common_network(ranks)) << "the same number on another host is another process";
}

// Four ranks on two hosts; the second host has lost its EFA devices.
std::vector<Identity> with_efa_on_one_host(const char* provider_elsewhere) {
  std::vector<Identity> ranks(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks[rank].host = rank < 2 ? "a" : "b";
    ranks[rank].transports = "auto";
    ranks[rank].usable = {"fabric", "tcp"};
    ranks[rank].provider = rank < 2 ? "efa" : provider_elsewhere;
  }
  return ranks;
}

TEST(CommonNetwork, is_not_libfabric_where_its_provider_differs) {
  const auto alike = with_efa_on_one_host("efa");
  EXPECT_EQ(*common_network(alike), "fabric");
  EXPECT_EQ(why_not_fabric(alike, "fabric"), "");

  auto differ = with_efa_on_one_host("tcp");
  EXPECT_EQ(*common_network(differ), "tcp");
  const std::string why = why_not_fabric(differ, "tcp");
  EXPECT_NE(why.find("EFA on ranks 0 and 1 (host a); native TCP on ranks 2 and 3 (host b)"), why.npos) << why;
  EXPECT_NE(why.find("FABRING_PROVIDER=tcp"), why.npos) << why;

  for (Identity& rank : differ) {
    rank.transports = "fabric";
    rank.usable = {"fabric"};
  }
  const auto none = common_network(differ);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("native TCP on ranks 2 and 3 (host b)"), std::string::npos)
      << none.error().message();

  for (Identity& rank : differ) rank.transports = "tcp,fabric";
  EXPECT_EQ(why_not_fabric(differ, "tcp"), "") << "tcp was asked for first";
}

TEST(CommonNetwork, says_who_cannot_use_the_efa_that_others_have) {
  auto ranks = with_efa_on_one_host("");
  for (std::size_t rank = 2; rank < 4; ++rank) {
    ranks[rank].usable = {"tcp"};
    ranks[rank].unusable = "fabric: FI_PROVIDER=efa hides all others";
  }
  EXPECT_EQ(*common_network(ranks), "tcp");
  EXPECT_TRUE(some_have_efa(ranks));
  const std::string why = why_not_fabric(ranks, "tcp");
  EXPECT_NE(why.find("none on ranks 2 and 3 (host b): fabric: FI_PROVIDER=efa hides"), why.npos) << why;
}

TEST(Identity, tells_long_lists_whole) {
  Identity one;
  for (int cpu = 0; cpu < 512; cpu += 2) one.cpus += (cpu == 0 ? "" : ",") + std::to_string(cpu);
  while (one.algorithm.size() < 1000) one.algorithm += "allreduce<1M:ring,";
  const auto read = Identity::decode(one.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->cpus, one.cpus);
  EXPECT_EQ(read->algorithm, one.algorithm);
}

TEST(Identity, tells_its_provider) {
  Identity one;
  one.provider = "efa";
  EXPECT_EQ(Identity::decode(one.encode())->provider, "efa");
}

TEST(Compare, refuses_ranks_that_differ_in_what_float32_travels_as) {
  std::vector<Identity> ranks(3);
  for (Identity& rank : ranks) rank.wire_type = "off";
  ranks[2].host = "host2";
  EXPECT_TRUE(compare(ranks).ok());
  ranks[2].wire_type = "bfloat16";
  for (Identity& rank : ranks) rank = *Identity::decode(rank.encode());
  const Status status = compare(ranks);
  ASSERT_EQ(status.code(), ErrorCode::mismatch);
  EXPECT_EQ(
      status.message(),
      "FABRING_WIRE_TYPE differs: 'bfloat16' on rank 2 (host host2), 'off' on rank 0 (host ); set it alike on all "
      "ranks");
}

}  // namespace
}  // namespace fabring
