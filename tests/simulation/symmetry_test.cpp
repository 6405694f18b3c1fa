// A symmetry is believed only where it is one: whatever the shape, one unit gives the times of all ranks' own plans.

#include "simulation/symmetry.hpp"

#include <string>
#include <vector>

#include "collectives/ownership.hpp"
#include "tests/simulation/worlds.hpp"

namespace fabring::simulation {
namespace {

using test::equal_nodes;

struct Case {
  Collective collective;
  Algorithm algorithm;
  int nodes;
  int local;

  int ranks() const { return nodes * local; }
  std::string text() const {
    return std::string(name(collective)) + " by " + std::string(name(algorithm)) + ", " + std::to_string(nodes) + "x" +
           std::to_string(local);
  }
};

PlanRequest request_of(const Case& each) {
  PlanRequest request = test::request(each.algorithm, equal_nodes(each.nodes, each.local));
  request.collective = each.collective;
  return request;
}

/// All plans of these shapes; where a rank has more than `most_steps` steps, none.
std::vector<Case> cases(const std::vector<std::pair<int, int>>& shapes, std::size_t most_steps) {
  std::vector<Case> all;
  for (const auto& [nodes, local] : shapes) {
    for (int collective = 0; collective < collective_count; ++collective) {
      for (const Algorithm algorithm : all_algorithms()) {
        const Case each{static_cast<Collective>(collective), algorithm, nodes, local};
        if (!takes_ranks(each.collective, algorithm, each.ranks())) continue;
        const auto plan = make_plan(request_of(each));
        if (plan && plan->steps.size() <= most_steps) all.push_back(each);
      }
    }
  }
  return all;
}

/// False: it has no symmetry, so that these are all ranks' own plans.
bool expect_the_times_of_own_plans(const Case& each) {
  const auto kept = make_schedule(request_of(each));
  EXPECT_TRUE(kept) << each.text() << ": " << kept.error().message();
  if (!kept || kept->symmetry.action == Symmetry::Action::none) return false;
  ScheduleOptions own;
  own.use_symmetry = false;
  const auto whole = make_schedule(request_of(each), own);
  EXPECT_TRUE(whole) << each.text() << ": " << whole.error().message();
  if (!whole) return false;
  const Machine machine = *find_machine("100g");
  const Job job{.bytes = static_cast<std::uint64_t>(each.ranks()) * 4 * 4};
  const Outcome one = test::outcome(*kept, machine, job);
  EXPECT_EQ(one.time_ns, test::outcome(*whole, machine, job).time_ns) << each.text();
  return true;
}

TEST(SymmetryOfPlans, GivesTheTimesOfAllRanksOwnPlans) {
  int compared = 0;
  for (const Case& each : cases({{32, 8}, {16, 16}, {4, 64}}, 4096)) compared += expect_the_times_of_own_plans(each);
  for (const Case& each : cases({{128, 8}}, 100)) compared += expect_the_times_of_own_plans(each);
  EXPECT_GT(compared, 20) << "few have a symmetry";
}

// Of a large world a part is compared. So little of a small one must tell as much as all of it.
TEST(SymmetryOfPlans, IsFoundAlikeByFewComparisonsAndByAll) {
  ScheduleOptions few;
  few.most_compared = 0;
  ScheduleOptions all;
  all.most_compared = ~std::uint64_t{0};
  std::vector<Case> compared = cases({{32, 8}, {16, 16}, {64, 4}, {37, 3}, {48, 4}, {64, 1}, {63, 1}}, 300);
  for (const auto& [nodes, local] : {std::pair{5, 3}, {6, 4}, {7, 2}, {8, 4}, {10, 3}, {12, 2}, {16, 2}})
    for (const Case& each : cases({{nodes, local}}, 4096)) compared.push_back(each);
  for (const Case& each : compared) {
    const auto by_few = make_schedule(request_of(each), few);
    const auto by_all = make_schedule(request_of(each), all);
    ASSERT_TRUE(by_few && by_all) << each.text();
    EXPECT_EQ(by_few->symmetry.action, by_all->symmetry.action) << each.text();
  }
}

TEST(SymmetryOfPlans, HasNoRoot) {
  for (const Rank root : {0, 5, 31}) {
    for (const Case& each : cases({{8, 4}}, 4096)) {
      if (!has_root(each.collective)) continue;
      PlanRequest request = request_of(each);
      request.root = root;
      ScheduleOptions few;
      few.most_compared = 0;
      const auto made = make_schedule(request, few);
      ASSERT_TRUE(made) << each.text();
      EXPECT_EQ(made->symmetry.action, Symmetry::Action::none) << each.text() << ", root " << root;
    }
  }
}

// 512 nodes are compared in part. Only the first rank of a node shows that a binomial tree has no symmetry.
TEST(SymmetryOfPlans, OfABinomialTreeIsNeverTaken) {
  for (const auto& [nodes, local] : {std::pair{32, 8}, {128, 8}, {512, 8}, {16, 16}, {8, 32}, {4, 64}}) {
    for (const Collective collective : {Collective::allreduce, Collective::barrier}) {
      const auto made = make_schedule(request_of({collective, Algorithm::binomial, nodes, local}));
      ASSERT_TRUE(made) << made.error().message();
      EXPECT_EQ(made->symmetry.action, Symmetry::Action::none) << nodes << "x" << local;
      test::outcome(*made, *find_machine("100g"), {.bytes = 1024});
    }
  }
}

}  // namespace
}  // namespace fabring::simulation
