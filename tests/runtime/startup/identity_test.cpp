// What ranks tell each other of themselves, and whether they fit together.

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

TEST(Identity, tells_long_lists_whole) {
  Identity one;
  for (int cpu = 0; cpu < 512; cpu += 2) one.cpus += (cpu == 0 ? "" : ",") + std::to_string(cpu);
  while (one.algorithm.size() < 1000) one.algorithm += "allreduce<1M:ring,";
  const auto read = Identity::decode(one.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->cpus, one.cpus);
  EXPECT_EQ(read->algorithm, one.algorithm);
}

TEST(Identity, tells_the_quotas_of_its_control_groups_and_no_more_than_fit) {
  Identity one;
  one.quotas = {{"29.4711", 1500}, {"29.1", 6000}};
  EXPECT_EQ(Identity::decode(one.encode())->quotas, one.quotas);
  for (std::uint32_t group = 0; group < 100; ++group) one.quotas.push_back({std::string(1000, 'x'), group});
  const auto read = Identity::decode(one.encode());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_LE(read->quotas.size(), 8u);
  EXPECT_EQ(read->quotas[0].group, "29.4711");
  for (const CpuQuota& quota : read->quotas) EXPECT_GE(quota.millicpus, 1u);
  const std::string none = Identity().encode();
  std::string many = none.substr(0, none.size() - 1) + '\xff';
  many.append(std::size_t{255} * 8, '\0');
  EXPECT_FALSE(Identity::decode(many)) << "more than a rank ever sends";
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
