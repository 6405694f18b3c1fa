// The network that all ranks can use, or who cannot use what.

#include "runtime/startup/common_network.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/startup/provider_agreement.hpp"

namespace fabring {
namespace {

TEST(CommonNetwork, is_inproc_only_where_all_ranks_are_one_process) {
  std::vector<Identity> ranks(2);
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
  EXPECT_TRUE(is_a_loss(ranks));
  const std::string why = why_not_fabric(ranks, "tcp");
  EXPECT_NE(why.find("none on ranks 2 and 3 (host b): fabric: FI_PROVIDER=efa hides"), why.npos) << why;
}

TEST(CommonNetwork, says_that_a_provider_asked_for_by_name_is_on_no_rank) {
  std::vector<Identity> ranks = with_efa_on_one_host("");
  for (Identity& rank : ranks) {
    rank.usable = {"tcp"};
    rank.provider.clear();
    rank.unusable = "fabric: no EFA device found";
    rank.wanted_provider = "auto";
  }
  EXPECT_EQ(why_not_fabric(ranks, "tcp"), "") << "nobody asked for one";
  EXPECT_FALSE(is_a_loss(ranks));

  for (std::size_t rank = 1; rank < 4; ++rank) ranks[rank].wanted_provider = "efa";
  EXPECT_TRUE(is_a_loss(ranks));
  const std::string why = why_not_fabric(ranks, "tcp");
  for (const char* part : {"FABRING_PROVIDER=efa is not used", "(rank 1, host a: fabric: no EFA device found)",
                           "goes by tcp, plain sockets,", "vpc.amazonaws.com/efa", "unset FABRING_PROVIDER"})
    EXPECT_NE(why.find(part), why.npos) << why;

  for (Identity& rank : ranks) rank.wanted_provider = "verbs";
  const std::string of_verbs = why_not_fabric(ranks, "tcp");
  EXPECT_EQ(of_verbs.find("vpc.amazonaws.com"), of_verbs.npos) << of_verbs;
  ranks[0].usable = {"fabric", "tcp"};
  ranks[0].provider = "verbs";
  EXPECT_TRUE(is_a_loss(ranks));
  EXPECT_NE(why_not_fabric(ranks, "tcp").find("FABRING_PROVIDER=verbs was asked for (rank 0)"), std::string::npos);

  for (Identity& rank : ranks) rank.transports = "tcp";
  EXPECT_EQ(why_not_fabric(ranks, "tcp"), "") << "sockets were asked for";
}

// Four ranks of one host, on whose loopback the system's congestion control paces.
std::vector<Identity> on_a_paced_loopback() {
  std::vector<Identity> ranks(4);
  for (Identity& rank : ranks) {
    rank.fingerprint = "boot/net:a";
    rank.transports = "auto";
    rank.usable = {"fabric", "tcp"};
    rank.provider = "tcp";
    rank.paced_loopback = true;
  }
  return ranks;
}

TEST(CommonNetwork, is_sockets_of_our_own_where_libfabrics_are_paced_on_one_host) {
  const auto paced = on_a_paced_loopback();
  EXPECT_EQ(*common_network(paced), "tcp");
  EXPECT_NE(why_not_fabric(paced, "tcp").find("congestion control"), std::string::npos);
  EXPECT_FALSE(is_a_loss(paced)) << "nobody has to be warned";
  const auto taken = [](const char* what, auto change, const char* network = "fabric") {
    auto ranks = on_a_paced_loopback();
    change(ranks);
    for (Identity& rank : ranks) rank = *Identity::decode(rank.encode());
    EXPECT_EQ(*common_network(ranks), network) << what;
    EXPECT_EQ(why_not_fabric(ranks, network).find("congestion control"), std::string::npos) << what;
  };
  taken("another congestion control", [](auto& ranks) { ranks[0].paced_loopback = false; });
  taken("several hosts", [](auto& ranks) { ranks[3].fingerprint = "boot/net:b"; });
  taken("hosts that look alike", [](auto& ranks) { ranks[3].apart = true; });
  taken("a provider asked for by name", [](auto& ranks) { ranks[2].wanted_provider = "tcp"; });
  taken("another provider", [](auto& ranks) {
    for (Identity& rank : ranks) rank.provider = "verbs";
  });
  taken("an order that was asked for", [](auto& ranks) {
    for (Identity& rank : ranks) rank.transports = "shm,fabric,tcp";
  });
  taken("a rank without sockets", [](auto& ranks) { ranks[1].usable = {"fabric"}; });
  taken(
      "sockets asked for first",
      [](auto& ranks) {
        for (Identity& rank : ranks) rank.transports = "tcp,fabric", rank.usable = {"tcp", "fabric"};
      },
      "tcp");
}

}  // namespace
}  // namespace fabring
