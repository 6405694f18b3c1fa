#include "simulation/schedule.hpp"

#include "tests/simulation/worlds.hpp"

namespace fabring::simulation {
namespace {

using test::equal_nodes;

TEST(Symmetry, MovesThereAndBack) {
  for (const auto action : {Symmetry::Action::shift, Symmetry::Action::exclusive_or}) {
    const Symmetry symmetry{action, 16, 4};
    for (Rank rank = 0; rank < 16; ++rank) {
      const int element = symmetry.element_of(rank);
      EXPECT_EQ(symmetry.move(element, symmetry.class_of(rank)), rank);
      EXPECT_EQ(symmetry.move(symmetry.inverse(element), rank), symmetry.class_of(rank));
    }
  }
}

TEST(Schedule, OneNodeStandsForAllWhereEveryNodeDoesTheSame) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::hierarchical, Algorithm::direct_one_shot}) {
    const Schedule made = test::schedule(algorithm, equal_nodes(3, 4));
    EXPECT_EQ(made.symmetry.action, Symmetry::Action::shift) << name(algorithm);
    EXPECT_EQ(made.classes.size(), 4u);
  }
  for (const Algorithm algorithm : {Algorithm::recursive_doubling, Algorithm::hierarchical}) {
    const Schedule made = test::schedule(algorithm, equal_nodes(8, 4));
    EXPECT_EQ(made.symmetry.action, Symmetry::Action::exclusive_or) << name(algorithm);
    EXPECT_EQ(made.classes.size(), 4u);
  }
}

TEST(Schedule, KeepsAllPlansWhereNodesDiffer) {
  // 6 x 4 = 24 ranks: recursive doubling folds 8 of them, which ranks of other nodes do not do.
  EXPECT_EQ(test::schedule(Algorithm::recursive_doubling, equal_nodes(6, 4)).classes.size(), 24u);
  // A circulant graph of 6 nodes: some nodes' parts go past the last one.
  EXPECT_EQ(test::schedule(Algorithm::hierarchical, equal_nodes(6, 4)).classes.size(), 24u);
  EXPECT_EQ(test::schedule(Algorithm::ring, {0, 0, 1}).classes.size(), 3u);           // unequal
  EXPECT_EQ(test::schedule(Algorithm::ring, {0, 1, 0, 1}).classes.size(), 4u);        // interleaved
  EXPECT_EQ(test::schedule(Algorithm::ring, {0, 0, 1, 1, 0, 0}).classes.size(), 6u);  // a node in two places
  ScheduleOptions none;
  none.use_symmetry = false;
  EXPECT_EQ(test::schedule(Algorithm::ring, equal_nodes(6, 4), none).classes.size(), 24u);
}

TEST(Schedule, AUnitIsAsLargeAsWhatItsRanksShare) {
  ScheduleOptions leaves;
  leaves.nodes_per_unit = 2;
  EXPECT_EQ(test::schedule(Algorithm::ring, equal_nodes(6, 4), leaves).classes.size(), 8u);
  leaves.nodes_per_unit = 4;  // does not divide 6
  EXPECT_EQ(test::schedule(Algorithm::ring, equal_nodes(6, 4), leaves).classes.size(), 24u);
}

TEST(Schedule, EverySendHasItsReceiveAlsoOfTheWorldThatIsNotKept) {
  const Schedule small = test::schedule(Algorithm::hierarchical, equal_nodes(5, 3));
  ScheduleOptions none;
  none.use_symmetry = false;
  const Schedule whole = test::schedule(Algorithm::hierarchical, equal_nodes(5, 3), none);
  for (Rank rank = 0; rank < 15; ++rank) {
    const ClassPlan& kept = small.of(rank);
    const ClassPlan& own = whole.of(rank);
    ASSERT_EQ(kept.plan.steps.size(), own.plan.steps.size());
    EXPECT_EQ(kept.partner, own.partner);
    for (StepId id = 0; id < own.plan.steps.size(); ++id) {
      if (own.partner[id] == no_step) continue;
      const Symmetry& symmetry = small.symmetry;
      EXPECT_EQ(symmetry.move(symmetry.element_of(rank), kept.plan.steps[id].peer), own.plan.steps[id].peer);
    }
  }
}

TEST(Schedule, RefusesMoreStepsThanItMayHold) {
  ScheduleOptions options;
  options.use_symmetry = false;
  options.most_steps = 1000;
  const auto made = make_schedule(test::request(Algorithm::ring, equal_nodes(1, 64)), options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::unsupported);
}

}  // namespace
}  // namespace fabring::simulation
