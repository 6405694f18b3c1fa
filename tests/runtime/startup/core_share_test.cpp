// Whom a rank shares processors and quotas with, and what is left of them for it and for its node.
#include "runtime/startup/core_share.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace fabring {
namespace {

/// Ranks of one kernel, in these network namespaces.
std::vector<Identity> in_containers(const std::vector<std::string>& namespaces, std::uint32_t cores = 64) {
  std::vector<Identity> ranks(namespaces.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].fingerprint = "boot/net:" + namespaces[rank];
    ranks[rank].cores = cores;
  }
  return ranks;
}

/// Containers of one rank each, with this limit each.
std::vector<Identity> pods(int count, std::uint32_t millicpus, std::uint32_t cores = 64) {
  std::vector<std::string> names;
  for (int pod = 0; pod < count; ++pod) names.push_back(std::to_string(pod));
  std::vector<Identity> ranks = in_containers(names, cores);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].quotas = {{"29." + names[rank], millicpus}};
  return ranks;
}

/// Ranks in one control group.
std::vector<Identity> in_group(int count, std::uint32_t millicpus, std::uint32_t cores = 64) {
  std::vector<Identity> ranks = in_containers(std::vector<std::string>(static_cast<std::size_t>(count), "a"), cores);
  for (Identity& rank : ranks) rank.quotas = {{"29.1", millicpus}};
  return ranks;
}

std::pair<std::uint32_t, std::uint32_t> node_of(const std::vector<Identity>& ranks) {
  const CoreShare share = cores_of_node(ranks);
  return {share.cores, share.work_percent};
}

std::string share_of(const std::vector<Identity>& ranks) { return least_share(ranks, 0).describe(); }

TEST(SharedProcessors, are_those_of_other_containers_of_the_machine_too) {
  std::vector<Identity> ranks = in_containers({"a", "a", "b", "b"});
  EXPECT_EQ(shared_processors(ranks, 0).ranks, 4);
  ranks[3].fingerprint = "another boot/net:b";
  EXPECT_EQ(shared_processors(ranks, 0).ranks, 3);
  EXPECT_EQ(shared_processors(ranks, 3).ranks, 1);
  for (std::size_t rank = 0; rank < 4; ++rank) ranks[rank].cpus = rank < 2 ? "0-3" : "4-7";
  EXPECT_EQ(shared_processors(ranks, 0).ranks, 2) << "containers with processors of their own";
}

TEST(LeastShare, of_containers_with_a_quota_each_is_their_own_quota) {
  EXPECT_EQ(share_of(pods(8, 6000)), "1 rank on the 6 cores that the quota of its control group grants");
  EXPECT_EQ(share_of(pods(8, 1000)), "1 rank on the 1 core that the quota of its control group grants");
  EXPECT_EQ(share_of(pods(8, 6000, 4)), "8 ranks on the 4 cores that this rank may use");
}

TEST(LeastShare, counts_whole_cores_of_a_quota) {
  const SharedCores share = least_share(in_group(2, 1500), 0);
  EXPECT_EQ(share.describe(), "2 ranks on the 1.5 cores that the quota of its control group grants");
  EXPECT_EQ(share.cores(), 1);
  EXPECT_EQ(least_share(in_group(1, 500), 0).cores(), 0) << "who polls would use it up";
}

TEST(LeastShare, is_the_least_of_groups_in_each_other) {
  std::vector<Identity> ranks = pods(6, 2000);
  for (Identity& rank : ranks) rank.quotas.push_back({"29.around", 4000});
  EXPECT_EQ(share_of(ranks), "6 ranks on the 4 cores that the quota of its control group grants");
  for (std::size_t rank = 3; rank < 6; ++rank) ranks[rank].fingerprint = "another boot/net:b";
  EXPECT_EQ(share_of(ranks), "3 ranks on the 4 cores that the quota of its control group grants")
      << "a group of another kernel is another one, whatever its name";
}

TEST(LeastShare, of_a_group_is_also_theirs_who_have_processors_of_their_own) {
  std::vector<Identity> ranks = in_group(4, 2000, 1);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].cpus = std::to_string(rank);
  EXPECT_EQ(share_of(ranks), "4 ranks on the 2 cores that the quota of its control group grants");
}

TEST(CoresOfNode, are_those_that_its_quota_grants_however_many_containers_there_are) {
  using Share = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(node_of(pods(8, 6000)), Share(6, 100));
  EXPECT_EQ(node_of(pods(8, 1000)), Share(1, 100));
  EXPECT_EQ(node_of(pods(8, 250)), Share(1, 400));
  EXPECT_EQ(node_of(pods(8, 6000, 4)), Share(1, 200)) << "half a core for each, whatever is granted";
  EXPECT_EQ(node_of(in_group(4, 2000)), Share(2, 100));
  EXPECT_EQ(node_of(in_group(4, 1)), Share(1, 10'000));
  std::vector<Identity> split = in_group(4, 2000);
  for (std::size_t rank = 0; rank < split.size(); ++rank) split[rank].host_id = rank < 2 ? "a" : "b";
  EXPECT_EQ(node_of(split), Share(1, 100)) << "two nodes in one group";
}

TEST(CoresOfNode, are_all_on_which_its_ranks_are_bound_one_each) {
  std::vector<Identity> ranks = in_containers(std::vector<std::string>(8, "a"), 1);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].cpus = std::to_string(rank);
  EXPECT_EQ(cores_of_node(ranks).cores, 8u);
}

TEST(CoresOfNode, are_not_known_where_rank_0_does_not_know_its_own) {
  EXPECT_EQ(cores_of_node(in_containers({"a", "a"}, 0)).cores, 0u);
}

}  // namespace
}  // namespace fabring
