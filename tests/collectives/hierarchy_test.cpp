// Where hierarchical plans send their bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/check.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::ElementsAre;

struct NodeTraffic {
  std::uint64_t out = 0;          // elements
  std::uint64_t busiest_out = 0;  // of one rank
  std::set<Rank> senders;
};

std::map<int, NodeTraffic> traffic_between_nodes(const test::NodeOf& nodes, std::size_t count,
                                                 Collective collective = Collective::allreduce) {
  std::map<int, NodeTraffic> traffic;
  for (const Plan& plan : test::plans_of({collective, Algorithm::hierarchical}, nodes)) {
    const int node = nodes[static_cast<std::size_t>(plan.rank)];
    const auto sent = bytes_sent_to(plan, count, 1);
    std::uint64_t out = 0;
    for (std::size_t peer = 0; peer < sent.size(); ++peer) out += nodes[peer] == node ? 0 : sent[peer];
    traffic[node].out += out;
    traffic[node].busiest_out = std::max(traffic[node].busiest_out, out);
    if (out > 0) traffic[node].senders.insert(plan.rank);
  }
  return traffic;
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int lanes_of(const std::vector<int>& ranks_per_node) { return make_lanes(test::nodes_of(ranks_per_node)).count; }

TEST(Lanes, EqualNodesHaveALaneForEachRank) {
  EXPECT_EQ(lanes_of({8, 8}), 8);
  EXPECT_EQ(lanes_of({1, 1, 1}), 1);
  EXPECT_EQ(lanes_of({5}), 5);
}

TEST(Lanes, UnequalNodesKeepTheBusiestRankAtItsLeastThenTakeTheMostLanes) {
  EXPECT_EQ(lanes_of({4, 3}), 3);  // 4 lanes would give half of the vector to one of three ranks
  EXPECT_EQ(lanes_of({8, 7}), 7);
  EXPECT_EQ(lanes_of({2, 4}), 4);  // two ranks take two lanes each: no worse, and all four take part
  EXPECT_EQ(lanes_of({1, 8}), 8);  // never one leader for eight
  EXPECT_EQ(lanes_of({3, 8}), 6);
  EXPECT_EQ(lanes_of({3, 1, 2}), 3);
}

TEST(Lanes, AreSharedEvenlyInOrderAndEachHasOneRank) {
  for (int count = 1; count <= 12; ++count) {
    Lanes lanes;
    lanes.count = count;
    for (int ranks = 1; ranks <= 12; ++ranks) {
      int next = 0;
      for (int local = 0; local < ranks; ++local) {
        ASSERT_EQ(lanes.first_lane(local, ranks), next);
        next = lanes.last_lane(local, ranks);
        const int own = next - lanes.first_lane(local, ranks);
        ASSERT_GE(own, count / ranks);
        ASSERT_LE(own, (count + ranks - 1) / ranks);
        for (int lane = lanes.first_lane(local, ranks); lane < next; ++lane) {
          ASSERT_EQ(lanes.position_of(lane, ranks), local);
        }
      }
      ASSERT_EQ(next, count);
    }
  }
}

TEST(Lanes, NodesAreFoundHoweverTheRanksLie) {
  const Lanes lanes = make_lanes(std::vector<int>{7, 3, 3, 7, 5});
  EXPECT_THAT(lanes.nodes, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2), ElementsAre(4)));
}

TEST(Hierarchical, EachNodeSendsTwiceNMinusOneNthsOfTheVectorToOthers) {
  for (const auto& nodes : test::grid_of_worlds()) {
    const std::uint64_t n = std::set<int>(nodes.begin(), nodes.end()).size();
    const std::size_t count = 5040 * 16;  // divides into lanes (at most 8) and nodes (at most 9, or 16) without a rest
    for (const auto& [node, traffic] : traffic_between_nodes(nodes, count)) {
      EXPECT_EQ(traffic.out, 2 * (n - 1) * count / n) << test::text(nodes) << ", node " << node;
    }
  }
}

// Up and down again; the first and the last have one neighbour.
TEST(Fold, EachNodeSendsTheVectorOnceToEachOfItsNeighbours) {
  const auto nodes = test::nodes_of({4, 4, 2, 4});
  const std::size_t count = 840;
  std::map<int, std::map<int, std::uint64_t>> sent;  // from node to node
  std::set<Rank> senders;
  for (const Plan& plan : test::plans_of({Collective::allreduce, Algorithm::fold}, nodes)) {
    const auto to = bytes_sent_to(plan, count, 1);
    for (std::size_t peer = 0; peer < to.size(); ++peer) {
      if (to[peer] == 0 || nodes[peer] == nodes[at(plan.rank)]) continue;
      sent[nodes[at(plan.rank)]][nodes[peer]] += to[peer];
      senders.insert(plan.rank);
    }
  }
  EXPECT_EQ(senders.size(), nodes.size());
  EXPECT_EQ(sent,
            (decltype(sent){
                {0, {{1, count}}}, {1, {{0, count}, {2, count}}}, {2, {{1, count}, {3, count}}}, {3, {{2, count}}}}));
}

TEST(Fold, ABlockOfReduceScatterCrossesFromNodeToNodeOnceAndHome) {
  const auto nodes = test::nodes_of({3, 3, 3});
  const std::size_t count = 60;  // of a block
  std::uint64_t crossing = 0;
  for (const Plan& plan : test::plans_of({Collective::reduce_scatter, Algorithm::fold}, nodes)) {
    const auto to = bytes_sent_to(plan, count, 1);
    for (std::size_t peer = 0; peer < to.size(); ++peer)
      if (nodes[peer] != nodes[at(plan.rank)]) crossing += to[peer];
  }
  EXPECT_EQ(crossing, (2 * 9 + 6) * count);  // from the first to the last; the last node's own blocks are at home there
}

TEST(Hierarchical, OtherCollectivesCrossBetweenNodesAsSeldomAsTheyCan) {
  for (const auto& nodes : test::grid_of_worlds()) {
    const std::uint64_t n = std::set<int>(nodes.begin(), nodes.end()).size();
    const std::size_t count = 840 * 12;
    for (const Collective collective :
         {Collective::reduce, Collective::broadcast, Collective::reduce_scatter, Collective::all_gather}) {
      std::uint64_t all = 0;
      for (const auto& [node, traffic] : traffic_between_nodes(nodes, count, collective)) all += traffic.out;
      // The vector, or every block, once into each other node or out of it.
      const bool blocks = collective == Collective::reduce_scatter || collective == Collective::all_gather;
      EXPECT_EQ(all, (n - 1) * count * (blocks ? nodes.size() : 1)) << name(collective) << ", " << test::text(nodes);
    }
  }
}

TEST(Hierarchical, LocalRanksShareTheWorkBetweenNodesInEveryCollective) {
  for (const Collective collective :
       {Collective::reduce, Collective::broadcast, Collective::reduce_scatter, Collective::all_gather}) {
    for (const auto& [node, traffic] : traffic_between_nodes(test::nodes_of({4, 4, 4}), 1200, collective)) {
      EXPECT_EQ(traffic.busiest_out * 4, traffic.out) << name(collective) << ", node " << node;
    }
  }
}

TEST(Hierarchical, EveryRankOfEqualNodesCarriesItsShare) {
  for (const auto& [node, traffic] : traffic_between_nodes(test::nodes_of({4, 4, 4}), 1200)) {
    EXPECT_EQ(traffic.senders.size(), 4u) << node;
    EXPECT_EQ(traffic.busiest_out * 4, traffic.out) << node;
  }
}

TEST(Hierarchical, NoNodeOfSeveralRanksHasASingleLeader) {
  for (const auto& nodes : test::grid_of_worlds()) {
    const Lanes lanes = make_lanes(nodes);
    if (lanes.nodes.size() == 1) continue;
    for (const auto& [node, traffic] : traffic_between_nodes(nodes, 80640)) {
      if (std::count(nodes.begin(), nodes.end(), node) > 1) {
        EXPECT_GT(traffic.senders.size(), 1u) << test::text(nodes) << ", node " << node;
      }
    }
  }
}

TEST(Hierarchical, TheBusiestRankOfUnequalNodesIsOnTheSmallest) {
  const auto traffic = traffic_between_nodes(test::nodes_of({4, 3}), 1200);
  EXPECT_EQ(traffic.at(0).busiest_out, 400u);
  EXPECT_EQ(traffic.at(1).busiest_out, 400u);
}

TEST(Hierarchical, IsTheRingOnOneNodeAndWithOneRankPerNode) {
  const auto steps_of = [](Algorithm algorithm, const test::NodeOf& nodes) {
    std::string text;
    for (const Plan& plan : test::plans_of(algorithm, nodes, ReduceOp::avg)) {
      const std::string steps = describe_steps(plan);
      text += steps.substr(steps.find('\n'));
    }
    return text;
  };
  for (const int ranks : {1, 2, 3, 4, 5, 6, 16}) {
    const auto one_node = test::flat(ranks);
    const auto one_each = test::nodes_of(std::vector<int>(static_cast<std::size_t>(ranks), 1));
    EXPECT_EQ(steps_of(Algorithm::hierarchical, one_node), steps_of(Algorithm::ring, one_node));
    EXPECT_EQ(steps_of(Algorithm::hierarchical, one_each), steps_of(Algorithm::ring, one_each));
  }
}

TEST(Hierarchical, RoundsAreThoseOfTheStagesNotOfTheRanks) {
  const auto rounds = [](Algorithm algorithm, const std::vector<int>& shape) {
    const auto report = check_plans(test::plans_of(algorithm, test::nodes_of(shape)), 840, ReduceOp::sum);
    return report ? report->critical_path : 0;
  };
  EXPECT_EQ(rounds(Algorithm::hierarchical, {8, 8, 8}), 2u * 7 + 2 * 2);
  EXPECT_EQ(rounds(Algorithm::ring, {8, 8, 8}), 2u * 23);
  EXPECT_EQ(rounds(Algorithm::hierarchical, {4, 3}), 2u * 3 + 2);  // K = 3: who has no lane passes on
  EXPECT_EQ(rounds(Algorithm::hierarchical, {3, 8}), 2u * 7 + 2);  // K = 6: of two lanes each on the node of three
  EXPECT_EQ(rounds(Algorithm::hierarchical, {2, 2, 2, 2}), 2u * 1 + 2 * 3);
  EXPECT_EQ(rounds(Algorithm::hierarchical, std::vector<int>(16, 2)), 2u * 1 + 2 * 4);  // circulant between the nodes
  EXPECT_LE(rounds(Algorithm::hierarchical, std::vector<int>(9, 3)), 2u * 2 + 2 * 4);
}

TEST(Hierarchical, MessagesOfManyNodesAreNotShorterThanHalfALane) {
  for (const int nodes : {8, 64}) {
    const auto plans = test::plans_of(Algorithm::hierarchical, test::nodes_of(std::vector<int>(at(nodes), 2)));
    const std::size_t count = 64 * 100;
    std::size_t longest = 0;
    std::vector<Extent> extents(plans[0].ranges.size());
    bind(plans[0], count, extents);
    for (const Step& step : plans[0].steps) {
      if (step.kind == StepKind::send && step.peer != 1) longest = std::max(longest, extents[step.from.range].count);
    }
    EXPECT_EQ(longest, count / 2 / 2) << nodes;
    EXPECT_EQ(plans[0].largest_message, message_unit / 2) << nodes;  // a lane, inside the node
  }
}

TEST(Hierarchical, ReduceScatterNeedsThreeBlocksOfScratchInARingAndElseOneForEachNode) {
  const auto blocks_of_scratch = [](int nodes) {
    std::size_t most = 0;
    for (const Plan& plan : test::plans_of({Collective::reduce_scatter, Algorithm::hierarchical},
                                           test::nodes_of(std::vector<int>(at(nodes), 2)))) {
      most = std::max(most, plan.scratch.size());
    }
    return most;
  };
  EXPECT_EQ(blocks_of_scratch(3), 2u);
  EXPECT_EQ(blocks_of_scratch(4), 3u);
  EXPECT_LE(blocks_of_scratch(9), 9u);
  EXPECT_LE(blocks_of_scratch(16), 16u);
}

TEST(Hierarchical, OtherCollectivesAddTheRoundsOfNodesAndOfRanks) {
  constexpr std::size_t local = 3;
  const auto rounds = [](Collective collective, int nodes) {
    const auto plans =
        test::plans_of({collective, Algorithm::hierarchical}, test::nodes_of(std::vector<int>(at(nodes), local)),
                       ReduceOp::sum, has_root(collective) ? 4 : 0);
    const auto report = check_plans(plans, 840, ReduceOp::sum);
    return report ? report->critical_path : 0;
  };
  for (const int nodes : {4, 8}) {
    constexpr std::size_t around = 3;  // 4 nodes in a ring, 8 in a circulant graph
    const auto chain = static_cast<std::size_t>(nodes) - 1;
    EXPECT_EQ(rounds(Collective::reduce, nodes), (local - 1) + chain + 1);
    EXPECT_EQ(rounds(Collective::broadcast, nodes), 1 + chain + (local - 1));
    EXPECT_EQ(rounds(Collective::reduce_scatter, nodes), (local - 1) + around);
    EXPECT_EQ(rounds(Collective::all_gather, nodes), around + 1);
  }
}

TEST(Hierarchical, GatherAndScatterCrossOnceAndTheRanksOfTheRootsNodeShareIt) {
  constexpr std::size_t block = 12;
  for (const std::vector<int>& shape :
       std::vector<std::vector<int>>{{4, 4, 4}, {2, 4, 3}, {3, 1}, {1, 3}, {5}, {1, 1, 1, 1, 4}}) {
    const auto nodes = test::nodes_of(shape);
    const auto outside = [&](Rank root) {
      return nodes.size() - static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), nodes[at(root)]));
    };
    for (Rank root = 0; root < static_cast<Rank>(nodes.size()); ++root) {
      const std::string where = test::text(nodes) + ", root " + std::to_string(root);
      for (const Collective collective : {Collective::gather, Collective::scatter}) {
        std::map<Rank, std::size_t> carried;  // elements that cross, by the rank of the root's node
        std::size_t all = 0;
        std::size_t scratch = 0;
        for (const Plan& plan : test::plans_of({collective, Algorithm::hierarchical}, nodes, ReduceOp::sum, root)) {
          scratch = std::max(scratch, plan.scratch.size());
          const auto sent = bytes_sent_to(plan, block, 1);
          for (std::size_t peer = 0; peer < sent.size(); ++peer) {
            if (nodes[peer] == nodes[at(plan.rank)]) continue;
            const Rank beside_root = collective == Collective::gather ? static_cast<Rank>(peer) : plan.rank;
            if (sent[peer] > 0) {
              EXPECT_EQ(nodes[at(beside_root)], nodes[at(root)]) << where;
            }
            carried[beside_root] += sent[peer];
            all += sent[peer];
          }
        }
        EXPECT_EQ(all, outside(root) * block) << name(collective) << ", " << where;
        EXPECT_LE(scratch, 4u) << where;
        const std::size_t beside = nodes.size() - outside(root);
        for (const auto& [rank, elements] : carried) {  // all carry as many blocks, or one less
          if (nodes[at(rank)] == nodes[at(root)]) {
            EXPECT_LE(elements, (outside(root) + beside - 1) / beside * block) << name(collective) << ", " << where;
          }
        }
      }
    }
  }
}

TEST(Hierarchical, RanksOfAnUnequalNodeCarryAsManyBlocksAsEachOther) {
  for (const std::vector<int>& shape :
       std::vector<std::vector<int>>{{1, 1, 1, 1, 1, 4}, {4, 1, 1, 1, 1}, {8, 3, 2, 5}}) {
    const auto nodes = test::nodes_of(shape);
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      for (const Plan& plan : test::plans_of({collective, Algorithm::hierarchical}, nodes)) {
        std::set<RangeId> carried;  // what passes between nodes through this rank
        for (const Step& step : plan.steps) {
          if (step.kind == StepKind::send && nodes[at(step.peer)] != nodes[at(plan.rank)])
            carried.insert(step.from.range);
        }
        const auto own = static_cast<std::size_t>(shape[at(nodes[at(plan.rank)])]);
        EXPECT_LE(carried.size(), (nodes.size() + own - 1) / own)
            << name(collective) << ", " << test::text(nodes) << ", rank " << plan.rank;
      }
    }
  }
}

// The rows of docs/algorithms.md, also where they say "at most" or are of nodes of one rank.
TEST(Hierarchical, RoundsAreThoseOfTheDocument) {
  const auto rounds = [](Collective collective, std::size_t nodes, std::size_t local) {
    const auto plans = test::plans_of({collective, Algorithm::hierarchical},
                                      test::nodes_of(std::vector<int>(nodes, static_cast<int>(local))));
    const auto report = check_plans(plans, 840, ReduceOp::sum);
    return report ? report->critical_path : 0;
  };
  for (std::size_t nodes = 2; nodes <= 13; ++nodes) {
    for (const std::size_t local : {1u, 2u, 3u}) {
      const std::string where = std::to_string(nodes) + " nodes of " + std::to_string(local);
      const bool ring = nodes <= 4 || local == 1;
      const bool exact = ring || std::has_single_bit(nodes);
      const std::size_t around = ring ? nodes - 1 : static_cast<std::size_t>(std::bit_width(nodes - 1));
      const std::size_t inside = local == 1 ? 0 : 1;  // further: handing over between the ranks of a node
      const std::size_t all = rounds(Collective::allreduce, nodes, local);
      EXPECT_LE(all, 2 * (local - 1) + 2 * around) << where;
      EXPECT_GE(all + (exact ? 0 : 2), 2 * (local - 1) + 2 * around) << where;
      const std::size_t gathered = rounds(Collective::all_gather, nodes, local);
      EXPECT_LE(gathered, around + inside) << where;
      EXPECT_GE(gathered + (exact ? 0 : 2), around + inside) << where;
      EXPECT_EQ(rounds(Collective::reduce_scatter, nodes, local), local - 1 + around) << where;
      EXPECT_EQ(rounds(Collective::reduce, nodes, local), local - 1 + nodes - 1 + inside) << where;
      EXPECT_EQ(rounds(Collective::broadcast, nodes, local), local - 1 + nodes - 1 + inside) << where;
      EXPECT_EQ(rounds(Collective::alltoall, nodes, local), 1 + inside) << where;
      for (const Collective collective : {Collective::gather, Collective::scatter}) {
        // A carrier's fifth block waits until its first has gone on.
        const std::size_t taken_up = (nodes - 1 + 3) / 4;
        EXPECT_EQ(rounds(collective, nodes, local), local == 1 ? 1 : 2 * taken_up) << name(collective) << ", " << where;
      }
    }
  }
}

TEST(Hierarchical, AlltoallSendsOneMessageToARankOfEachOtherNode) {
  for (const std::vector<int>& shape : std::vector<std::vector<int>>{{3, 3, 3, 3}, {4, 2, 4}, {1, 3}, {5, 1, 2}}) {
    const auto nodes = test::nodes_of(shape);
    const auto plans = test::plans_of({Collective::alltoall, Algorithm::hierarchical}, nodes);
    const auto report = check_plans(plans, 7, ReduceOp::sum);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->critical_path, 2u);
    std::vector<std::map<int, std::size_t>> into(plans.size());  // messages by the node they come from
    std::uint64_t between = 0;
    for (const Plan& plan : plans) {
      const auto sent = bytes_sent_to(plan, 7, 1);
      const auto node_of = [&](Rank rank) { return nodes[at(rank)]; };
      for (const Step& step : plan.steps) {
        if (step.kind == StepKind::send && node_of(step.peer) != node_of(plan.rank))
          ++into[at(step.peer)][node_of(plan.rank)];
      }
      for (std::size_t peer = 0; peer < sent.size(); ++peer)
        between += nodes[peer] == node_of(plan.rank) ? 0 : sent[peer];
    }
    std::uint64_t pairs = 0;
    for (const int node : nodes) pairs += nodes.size() - at(shape[at(node)]);
    EXPECT_EQ(between, 7 * pairs);  // each block crosses once
    for (const auto& messages : into) {
      EXPECT_EQ(messages.size(), shape.size() - 1);
      for (const auto& [node, count] : messages) EXPECT_EQ(count, 1u);
    }
  }
}

// Tiles are cut by it: a bound that no message reaches makes more of them.
TEST(Hierarchical, AlltoallIsCutByTheLongestOfItsMessages) {
  for (const std::vector<int>& shape :
       std::vector<std::vector<int>>{{4}, {1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 3, 3}, {8, 1}, {8, 8, 1}, {4, 2, 1}}) {
    std::uint64_t longest = 0, bound = 0;
    for (const Plan& plan : test::plans_of({Collective::alltoall, Algorithm::hierarchical}, test::nodes_of(shape))) {
      std::vector<Extent> extents(plan.ranges.size());
      bind(plan, 1, extents);
      for (const Step& step : plan.steps)
        if (step.kind == StepKind::send) longest = std::max<std::uint64_t>(longest, extents[step.from.range].count);
      bound = plan.largest_message;
    }
    EXPECT_EQ(bound, longest * message_unit) << testing::PrintToString(shape);
  }
}

}  // namespace
}  // namespace fabring
