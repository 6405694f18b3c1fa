// What ranks tell each other of themselves, whether they fit together, and who shares processors.

#include "runtime/startup/identity.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/settings.hpp"
#include "runtime/startup/own_identity.hpp"

namespace fabring {
namespace {

TEST(Identity, tells_how_long_a_message_it_would_lend) {
  Identity own;
  own.gpus = true;
  own.lent_bytes = std::uint64_t{3} << 20;
  own.lends = true;
  own.apart = true;
  const auto read = Identity::decode(own.encode());
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->gpus);
  EXPECT_EQ(read->lent_bytes, own.lent_bytes);
  EXPECT_TRUE(read->lends);
  EXPECT_TRUE(read->apart);
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

TEST(RanksBeside, are_those_of_other_containers_of_the_machine_too) {
  std::vector<Identity> ranks = in_containers({"a", "a", "b", "b"});
  EXPECT_EQ(ranks_beside(ranks, 0), 4);
  ranks[3].fingerprint = "another boot/net:b";
  EXPECT_EQ(ranks_beside(ranks, 0), 3);
  EXPECT_EQ(ranks_beside(ranks, 3), 1);
  for (std::size_t rank = 0; rank < 4; ++rank) ranks[rank].cpus = rank < 2 ? "0-3" : "4-7";
  EXPECT_EQ(ranks_beside(ranks, 0), 2) << "containers with processors of their own";
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
  one.wanted_provider = "auto";
  EXPECT_EQ(Identity::decode(one.encode())->provider, "efa");
  EXPECT_EQ(Identity::decode(one.encode())->wanted_provider, "auto");
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
