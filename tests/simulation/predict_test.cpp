#include "collectives/cost/predict.hpp"

#include <cmath>
#include <map>

#include "collectives/choice/table.hpp"
#include "tests/simulation/worlds.hpp"

namespace fabring::simulation {
namespace {

using test::equal_nodes;

Nanoseconds price(Algorithm algorithm, std::uint64_t bytes, const std::vector<int>& node_of, const Machine& machine) {
  return predict(Collective::allreduce, algorithm, bytes, shape_of(node_of), machine).value_or(-1);
}

TEST(ShapeOf, CountsNodesWhereverTheirRanksAre) {
  EXPECT_EQ(shape_of(std::vector<int>{0, 0, 1, 1, 1}), (WorldShape{5, 2, 2, 3}));
  EXPECT_EQ(shape_of(std::vector<int>{7, 3, 7, 3, 9, 7}), (WorldShape{6, 3, 1, 3, RankOrder::mixed}));
  EXPECT_EQ(shape_of(std::vector<int>{4}), (WorldShape{1, 1, 1, 1}));
}

TEST(ShapeOf, TellsWhichNodesAreFullWhereOthersAreNot) {
  const auto full_before = [](const std::vector<int>& nodes) {
    return shape_of(fabring::test::nodes_of(nodes)).full_before;
  };
  EXPECT_EQ(full_before({8, 8, 7}), 2);
  EXPECT_EQ(full_before({7, 8, 8}), 0);
  EXPECT_EQ(full_before({8, 2, 8, 3}), 1);
  EXPECT_EQ(full_before({4, 4}), 0) << "all are";
  EXPECT_EQ(shape_of(std::vector<int>{0, 1, 0, 1, 0}).full_before, 0) << "not neighbours";
  EXPECT_EQ(shape_of(std::vector<int>{5, 5, 2, 5, 5, 2, 2}).full_before, 0);
}

TEST(ShapeOf, TellsRanksThatAreTogetherFromThoseThatWereDealtOut) {
  const auto order = [](const std::vector<int>& node_of) { return shape_of(node_of).order; };
  EXPECT_EQ(order({0, 0, 1, 1}), RankOrder::by_node);
  EXPECT_EQ(order({9, 9, 2, 5, 5}), RankOrder::by_node) << "whatever the numbers of nodes";
  EXPECT_EQ(order({0, 1, 2}), RankOrder::by_node) << "one on each";
  EXPECT_EQ(order({0, 1, 0, 1}), RankOrder::in_turn);
  EXPECT_EQ(order({4, 1, 7, 4, 1}), RankOrder::in_turn) << "the last node is one short";
  EXPECT_EQ(order({0, 1, 1, 0}), RankOrder::mixed);
  EXPECT_EQ(order({0, 0, 1, 0}), RankOrder::mixed);
}

/// What the choice takes of the best there is, by simulation of all.
double chosen_of_best(const std::vector<int>& node_of, const Machine& machine, std::uint64_t bytes,
                      const Constraints& constraints = {}) {
  std::map<Algorithm, Nanoseconds> times;
  Nanoseconds best = longest_time;
  for (const Algorithm each : all_algorithms()) {
    if (each == Algorithm::star || !has_algorithm(Collective::allreduce, each)) continue;
    if (constraints.reproducible && !is_reproducible(Collective::allreduce, each)) continue;
    if (!constraints.reproducible && each == Algorithm::fold) continue;  // never chosen
    const auto plans = test::schedule(each, node_of, options_for(machine));
    best = std::min(best, times[each] = test::outcome(plans, machine, {.bytes = bytes}).time_ns);
  }
  const Candidate chosen = candidates(Collective::allreduce, bytes, shape_of(node_of), machine, constraints).front();
  return static_cast<double>(times[chosen.algorithm]) / static_cast<double>(best);
}

// As `srun -m cyclic` and `mpirun --map-by node` place them. What goes by nodes is as fast as ever; the rest is priced
// as what it is, so that it is not taken for it.
TEST(Predict, ChoosesForRanksThatWereDealtToNodesInTurn) {
  for (const Machine& machine : {*find_machine("10g"), test::hosts_that_share_memory("10g")}) {
    for (const auto& [nodes, local] : {std::pair{4, 8}, {2, 8}, {8, 4}}) {
      std::vector<int> node_of;
      for (int rank = 0; rank < nodes * local; ++rank) node_of.push_back(rank % nodes);
      for (std::uint64_t bytes = 4 << 10; bytes <= 1 << 20; bytes *= 2)
        EXPECT_LE(chosen_of_best(node_of, machine, bytes), 1.3)
            << bytes << " on " << nodes << "x" << local << ", " << machine.name;
    }
  }
}

// A fold sends the vector up and down once for each rank then, not once for each node: with many tiles under way the
// card is what they wait for, most of all where no processor copies what it sends.
TEST(Predict, ChoosesAmongFoldsForRanksThatWereDealtToNodesInTurn) {
  Machine one_card = *find_machine("efa-400");
  one_card.nics = 1;
  one_card.nic_bytes_per_second = 1'250'000'000;
  for (Machine machine : {*find_machine("10g"), one_card}) {
    for (const std::uint32_t depth : {3, 6, 12}) {
      machine.tiling.depth = depth;
      for (const auto& [nodes, local] : {std::pair{2, 4}, {2, 8}, {4, 8}}) {
        std::vector<int> node_of;
        for (int rank = 0; rank < nodes * local; ++rank) node_of.push_back(rank % nodes);
        for (std::uint64_t bytes = 1 << 20; bytes <= 64 << 20; bytes *= 8)
          EXPECT_LE(chosen_of_best(node_of, machine, bytes, {.reproducible = true}), 1.3)
              << bytes << " on " << nodes << "x" << local << ", " << machine.name << ", depth " << depth;
      }
    }
  }
}

TEST(Predict, ChoosesForFullNodes) {
  double logarithms = 0;
  int chosen = 0;
  for (const std::string_view links : {"1g", "10g", "100g"}) {
    for (const Machine& machine : {*find_machine(links), test::hosts_that_share_memory(links)}) {
      for (const auto& [nodes, local] : {std::pair{3, 8}, {4, 4}, {4, 8}}) {
        for (std::uint64_t bytes = 16 << 10; bytes <= 256 << 10; bytes *= 2) {
          const double ratio = chosen_of_best(equal_nodes(nodes, local), machine, bytes);
          EXPECT_LE(ratio, 1.3) << bytes << " on " << nodes << "x" << local << ", " << machine.name;
          logarithms += std::log(ratio);
          ++chosen;
        }
      }
    }
  }
  EXPECT_LT(std::exp(logarithms / chosen), 1.03);
}

// Several hosts of one rank, of many and of unequal numbers: nothing that is chosen takes twice what another would.
TEST(Predict, ChoosesForAllCollectivesWhereverRanksAre) {
  const std::vector<std::vector<int>> worlds{equal_nodes(16, 1), equal_nodes(8, 2), equal_nodes(2, 8),
                                             fabring::test::nodes_of({8, 1}), fabring::test::nodes_of({8, 8, 1})};
  for (const auto& node_of : worlds) {
    const WorldShape shape = shape_of(node_of);
    for (int c = 0; c < collective_count; ++c) {
      const auto collective = static_cast<Collective>(c);
      std::map<Algorithm, Schedule> plans;
      for (const std::string_view links : {"1g", "10g", "100g"}) {
        const Machine machine = test::hosts_that_share_memory(links);
        for (const std::uint64_t bytes : {4u << 10, 64u << 10, 1u << 20}) {
          double chosen = 0, best = 0;
          for (const Candidate& each : candidates(collective, bytes, shape, machine)) {
            if (!each.excluded.empty()) continue;
            if (!plans.contains(each.algorithm))
              plans.emplace(each.algorithm, test::schedule(collective, each.algorithm, node_of, options_for(machine)));
            const auto time =
                static_cast<double>(test::outcome(plans.at(each.algorithm), machine, {.bytes = bytes}).time_ns);
            if (chosen == 0) chosen = best = time;
            best = std::min(best, time);
          }
          EXPECT_LE(chosen, 2 * best) << name(collective) << " of " << bytes << " among " << shape.ranks << " ranks on "
                                      << shape.nodes << " nodes, " << machine.name;
          if (collective == Collective::barrier) break;
        }
      }
    }
  }
}

/// Of what the choice takes, by simulation.
double chosen_time(Collective collective, const std::vector<int>& node_of, const Machine& machine, std::uint64_t bytes,
                   const Constraints& constraints) {
  const Algorithm chosen = candidates(collective, bytes, shape_of(node_of), machine, constraints).front().algorithm;
  const auto plans = test::schedule(collective, chosen, node_of, options_for(machine));
  return static_cast<double>(test::outcome(plans, machine, {.bytes = bytes}).time_ns);
}

// An allreduce, of zeros elsewhere, does all that these do and more. Double trees of 64 hosts are priced at two thirds
// of what they take, and so are rings of long broadcasts.
TEST(Predict, ARootTakesNoLongerThanAnAllreduceAmongManyHosts) {
  for (const std::string_view machine_name : {"1g", "10g", "efa-400"}) {
    const Machine machine = *find_machine(machine_name);
    for (const int nodes : {16, 64}) {
      const auto node_of = equal_nodes(nodes, 1);
      for (std::uint64_t bytes = 16 << 10; bytes <= 64 << 20; bytes *= 4) {
        for (const Constraints& each : {Constraints{}, Constraints{.ordered = true}, Constraints{.reproducible = true},
                                        Constraints{.reproducible = true, .rounds_once = true}}) {
          const double allreduce = chosen_time(Collective::allreduce, node_of, machine, bytes, each);
          const std::string where = std::to_string(bytes) + " among " + std::to_string(nodes) + ", " + machine.name +
                                    (each.ordered ? ", ordered" : "") + (each.reproducible ? ", reproducible" : "") +
                                    (each.rounds_once ? ", rounded once" : "");
          EXPECT_LE(chosen_time(Collective::reduce, node_of, machine, bytes, each), 1.2 * allreduce) << where;
          EXPECT_LE(chosen_time(Collective::broadcast, node_of, machine, bytes, each), 1.5 * allreduce) << where;
        }
      }
    }
  }
}

// To the other node and back, or once to those that have shares and once to the root: links carry both ways at once.
TEST(Predict, CountsWhatLinksCarryToARootOnceEachWay) {
  const Machine links = *find_machine("1g");
  const auto once = static_cast<double>(transfer_ns(64 << 20, links.nic_bytes_per_second));
  const auto vectors = [&](Collective collective, Algorithm algorithm, const std::vector<int>& node_of) {
    return static_cast<double>(*predict(collective, algorithm, 64 << 20, shape_of(node_of), links)) / once;
  };
  EXPECT_NEAR(vectors(Collective::reduce, Algorithm::fold, equal_nodes(2, 2)), 1.0, 0.05);
  EXPECT_NEAR(vectors(Collective::broadcast, Algorithm::direct_two_shot, equal_nodes(16, 1)), 1.0, 0.1);
  EXPECT_NEAR(vectors(Collective::reduce, Algorithm::direct_two_shot, equal_nodes(16, 1)), 1.5, 0.1);
}

// From node to node, or all inputs of an element to one rank: which is faster depends on how many nodes there are.
TEST(Predict, ChoosesAmongFoldsForFewAndForManyNodes) {
  for (const std::string_view machine_name : {"10g", "efa-400"}) {
    const Machine machine = *find_machine(machine_name);
    for (const int nodes : {2, 8, 32, 48})
      EXPECT_LE(chosen_of_best(equal_nodes(nodes, 8), machine, 64 << 20, {.reproducible = true}), 1.3)
          << nodes << " nodes, " << machine.name;
  }
}

/// Prices over times by simulation, where hosts have one rank, equally many and not. Left out: circulant, bruck and
/// pairwise, which are up to 5 times too dear for a host of one rank beside others, or half of what they take.
void expect_near_on_several_hosts(std::initializer_list<Collective> collectives, double least, double most) {
  const std::vector<std::vector<int>> worlds{
      equal_nodes(16, 1),
      equal_nodes(8, 2),
      equal_nodes(2, 8),
      fabring::test::nodes_of({8, 1}),
      fabring::test::nodes_of({8, 8, 1}),
      fabring::test::nodes_of({8, 7}),
  };
  for (const auto& node_of : worlds) {
    for (const Collective collective : collectives) {
      for (const Algorithm algorithm : all_algorithms()) {
        if (!has_algorithm(collective, algorithm) || algorithm == Algorithm::fold ||
            algorithm == Algorithm::circulant || algorithm == Algorithm::bruck || algorithm == Algorithm::pairwise)
          continue;
        if (!takes_ranks(collective, algorithm, static_cast<int>(node_of.size()))) continue;
        for (const Machine& machine :
             {test::hosts_that_share_memory("10g"), test::hosts_that_share_memory("100g"), *find_machine("efa-400")}) {
          const auto plans = test::schedule(collective, algorithm, node_of, options_for(machine));
          for (const std::uint64_t bytes : {1u << 10, 64u << 10, 1u << 20}) {
            const auto time = static_cast<double>(test::outcome(plans, machine, {.bytes = bytes}).time_ns);
            const auto price = predict(collective, algorithm, bytes, shape_of(node_of), machine);
            const std::string what = std::string(name(collective)) + " by " + std::string(name(algorithm)) + " of " +
                                     std::to_string(bytes) + " on " + testing::PrintToString(node_of) + " " +
                                     machine.name;
            ASSERT_TRUE(price) << what;
            EXPECT_GT(static_cast<double>(*price), least * time) << what;
            EXPECT_LT(static_cast<double>(*price), most * time) << what;
          }
        }
      }
    }
  }
}

TEST(Predict, KnowsWhatAllreducesTakeOnSeveralHosts) { expect_near_on_several_hosts({Collective::allreduce}, 0.65, 2); }

TEST(Predict, KnowsWhatBroadcastsAndReducesTakeOnSeveralHosts) {
  expect_near_on_several_hosts({Collective::broadcast, Collective::reduce}, 0.7, 2);
}

TEST(Predict, KnowsWhatBlocksOfAllRanksTakeOnSeveralHosts) {
  expect_near_on_several_hosts({Collective::all_gather, Collective::reduce_scatter, Collective::alltoall}, 0.45, 2);
}

TEST(Predict, KnowsWhatARootGathersAndScattersOnSeveralHosts) {
  expect_near_on_several_hosts({Collective::gather, Collective::scatter}, 0.7, 2.7);
}

TEST(TransferTime, RoundsUpAndNeverOverflows) {
  EXPECT_EQ(transfer_ns(1, 1'000'000'000), 1);
  EXPECT_EQ(transfer_ns(1, 3'000'000'000), 1);
  EXPECT_EQ(transfer_ns(0, 1000), 0);
  EXPECT_EQ(transfer_ns(1 << 30, 0), 0);
  EXPECT_EQ(transfer_ns(std::uint64_t{1} << 40, std::uint64_t{1} << 30), 1'024'000'000'000);
  EXPECT_EQ(transfer_ns(~std::uint64_t{0}, 1), longest_time);
  EXPECT_EQ(transfer_ns((std::uint64_t{1} << 33) - 1, 1), longest_time);
  EXPECT_EQ(transfer_ns((std::uint64_t{1} << 30) - 1, 1), 1'073'741'823'000'000'000);
}

TEST(Uplinks, AreNeverWithoutLimitWhateverTheNumbers) {
  Machine machine;
  machine.nic_bytes_per_second = 1'000'000'000;
  EXPECT_EQ(uplink_bytes_per_second(machine, 4), 0u);
  machine.nodes_per_leaf = 4;
  machine.oversubscription_percent = 200;
  EXPECT_EQ(uplink_bytes_per_second(machine, 4), 2'000'000'000u);
  machine.nic_bytes_per_second = 90'000;
  machine.oversubscription_percent = 100'000;
  EXPECT_EQ(uplink_bytes_per_second(machine, 1), 1000u);
  machine.nics = 1024;  // the products below have more than 64 bits
  machine.nodes_per_leaf = 65'536;
  machine.oversubscription_percent = 101;
  for (const std::uint64_t rate : {274'877'906'943u, 274'877'906'944u, 180'143'985'094'820u}) {
    machine.nic_bytes_per_second = rate;
    EXPECT_GE(uplink_bytes_per_second(machine, 65'536), rate * 1024);
    EXPECT_GE(uplink_bytes_per_second(machine, 1), rate * 1000);
  }
}

TEST(Uplinks, OfFastCardsCostNothingInPricesAndSimulations) {
  Machine machine = *find_machine("efa-400");
  machine.nics = 1024;
  machine.nodes_per_leaf = 2;
  machine.oversubscription_percent = 101;
  const auto world = equal_nodes(4, 1);
  machine.nic_bytes_per_second = 180'143'985'094'819;
  const auto ring = test::schedule(Algorithm::ring, world, options_for(machine));
  const Nanoseconds before = price(Algorithm::ring, 1 << 30, world, machine);
  const Nanoseconds simulated = test::outcome(ring, machine, {.bytes = 1 << 30}).time_ns;
  ++machine.nic_bytes_per_second;
  EXPECT_EQ(price(Algorithm::ring, 1 << 30, world, machine), before);
  EXPECT_EQ(test::outcome(ring, machine, {.bytes = 1 << 30}).time_ns, simulated);
}

TEST(Machine, EveryOneThatIsNamedIsSound) {
  for (const std::string_view each : machine_names()) {
    const auto machine = find_machine(each);
    ASSERT_TRUE(machine);
    EXPECT_EQ(machine->name, each);
    EXPECT_TRUE(check_machine(*machine).ok()) << check_machine(*machine).message();
  }
  EXPECT_FALSE(find_machine("efa-401"));
}

TEST(Predict, GivesTheTextbookFormsOnIdealMachines) {
  const double bytes = 64 << 20;
  for (const int n : {2, 8, 100, 1024}) {
    const auto world = equal_nodes(n, 1);
    const double expected = 2.0 * (n - 1) / n * bytes;
    EXPECT_NEAR(static_cast<double>(price(Algorithm::ring, 64 << 20, world, test::bytes_only())), expected,
                expected / 100);
    EXPECT_EQ(price(Algorithm::ring, 1000, world, test::latency_only()), 2000 * (n - 1));
    EXPECT_EQ(price(Algorithm::direct_one_shot, 1000, world, test::latency_only()), 1000);
    EXPECT_EQ(price(Algorithm::direct_two_shot, 1000, world, test::latency_only()), 2000);
  }
  EXPECT_EQ(price(Algorithm::recursive_doubling, 1000, equal_nodes(1024, 1), test::latency_only()), 10'000);
  EXPECT_EQ(price(Algorithm::recursive_doubling, 1000, equal_nodes(1000, 1), test::latency_only()), 11'000);
  EXPECT_EQ(price(Algorithm::hierarchical, 1000, equal_nodes(64, 8), test::latency_only()), 1000 * (2 * 7 + 2 * 6));
  EXPECT_EQ(price(Algorithm::hierarchical, 1000, equal_nodes(4, 8), test::latency_only()), 1000 * (2 * 7 + 2 * 3));
}

// In vectors over the link, as measured on two hosts of two ranks and on four of one.
TEST(Predict, CountsWhatLinksBetweenNodesCarryEachWay) {
  const Machine links = *find_machine("1g");
  const auto once = static_cast<double>(transfer_ns(64 << 20, links.nic_bytes_per_second));
  const auto vectors = [&](Algorithm algorithm, const std::vector<int>& node_of) {
    return static_cast<double>(price(algorithm, 64 << 20, node_of, links)) / once;
  };
  EXPECT_NEAR(vectors(Algorithm::hierarchical, equal_nodes(2, 2)), 1.0, 0.05);
  EXPECT_NEAR(vectors(Algorithm::binomial, equal_nodes(2, 2)), 1.0, 0.05);
  EXPECT_NEAR(vectors(Algorithm::ring, equal_nodes(2, 2)), 1.5, 0.05);
  EXPECT_NEAR(vectors(Algorithm::double_tree, equal_nodes(2, 2)), 2.0, 0.05);
  EXPECT_NEAR(vectors(Algorithm::binomial, equal_nodes(4, 1)), 2.0, 0.05);
  EXPECT_NEAR(vectors(Algorithm::double_tree, equal_nodes(4, 1)), 2.0, 0.05);
}

// Measured on three hosts, 64 MiB: hierarchical 1.34, a ring 1.50.
TEST(Predict, CountsWhatLinksCarryWhereNodesAreUnequal) {
  const Machine links = *find_machine("1g");
  const auto once = static_cast<double>(transfer_ns(64 << 20, links.nic_bytes_per_second));
  using Nodes = std::vector<int>;
  for (const Nodes& node_of : {Nodes{0, 0, 1, 2}, {0, 0, 0, 1}, {0, 0, 0, 0, 1, 1, 2}, {0, 0, 1}}) {
    for (const Algorithm algorithm : {Algorithm::hierarchical, Algorithm::ring, Algorithm::halving_doubling,
                                      Algorithm::binomial, Algorithm::recursive_doubling, Algorithm::circulant}) {
      const auto plans = make_schedule(test::request(algorithm, node_of), options_for(links));
      ASSERT_TRUE(plans) << plans.error().message();
      const double simulated = static_cast<double>(test::outcome(*plans, links, {.bytes = 64 << 20}).time_ns) / once;
      const double priced = static_cast<double>(price(algorithm, 64 << 20, node_of, links)) / once;
      const std::string what = std::string(name(algorithm)) + " among " + std::to_string(node_of.size()) +
                               " ranks: " + std::to_string(priced) + ", simulated " + std::to_string(simulated);
      EXPECT_GT(priced, 0.85 * simulated) << what;
    }
  }
}

// The choice compares predictions, so what matters is that they are near what the plans take.
TEST(Predict, IsNearTheSimulationOfThePlans) {
  double logarithms = 0;
  int compared = 0;
  for (const std::string_view machine_name : machine_names()) {
    const Machine machine = *find_machine(machine_name);
    for (const auto& [nodes, local] : {std::pair{1, 2}, {1, 4}, {4, 1}, {4, 8}, {16, 8}}) {
      if (nodes > 1 && (machine_name == "shared-memory" || machine_name == "cuda-ipc")) continue;  // no such world
      for (int c = 0; c < collective_count; ++c) {
        for (const Algorithm algorithm : all_algorithms()) {
          PlanRequest wanted = test::request(algorithm, equal_nodes(nodes, local));
          wanted.collective = static_cast<Collective>(c);
          if (!has_algorithm(wanted.collective, algorithm)) continue;
          const auto made = make_schedule(wanted, options_for(machine));
          ASSERT_TRUE(made) << made.error().message();
          for (const std::uint64_t bytes : {1u << 10, 32u << 10, 1u << 20, 64u << 20}) {
            if (algorithm == Algorithm::direct_one_shot && bytes > (1u << 20)) continue;
            const auto simulated = static_cast<double>(test::outcome(*made, machine, {.bytes = bytes}).time_ns);
            const auto price = predict(wanted.collective, algorithm, bytes, shape_of(wanted.node_of), machine);
            const std::string what = std::string(name(wanted.collective)) + " by " + std::string(name(algorithm)) +
                                     " of " + std::to_string(bytes) + " on " + std::to_string(nodes) + "x" +
                                     std::to_string(local) + " " + machine.name;
            ASSERT_TRUE(price) << what;
            const double ratio = static_cast<double>(*price) / simulated;
            EXPECT_GT(ratio, 0.15) << what;
            EXPECT_LT(ratio, 3.7) << what;  // long vectors by double_tree on a full node
            logarithms += std::abs(std::log(ratio));
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_LT(std::exp(logarithms / compared), 1.2);  // on average within 20 percent
}

TEST(Predict, GrowsWithBytes) {
  for (const std::string_view machine_name : machine_names()) {
    for (const Algorithm algorithm : all_algorithms()) {
      Nanoseconds before = 0;
      for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 40; bytes *= 2) {
        const Nanoseconds now = price(algorithm, bytes, equal_nodes(4, 8), *find_machine(machine_name));
        if (now < 0) break;                                                  // allreduce has no such algorithm
        EXPECT_GE(now, before * 7 / 10) << name(algorithm) << " " << bytes;  // a further tile may overlap better
        before = now;
      }
    }
  }
}

// 1 MiB in 128 to 170 us, where one end after the other would take 194; with three ranks nothing was measured.
TEST(Predict, ALongMessageBetweenTwoIsReceivedWhileItIsSent) {
  const Machine machine = *find_machine("loopback-tcp");
  const auto broadcast = [&](Algorithm algorithm, std::uint64_t bytes, int ranks) {
    return predict(Collective::broadcast, algorithm, bytes, {ranks, 1, ranks, ranks}, machine).value_or(-1);
  };
  EXPECT_GT(broadcast(Algorithm::binomial, 1 << 20, 2), 120'000);
  EXPECT_LT(broadcast(Algorithm::binomial, 1 << 20, 2), 175'000);
  for (const std::uint64_t bytes : {1u << 18, 1u << 20, 1u << 22, 1u << 24, 1u << 26})
    EXPECT_LE(broadcast(Algorithm::binomial, bytes, 2), broadcast(Algorithm::double_tree, bytes, 2))
        << bytes << ": halves are messages more, or as many";
  EXPECT_GT(broadcast(Algorithm::binomial, 1 << 16, 2), broadcast(Algorithm::double_tree, 1 << 16, 2))
      << "but 32 KiB need no grant";
}

TEST(Predict, NamesNothingThatDoesNotExist) {
  EXPECT_FALSE(predict(Collective::barrier, Algorithm::ring, 0, {2, 1, 2, 2}, *find_machine("10g")));
}

}  // namespace
}  // namespace fabring::simulation
