// Where flat plans send their bytes if ranks are dealt to nodes in turn.
#include <gtest/gtest.h>

#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

test::NodeOf dealt(int nodes, int ranks_per_node) {
  test::NodeOf node_of;
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank) node_of.push_back(rank % nodes);
  return node_of;
}

constexpr std::size_t vector_bytes = 960;  // of a block, where there are blocks

/// Bytes from each node to each.
std::vector<std::vector<std::uint64_t>> between_nodes(test::Form form, const test::NodeOf& node_of, Rank root = 0) {
  const auto nodes = static_cast<std::size_t>(*std::max_element(node_of.begin(), node_of.end()) + 1);
  std::vector<std::vector<std::uint64_t>> bytes(nodes, std::vector<std::uint64_t>(nodes));
  for (const Plan& plan : test::plans_of(form, node_of, ReduceOp::sum, root)) {
    const auto sent = bytes_sent_to(plan, vector_bytes, 1);
    auto& row = bytes[static_cast<std::size_t>(node_of[static_cast<std::size_t>(plan.rank)])];
    for (std::size_t peer = 0; peer < sent.size(); ++peer) row[static_cast<std::size_t>(node_of[peer])] += sent[peer];
  }
  return bytes;
}

TEST(NodeOrder, SendsBetweenDealtNodesWhatItSendsBetweenOthers) {
  for (const auto& [nodes, local] : {std::pair{2, 3}, {4, 8}, {3, 4}}) {
    const auto together = test::nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), local));
    for (const test::Form form : test::all_forms()) {
      const bool by_nodes = form.algorithm == Algorithm::ring || form.algorithm == Algorithm::double_tree;
      if (!by_nodes) continue;
      EXPECT_EQ(between_nodes(form, dealt(nodes, local)), between_nodes(form, together))
          << test::text(form) << " on " << nodes << "x" << local;
    }
  }
}

TEST(NodeOrder, ATreeLeavesItsRootsNodeOnceWhereverTheRootIs) {
  for (const test::NodeOf& node_of : {test::nodes_of({8, 8}), dealt(2, 8)}) {
    for (Rank root = 0; root < 16; ++root) {
      const auto bytes = between_nodes({Collective::broadcast, Algorithm::binomial}, node_of, root);
      const auto home = static_cast<std::size_t>(node_of[static_cast<std::size_t>(root)]);
      EXPECT_EQ(bytes[home][1 - home], vector_bytes) << "root " << root << ", " << test::text(node_of);
      EXPECT_EQ(bytes[1 - home][home], 0u) << "root " << root << ", " << test::text(node_of);
    }
  }
}

TEST(NodeOrder, ABroadcastSendsBetweenNodesWhatItSendsFromTheFirstRank) {
  for (const auto& [nodes, local] : {std::pair{2, 8}, {3, 4}, {4, 2}, {3, 5}}) {
    const auto together = test::nodes_of(std::vector<int>(static_cast<std::size_t>(nodes), local));
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::binomial, Algorithm::double_tree, Algorithm::chain}) {
      const test::Form form{Collective::broadcast, algorithm};
      const auto expected = between_nodes(form, together);
      for (const test::NodeOf& node_of : {together, dealt(nodes, local)}) {
        for (Rank root = 0; root < static_cast<Rank>(node_of.size()); ++root) {
          const auto bytes = between_nodes(form, node_of, root);
          const auto home = static_cast<std::size_t>(node_of[static_cast<std::size_t>(root)]);
          const std::size_t n = bytes.size();
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j)
              ASSERT_EQ(bytes[(home + i) % n][(home + j) % n], expected[i][j])
                  << test::text(form) << ", root " << root << ", " << test::text(node_of);
        }
      }
    }
  }
}

// Where each node's ranks are neighbours the order of nodes is that of the ranks, and plans are what they are on one.
TEST(NodeOrder, IsTheOrderOfTheRanksWhereThoseOfANodeAreTogether) {
  for (const test::Form form : test::all_forms()) {
    if (form.algorithm == Algorithm::hierarchical || form.algorithm == Algorithm::fold) continue;  // are about nodes
    for (const test::NodeOf& nodes : {test::nodes_of({4, 4}), test::nodes_of({3, 1, 2}), {5, 5, 2, 2, 7}}) {
      const auto plans = test::plans_of(form, nodes);
      const auto flat = test::plans_of(form, test::flat(static_cast<int>(nodes.size())));
      ASSERT_EQ(plans.size(), flat.size());
      for (std::size_t rank = 0; rank < plans.size(); ++rank)
        ASSERT_EQ(describe_steps(plans[rank]), describe_steps(flat[rank]))
            << test::text(form) << ", " << test::text(nodes) << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace fabring
