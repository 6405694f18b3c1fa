// Prices and choices on nodes of unequal numbers of ranks.

#include <map>

#include "collectives/choice/table.hpp"
#include "collectives/cost/predict.hpp"
#include "tests/simulation/worlds.hpp"

namespace fabring::simulation {
namespace {

/// Nodes as shrink() leaves them where a host lost ranks: the last, the first or one in between.
std::vector<std::vector<int>> worlds_with_ranks_missing() {
  using fabring::test::nodes_of;
  return {nodes_of({4, 3}), nodes_of({3, 4}), nodes_of({8, 8, 8, 8, 8, 8, 8, 4}), nodes_of({8, 8, 8, 8, 8, 8, 8, 7}),
          nodes_of({7, 8, 8, 8, 8, 8, 8, 8})};
}

constexpr std::uint64_t few_messages = 100'000;  // the rest is added at the pace of these

// With a rank less on one of 8 nodes an algorithm may take a quarter of what another does, or four times as much, by
// where that node is.
TEST(PredictUnequal, KnowsAndChoosesWhatIsFastWhereRanksAreMissing) {
  for (const auto& node_of : worlds_with_ranks_missing()) {
    const WorldShape shape = shape_of(node_of);
    for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::broadcast}) {
      std::map<Algorithm, Schedule> plans;
      for (const std::string_view named : {"efa-400", "efa-3200"}) {
        const Machine machine = *find_machine(named);
        for (const std::uint64_t bytes : {16u << 20, 256u << 20}) {
          double chosen = 0, best = 0;
          const auto all = candidates(collective, bytes, shape, machine);
          for (const Candidate& each : all) {
            if (!each.excluded.empty() || *each.predicted > 5 * *all.front().predicted) continue;
            if (!plans.contains(each.algorithm))
              plans.emplace(each.algorithm, test::schedule(collective, each.algorithm, node_of, options_for(machine)));
            const Job job{.bytes = bytes, .most_messages = few_messages};
            const auto time = static_cast<double>(test::outcome(plans.at(each.algorithm), machine, job).time_ns);
            if (chosen == 0) chosen = best = time;
            best = std::min(best, time);
            if (each.algorithm == Algorithm::double_tree) continue;  // a third of what it takes, nodes equal or not
            const std::string what = std::string(name(collective)) + " by " + std::string(name(each.algorithm)) +
                                     " of " + std::to_string(bytes) + " on " + testing::PrintToString(node_of) + " " +
                                     machine.name;
            EXPECT_GT(static_cast<double>(*each.predicted), 0.6 * time) << what;
            EXPECT_LT(static_cast<double>(*each.predicted), 2.1 * time) << what;
          }
          EXPECT_LE(chosen, 1.35 * best) << name(collective) << " of " << bytes << " on "
                                         << testing::PrintToString(node_of) << ", " << machine.name;
        }
      }
    }
  }
}

// It has all lanes while its neighbours have one each, over cards of its own, but in few slots; and the lanes of others
// are on the next link while it sends or receives the further ones.
TEST(PredictUnequal, KnowsThatARankAloneOnItsNodeHasAllLanes) {
  const auto expect_near = [](Collective collective, const std::vector<int>& nodes, std::string_view named,
                              std::uint64_t bytes) {
    const Machine machine = *find_machine(named);
    const auto node_of = fabring::test::nodes_of(nodes);
    const auto plans = test::schedule(collective, Algorithm::hierarchical, node_of, options_for(machine));
    const Job job{.bytes = bytes, .most_messages = few_messages};
    const auto time = static_cast<double>(test::outcome(plans, machine, job).time_ns);
    const auto price = predict(collective, Algorithm::hierarchical, bytes, shape_of(node_of), machine);
    const std::string what = std::string(name(collective)) + " of " + std::to_string(bytes) + " on " +
                             testing::PrintToString(nodes) + " " + machine.name;
    EXPECT_GT(static_cast<double>(price.value_or(0)), 0.75 * time) << what;
    EXPECT_LT(static_cast<double>(price.value_or(0)), 1.3 * time) << what;
  };
  for (const std::vector<int>& nodes : std::vector<std::vector<int>>{{8, 8, 1}, {4, 4, 4, 4, 4, 1}, {1, 8}}) {
    for (const Collective collective : {Collective::allreduce, Collective::reduce})
      for (const std::uint64_t bytes : {16u << 20, 256u << 20}) expect_near(collective, nodes, "efa-3200", bytes);
    for (const Collective collective : {Collective::broadcast, Collective::reduce})
      expect_near(collective, nodes, "1g", 64 << 10);
  }
}

// A rank less does not make the messages of all others shorter.
TEST(PredictUnequal, HierarchicalTakesLittleLongerWhereARankIsMissing) {
  const Machine machine = *find_machine("efa-3200");
  const auto time = [&](std::vector<int> nodes) {
    const auto plans = test::schedule(Algorithm::hierarchical, fabring::test::nodes_of(nodes), options_for(machine));
    const Job job{.bytes = std::uint64_t{1} << 30, .most_messages = few_messages};
    return static_cast<double>(test::outcome(plans, machine, job).time_ns);
  };
  EXPECT_LT(time({8, 7}), 1.25 * time({8, 8}));
  EXPECT_LT(time({4, 3}), 1.25 * time({4, 4}));
  EXPECT_LT(time({8, 8, 8, 8, 8, 8, 8, 7}), 1.25 * time({8, 8, 8, 8, 8, 8, 8, 8}));
}

}  // namespace
}  // namespace fabring::simulation
