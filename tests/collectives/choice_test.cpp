#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"

namespace fabring {
namespace {

TEST(AlgorithmName, IsReadBack) {
  for (const Algorithm algorithm : all_algorithms()) {
    EXPECT_EQ(parse_algorithm(name(algorithm)), algorithm);
    EXPECT_EQ(all_algorithms()[static_cast<std::size_t>(algorithm)], algorithm);
    bool used = false;
    for (int i = 0; i < collective_count; ++i) {
      const auto collective = static_cast<Collective>(i);
      const bool has = has_algorithm(collective, algorithm);
      used = used || has;
      EXPECT_EQ(parse_algorithm(name(algorithm), collective), has ? std::optional(algorithm) : std::nullopt);
    }
    EXPECT_TRUE(used) << name(algorithm);
  }
  EXPECT_EQ(parse_algorithm("rings"), std::nullopt);
  EXPECT_EQ(parse_algorithm(""), std::nullopt);
}

TEST(AlgorithmName, DirectIsTheOneOfItsCollective) {
  EXPECT_EQ(parse_algorithm("direct"), Algorithm::direct_two_shot);
  EXPECT_EQ(parse_algorithm("direct", Collective::allreduce), Algorithm::direct_two_shot);
  EXPECT_EQ(parse_algorithm("direct", Collective::broadcast), Algorithm::direct_one_shot);
  EXPECT_EQ(parse_algorithm("direct", Collective::barrier), std::nullopt);
}

TEST(Choice, SmallVectorsTakeFewRoundsAndLongOnesFewBytes) {
  EXPECT_EQ(choose_allreduce({4, 4, 1}).algorithm, Algorithm::direct_one_shot);
  EXPECT_EQ(choose_allreduce({4, 64, 1}).algorithm, Algorithm::recursive_doubling);
  EXPECT_EQ(choose_allreduce({64 << 10, 4, 1}).algorithm, Algorithm::recursive_doubling);
  EXPECT_EQ(choose_allreduce({1 << 20, 4, 1}).algorithm, Algorithm::ring);
}

TEST(Choice, SeveralNodesWithSeveralRanksAreHierarchicalWhenTheVectorIsLong) {
  EXPECT_EQ(choose_allreduce({1 << 20, 8, 2}).algorithm, Algorithm::hierarchical);
  EXPECT_EQ(choose_allreduce({1 << 20, 8, 8}).algorithm, Algorithm::ring);
  EXPECT_EQ(choose_allreduce({1 << 10, 8, 2}).algorithm, Algorithm::direct_one_shot);
}

TEST(Choice, AlwaysSaysWhyAndCanBeBuilt) {
  for (const int ranks : {1, 2, 3, 9, 100}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{20000}, std::size_t{1} << 40}) {
      const AlgorithmChoice choice = choose_allreduce({bytes, ranks, 1});
      EXPECT_FALSE(choice.reason.empty());
      EXPECT_TRUE(make_plan({choice.algorithm, 0, std::vector<int>(static_cast<std::size_t>(ranks)), ReduceOp::sum}));
    }
  }
}

TEST(MakePlan, RefusesARankThatIsNotThereAndNoRanks) {
  EXPECT_EQ(make_plan({Algorithm::ring, 3, {0, 0, 0}, ReduceOp::sum}).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(make_plan({Algorithm::ring, -1, {0, 0}, ReduceOp::sum}).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(make_plan({Algorithm::ring, 0, {}, ReduceOp::sum}).error().code(), ErrorCode::unsupported);
  const PlanRequest beyond{Algorithm::ring, 0, {0, 0}, ReduceOp::sum, Collective::reduce, 2};
  EXPECT_EQ(make_plan(beyond).error().code(), ErrorCode::invalid_argument);
}

TEST(MakePlan, RefusesWhatACollectiveDoesNotHaveAndSaysWhich) {
  const auto plan = make_plan({Algorithm::star, 0, {0, 0}, ReduceOp::sum, Collective::barrier});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), ErrorCode::unsupported);
  EXPECT_NE(plan.error().message().find("barrier by star"), std::string::npos) << plan.error().message();
}

TEST(Claims, EveryReducingCollectiveHasAnOrderedAndAReproducibleAlgorithm) {
  for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::reduce_scatter}) {
    bool ordered = false;
    bool reproducible = false;
    for (const Algorithm algorithm : all_algorithms()) {
      ordered = ordered || keeps_order(collective, algorithm);
      reproducible = reproducible || is_reproducible(collective, algorithm);
      EXPECT_LE(is_reproducible(collective, algorithm), keeps_order(collective, algorithm));
    }
    EXPECT_TRUE(ordered && reproducible) << name(collective);
  }
  EXPECT_FALSE(keeps_order(Collective::allreduce, Algorithm::ring));
}

}  // namespace
}  // namespace fabring
