#include "collectives/describe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Describe, RangesAreReadFromTheOutside) {
  PlanBuilder builder("test", 0, 2);
  const RangeId part = builder.part(builder.part(0, 0, 3), 2, 4);
  const RangeId run = builder.parts(0, 1, 3, 4);
  builder.parts(0, 2, 2, 4);
  Plan plan = std::move(builder).build();
  EXPECT_EQ(range_text(plan, 0), "all");
  EXPECT_EQ(range_text(plan, part), "[0/3][2/4]");
  EXPECT_EQ(range_text(plan, run), "[1-2/4]");
  EXPECT_EQ(range_text(plan, run + 1), "[none/4]");
  EXPECT_EQ(block_text(plan, {Space::scratch, 1, run}), "[1-2/4] of scratch 1");
}

TEST(Describe, BrokenPlansAreStillPrinted) {
  Plan plan;
  plan.ranges = {{}, {1, 0, 1, 2}};
  EXPECT_THAT(range_text(plan, 7), HasSubstr("range 7?"));
  EXPECT_THAT(range_text(plan, 1), HasSubstr("range 1?"));
  Step step;
  step.kind = StepKind::reduce;
  step.operand_count = 3;
  EXPECT_THAT(step_text(plan, step), HasSubstr("do not exist"));
}

TEST(Describe, StepsSayWhatTheyMoveAndWhatTheyWaitFor) {
  const auto plans = test::plans_of(Algorithm::ring, test::flat(2), ReduceOp::avg);
  EXPECT_EQ(describe_steps(plans[0]),
            "ring, rank 0 of 2: 5 steps\n"
            "  0  send to rank 1: [1/2] of input\n"
            "  1  recv_reduce from rank 1: [0/2] of input -> output, incoming first\n"
            "  2  finish: [0/2] of output  after 1\n"
            "  3  send to rank 1: [0/2] of output  after 2\n"
            "  4  recv from rank 1: [1/2] of output  after 0\n");
}

TEST(Describe, AReduceNamesItsOperandsInOrder) {
  const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(3));
  EXPECT_THAT(describe_steps(plans[1]), HasSubstr("reduce: all of scratch 0, input, scratch 1 -> output  after"));
}

TEST(Describe, TheTableHasRoundsBytesOfRanksAndLinksAndScratch) {
  const auto nodes = test::nodes_of({2, 2});
  const std::string text = describe_world(test::plans_of(Algorithm::hierarchical, nodes), nodes, 8, 4);
  EXPECT_THAT(text, HasSubstr("hierarchical over 4 ranks, 8 elements of 4 bytes: 16 messages in 4 rounds\n"));
  EXPECT_THAT(text, HasSubstr("  rank  steps  messages  bytes  between nodes  scratch\n"
                              "     0      8         4     48             16        0\n"));
  EXPECT_THAT(text, HasSubstr("   ranks  bytes\n  0 -> 1     32\n  0 -> 2     16\n"));
  EXPECT_THAT(text, HasSubstr("   nodes  bytes\n  0 -> 1     32\n  1 -> 0     32\n"));
}

TEST(Describe, NodesAreLeftOutWhenNotKnownAndManyLinksAreSummed) {
  const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(9));
  const std::string text = describe_world(plans, {}, 1, 4);
  EXPECT_THAT(text, Not(HasSubstr("nodes  bytes")));
  EXPECT_THAT(text, HasSubstr("ranks: 72 links, 288 bytes, at most 4 on one"));
  EXPECT_THAT(text, HasSubstr("      32\n"));  // scratch: eight inputs of 4 bytes
}

TEST(Describe, PlansThatCannotRunSayWhy) {
  auto plans = test::plans_of(Algorithm::ring, test::flat(2));
  plans[0].steps[0].message = 5;
  EXPECT_THAT(describe_world(plans, {}, 4, 4), HasSubstr("message"));
}

}  // namespace
}  // namespace fabring
