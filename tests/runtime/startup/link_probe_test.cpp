// Who measures the links between nodes, and what the measurements make of a machine. That it happens: perf_run_test.

#include "runtime/startup/link_probe.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

TEST(LinkRing, takes_as_many_ranks_of_each_node_as_the_smallest_has) {
  const LinkRing ring = link_ring({0, 0, 1, 2, 2, 2, 1});
  ASSERT_EQ(ring.nodes.size(), 3u);
  EXPECT_EQ(ring.lanes, 2);
  EXPECT_EQ(ring.nodes[1][1], 6);
  EXPECT_EQ(ring.lane_of(0), 0);
  EXPECT_EQ(ring.lane_of(4), 1);
  EXPECT_EQ(ring.lane_of(5), std::nullopt) << "node 0 has no third rank";
}

TEST(LinkRing, takes_a_few_nodes_of_many) {
  std::vector<int> node_of;
  for (int node = 0; node < 100; ++node) node_of.insert(node_of.end(), 16, node);
  const LinkRing ring = link_ring(node_of);
  EXPECT_EQ(ring.nodes.size(), 8u);
  EXPECT_EQ(ring.lanes, 8);
  EXPECT_EQ(ring.lane_of(1599), std::nullopt);
}

TEST(WithLinks, makes_a_lane_a_limit_only_where_one_rank_reaches_far_less_than_several) {
  const Machine start = *find_machine("10g");
  const Machine shared = with_links(start, {100'000'000, 118'000'000});
  EXPECT_EQ(shared.nic_bytes_per_second, 118'000'000u);
  EXPECT_EQ(shared.between.lane_bytes_per_second, 0u);
  const Machine by_flow = with_links(start, {625'000'000, 3'000'000'000});
  EXPECT_EQ(by_flow.nic_bytes_per_second, 3'000'000'000u);
  EXPECT_EQ(by_flow.between.lane_bytes_per_second, 625'000'000u);
  EXPECT_TRUE(check_machine(by_flow).ok());
  EXPECT_EQ(with_links(start, {}).nic_bytes_per_second, start.nic_bytes_per_second) << "nothing was measured";
}

}  // namespace
}  // namespace fabring
