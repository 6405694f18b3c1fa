// Each property of check_plans(), by a plan written to break it.
#include "collectives/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using test::Form;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const std::vector<Plan>& plans, std::size_t count = 8, ReduceOp op = ReduceOp::sum) {
  const auto report = check_plans(plans, count, op);
  return report ? "no error" : report.error().message();
}

/// Both ranks' plans made by the same lines.
template <class Lines>
std::vector<Plan> pair_of(Lines lines) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("test", rank, 2);
    lines(plan, 1 - rank);
    plans.push_back(std::move(plan).build());
  }
  return plans;
}

TEST(PlanCheck, ReportsStepsMessagesAndRounds) {
  const auto report = check_plans(test::plans_of(Algorithm::ring, test::flat(4)), 8, ReduceOp::sum);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->steps, 4u * 12);
  EXPECT_EQ(report->messages, 4u * 6);
  EXPECT_EQ(report->critical_path, 6u);
}

TEST(PlanCheck, PlansMustBeThoseOfAllRanksInOrder) {
  auto plans = test::plans_of(Algorithm::ring, test::flat(3));
  EXPECT_THAT(error_of({}), HasSubstr("no plans"));
  plans.pop_back();
  EXPECT_THAT(error_of(plans), HasSubstr("of 3"));
  std::swap(plans[0], plans[1]);
  EXPECT_THAT(error_of(plans), HasSubstr("rank 1"));
}

TEST(PlanCheck, ASendNeedsItsReceive) {
  auto plans = test::plans_of(Algorithm::ring, test::flat(2));
  plans[0].steps[0].message = 7;
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("message"), HasSubstr("rank")));
  EXPECT_THAT(error_of(pair_of([](PlanBuilder& plan, Rank peer) { plan.send(peer, 0); })),
              AllOf(HasSubstr("rank 0"), HasSubstr("step 0"), HasSubstr("has no receive")));
  EXPECT_THAT(error_of(pair_of([](PlanBuilder& plan, Rank peer) { plan.recv(peer, 0); })), HasSubstr("has no send"));
}

TEST(PlanCheck, BothEndsOfAMessageHaveTheSameSize) {
  const auto plans = pair_of([](PlanBuilder& plan, Rank peer) {
    plan.send(peer, plan.whole());
    plan.recv(peer, plan.scratch(plan.part(0, 0, 2)));
  });
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("takes 4 elements"), HasSubstr("sends 8")));
  EXPECT_THAT(error_of(plans, 1), Not(HasSubstr("takes")));  // 1 element: the first half is all
}

TEST(PlanCheck, SendsThatWaitForTheirReceivesMayDeadlock) {
  // Both write over what they send before the other has taken it: fine with buffered sends only.
  const auto plans = pair_of([](PlanBuilder& plan, Rank peer) {
    plan.send(peer, plan.whole());
    plan.recv_reduce(peer, plan.whole(), plan.rank() > peer);
  });
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, step 0"), HasSubstr("waits for")));
}

// The engine counts them so, and ended the process.
TEST(PlanCheck, MessagesAreNumberedInTheOrderOfTheSteps) {
  for (const Rank wrong : {0, 1}) {
    std::vector<Plan> plans;
    for (Rank rank = 0; rank < 2; ++rank) {
      PlanBuilder plan("test", rank, 2, Collective::broadcast);
      for (int half = 0; half < 2; ++half)
        rank == 0 ? plan.send(1, plan.part(0, half, 2)) : plan.recv(0, plan.part(0, half, 2));
      if (rank == 0) plan.settle(0);
      plans.push_back(std::move(plan).build());
    }
    ASSERT_EQ(error_of(plans), "no error");
    std::swap(plans[wrong].steps[0].message, plans[wrong].steps[1].message);
    EXPECT_THAT(error_of(plans), AllOf(HasSubstr("rank " + std::to_string(wrong)), HasSubstr("step 0"),
                                       HasSubstr("message 1 comes before the one before it")));
  }
}

// Memory for the first of two is all that rank 0 is sure to have, and what goes there waits for the second.
TEST(PlanCheck, WhatIsReducedAsItComesIsTakenInTheOrderOfTheSteps) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 3; ++rank) {
    PlanBuilder plan("test", rank, 3);
    if (rank == 0) {
      plan.recv_reduce(1, plan.part(0, 0, 2));
      plan.recv_reduce(2, plan.part(0, 1, 2));
    } else if (rank == 1) {
      plan.recv(2, plan.scratch(0));
      plan.send(0, plan.part(0, 0, 2));
    } else {
      plan.send(0, plan.part(0, 1, 2));
      plan.send(1, 0);
    }
    plans.push_back(std::move(plan).build());
    if (rank == 0) continue;
    Plan& made = plans.back();
    made.steps[0].first_successor = static_cast<std::uint32_t>(made.successors.size());
    made.steps[0].successor_count = 1;
    made.successors.push_back(1);
    made.steps[1].dependencies = 1;
  }
  EXPECT_THAT(error_of(plans),
              AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, step 1"), HasSubstr("waits for rank 0, step 0")));
}

// Its place was taken from the bounds of blocks that are not there.
TEST(PlanCheck, AnEmptyRangeLiesBetweenBlocksThatAreThere) {
  const auto with = [](Range range) {
    auto plans = test::plans_of(Form{Collective::all_gather, Algorithm::ring}, test::flat(2));
    for (Plan& plan : plans) plan.ranges.push_back(range);
    return error_of(plans);
  };
  constexpr std::uint32_t far = 4'000'000'000;
  EXPECT_THAT(with({0, far, far, far}), HasSubstr("only the 2 blocks"));
  EXPECT_THAT(with({0, 1, 1, 3}), HasSubstr("only the 2 blocks"));
  EXPECT_EQ(with({0, 0, 0, 1}), "no error") << "as PlanBuilder::nothing() makes it";
  EXPECT_EQ(with({0, 2, 2, 2}), "no error");
}

TEST(PlanCheck, EveryInputCountsOnce) {
  EXPECT_THAT(error_of(pair_of([](PlanBuilder& plan, Rank) { plan.settle(0); })), HasSubstr("input 0 times"));
  const auto twice = pair_of([](PlanBuilder& plan, Rank peer) {
    const Block incoming = plan.scratch(0);
    plan.send(peer, plan.input(0));
    plan.recv(peer, incoming);
    plan.reduce(plan.output(0), std::array{plan.input(0), incoming, incoming});
  });
  EXPECT_THAT(error_of(twice), HasSubstr("input 2 times"));
}

TEST(PlanCheck, AllRanksComputeTheSameExpression) {
  const auto plans = pair_of([](PlanBuilder& plan, Rank peer) {
    const Block incoming = plan.scratch(0);
    plan.send(peer, plan.input(0));
    plan.recv(peer, incoming);
    plan.reduce(plan.output(0), std::array{plan.input(0), incoming});  // own first, on both
  });
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("(x1+x0)"), HasSubstr("(x0+x1)")));
}

TEST(PlanCheck, AvgIsFinishedOnceAndOthersNever) {
  const auto sum = test::plans_of(Algorithm::direct_one_shot, test::flat(2));
  EXPECT_THAT(error_of(sum, 8, ReduceOp::avg), HasSubstr("is not finished"));
  const auto avg = test::plans_of(Algorithm::direct_one_shot, test::flat(2), ReduceOp::avg);
  EXPECT_THAT(error_of(avg, 8, ReduceOp::sum), HasSubstr("only avg is finished"));
}

TEST(PlanCheck, TheOutputIsWrittenAlsoWhenItIsNotTheInput) {
  const auto plans = pair_of([](PlanBuilder& plan, Rank peer) {
    const RangeId mine = plan.part(0, plan.rank(), 2);
    const RangeId other = plan.part(0, peer, 2);
    plan.send(peer, other);
    plan.recv_reduce(peer, mine);
    // Nobody passes the result on.
  });
  EXPECT_THAT(error_of(plans), HasSubstr("never written"));
}

TEST(PlanCheck, InputAndOutputMayBeOneBuffer) {
  // Right with two buffers; with one, the reduce overwrites the input that the last send reads.
  auto plans = pair_of([](PlanBuilder& plan, Rank peer) {
    const Block first = plan.scratch(0);
    plan.send(peer, plan.input(0));
    plan.recv(peer, first);
    const auto ordered = plan.rank() < peer ? std::array{plan.input(0), first} : std::array{first, plan.input(0)};
    plan.reduce(plan.output(0), ordered);
    plan.send(peer, plan.input(0));
    plan.recv(peer, plan.scratch(0));
    plan.copy(plan.scratch(0), plan.input(0));
    const Block third = plan.scratch(0);
    plan.copy(third, plan.input(0));
    plan.reduce(plan.output(0), std::array{plan.output(0)});
  });
  EXPECT_EQ(error_of(plans), "no error");
  plans = pair_of([](PlanBuilder& plan, Rank peer) {
    const Block incoming = plan.scratch(0);
    plan.send(peer, plan.input(0));
    plan.recv(peer, incoming);
    plan.copy(plan.output(0), incoming);
    const auto ordered = plan.rank() < peer ? std::array{plan.input(0), incoming} : std::array{incoming, plan.input(0)};
    plan.reduce(plan.output(0), ordered);
  });
  EXPECT_THAT(error_of(plans), HasSubstr("in place"));
}

TEST(PlanCheck, StepsThatShareBytesAreOrdered) {
  auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(2));
  for (Plan& plan : plans) {  // the reduce no longer waits for the send of what it overwrites
    ASSERT_EQ(plan.steps[0].kind, StepKind::send);
    ASSERT_EQ(plan.steps[0].successor_count, 1u);
    --plan.steps[plan.successors[plan.steps[0].first_successor]].dependencies;
    plan.steps[0].successor_count = 0;
  }
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("does not wait for step 0"), HasSubstr("share bytes")));
  EXPECT_EQ(error_of(plans, 0), "no error");  // no bytes, no race
}

TEST(PlanCheck, NamesWhatDoesNotExist) {
  const auto good = test::plans_of(Algorithm::direct_two_shot, test::flat(3), ReduceOp::avg);
  const auto broken = [&](auto change) {
    auto plans = good;
    change(plans[1]);
    return error_of(plans, 8, ReduceOp::avg);
  };
  const auto first = [](Plan& plan, StepKind kind) -> Step& {
    return *std::find_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) { return step.kind == kind; });
  };
  EXPECT_EQ(broken([](Plan&) {}), "no error");
  EXPECT_THAT(broken([](Plan& plan) { plan.ranges.clear(); }), HasSubstr("no ranges"));
  EXPECT_THAT(broken([](Plan& plan) { plan.ranges[1].last = 9; }), HasSubstr("cannot be"));
  EXPECT_THAT(broken([](Plan& plan) { plan.ranges[1].parent = 1; }), HasSubstr("cannot be"));
  EXPECT_THAT(broken([](Plan& plan) { plan.scratch[0] = 99; }), HasSubstr("range 99"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].from.range = 99; }), HasSubstr("range 99"));
  EXPECT_THAT(broken([&](Plan& plan) { first(plan, StepKind::recv).to.scratch = 99; }), HasSubstr("scratch 99"));
  EXPECT_THAT(broken([&](Plan& plan) { first(plan, StepKind::recv).to.range = 0; }), HasSubstr("takes 8 elements"));
  EXPECT_THAT(broken([&](Plan& plan) { first(plan, StepKind::reduce).to.space = Space::input; }),
              HasSubstr("never written"));
  EXPECT_THAT(broken([&](Plan& plan) { first(plan, StepKind::reduce).operand_count = 99; }), HasSubstr("operands"));
  EXPECT_THAT(broken([&](Plan& plan) { first(plan, StepKind::reduce).operand_count = 0; }), HasSubstr("operands"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].peer = 3; }), HasSubstr("no such peer"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].peer = 1; }), HasSubstr("to itself"));
  EXPECT_THAT(broken([](Plan& plan) { plan.steps[0].kind = static_cast<StepKind>(77); }), HasSubstr("kind"));
  EXPECT_THAT(broken([](Plan& plan) { plan.successors.pop_back(); }), HasSubstr("successors"));
  EXPECT_THAT(broken([](Plan& plan) { plan.successors[0] = 0; }), HasSubstr("cannot wait"));
  EXPECT_THAT(broken([](Plan& plan) { ++plan.steps[0].dependencies; }), HasSubstr("waits for 1 steps"));
}

/// All ranks' plans of another collective, made by the same lines.
template <class Lines>
std::vector<Plan> world_of(Collective collective, int ranks, Lines lines, Rank root = 0) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    PlanBuilder plan("test", rank, ranks, collective, root);
    lines(plan);
    plans.push_back(std::move(plan).build());
  }
  return plans;
}

TEST(PlanCheck, NobodyTouchesAnInputOrAnOutputItsRankDoesNotHave) {
  const auto reads_others = world_of(Collective::all_gather, 2, [](PlanBuilder& plan) {
    plan.copy(plan.output(plan.block(1 - plan.rank())), plan.input(plan.block(1 - plan.rank())));
  });
  EXPECT_THAT(error_of(reads_others), HasSubstr("does not have that input"));
  const auto writes_others = world_of(Collective::reduce_scatter, 2, [](PlanBuilder& plan) {
    plan.send(1 - plan.rank(), plan.block(plan.rank()));
    plan.recv_reduce(1 - plan.rank(), plan.block(1 - plan.rank()));
  });
  EXPECT_THAT(error_of(writes_others), HasSubstr("does not have that output"));
  // The root 1 has an output; rank 0 has none, not even for partial results.
  const auto partial = world_of(
      Collective::reduce, 2, [](PlanBuilder& plan) { plan.settle(plan.whole()); }, 1);
  EXPECT_THAT(error_of(partial), AllOf(HasSubstr("rank 0"), HasSubstr("does not have that output")));
}

TEST(PlanCheck, OnlyACopyMayNameSeveralBlocksOutsideScratch) {
  const auto whole = world_of(Collective::reduce_scatter, 2, [](PlanBuilder& plan) {
    plan.send(1 - plan.rank(), plan.whole());
    plan.recv(1 - plan.rank(), plan.scratch(plan.whole()));
  });
  EXPECT_THAT(error_of(whole), HasSubstr("is several blocks"));
  auto cut_across = world_of(Collective::all_gather, 3, [](PlanBuilder& plan) { plan.part(plan.blocks(0, 2), 0, 2); });
  EXPECT_THAT(error_of(cut_across), HasSubstr("parts of one of them"));
}

TEST(PlanCheck, TheLongestMessageIsAgreedOnAndTrue) {
  auto plans = test::plans_of(Algorithm::ring, test::flat(3));
  plans[1].largest_message += 1;
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("rank 1"), HasSubstr("longest message")));
  for (Plan& plan : plans) plan.largest_message = 5;
  EXPECT_THAT(error_of(plans), HasSubstr("longer than the longest"));
}

TEST(PlanCheck, MovedElementsMustBeTheVeryOnes) {
  const auto swapped = world_of(Collective::alltoall, 2, [](PlanBuilder& plan) {
    const Rank peer = 1 - plan.rank();
    plan.send(peer, plan.input(plan.block(plan.rank())));  // its own block, not the peer's
    plan.recv(peer, plan.output(plan.block(2 + peer)));
    plan.copy(plan.output(plan.block(2 + plan.rank())), plan.input(plan.block(peer)));
  });
  EXPECT_THAT(error_of(swapped), HasSubstr("elements further"));
  const auto of_another = world_of(Collective::broadcast, 2, [](PlanBuilder& plan) {
    if (plan.is_root()) return plan.settle(plan.whole());
    plan.copy(plan.output(plan.whole()), plan.scratch(plan.whole()));
  });
  EXPECT_THAT(error_of(of_another), HasSubstr("never written"));
}

TEST(PlanCheck, AlgorithmsThatClaimAnOrderAreHeldToIt) {
  auto plans = test::plans_of(Form{Collective::reduce, Algorithm::binomial}, test::flat(4), ReduceOp::sum, 2);
  EXPECT_EQ(error_of(plans), "no error");
  for (Plan& plan : plans) {
    for (Step& step : plan.steps) step.incoming_first = false;
  }
  EXPECT_THAT(error_of(plans), HasSubstr("in the order of the ranks"));
  auto direct = test::plans_of(Form{Collective::reduce, Algorithm::chain}, test::flat(3));
  for (Plan& plan : direct) plan.algorithm = "direct_one_shot";
  EXPECT_THAT(error_of(direct), HasSubstr("not reduced in one step"));
}

TEST(PlanCheck, ABarrierEndsWhenAllHaveBegunAndMovesNothing) {
  const auto one_way = world_of(Collective::barrier, 2, [](PlanBuilder& plan) {
    if (plan.rank() == 0) return plan.send(1, plan.nothing());
    plan.recv(0, plan.nothing());
  });
  EXPECT_THAT(error_of(one_way), AllOf(HasSubstr("rank 0"), HasSubstr("may end before rank 1 has begun")));
  const auto data = world_of(Collective::barrier, 2, [](PlanBuilder& plan) {
    plan.send(1 - plan.rank(), plan.whole());
    plan.recv(1 - plan.rank(), plan.scratch(plan.whole()));
  });
  EXPECT_THAT(error_of(data), HasSubstr("does not have that input"));
}

TEST(PlanCheck, RacesInPartsOfScratchAreSeen) {
  auto plans = world_of(Collective::all_gather, 3, [](PlanBuilder& plan) {
    const Block area = plan.scratch(plan.whole());
    plan.copy(PlanBuilder::in(area, plan.block(plan.rank())), plan.input(plan.block(plan.rank())));
    plan.copy(plan.output(plan.block(plan.rank())), PlanBuilder::in(area, plan.block(plan.rank())));
  });
  EXPECT_THAT(error_of(plans), Not(HasSubstr("share bytes")));
  for (Plan& plan : plans) {
    plan.successors.clear();
    for (Step& step : plan.steps) step.first_successor = step.successor_count = step.dependencies = 0;
  }
  EXPECT_THAT(error_of(plans), AllOf(HasSubstr("does not wait for step 0"), HasSubstr("scratch 0")));
}

TEST(PlanCheck, CountsMustFitThePlans) {
  const auto plans = test::plans_of(Form{Collective::all_gather, Algorithm::ring}, test::flat(3));
  const auto report = check_plans(plans, std::vector<std::size_t>{1, 2}, ReduceOp::sum);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(report.error().message(), HasSubstr("3 block lengths, not 2"));
}

TEST(PlanCheck, OperandsThatOverlapWithoutBeingTheSameElementsAreRefused) {
  const auto plans = pair_of([](PlanBuilder& plan, Rank) {
    plan.copy(plan.output(plan.parts(0, 0, 2, 4)), plan.input(plan.parts(0, 1, 3, 4)));
  });
  EXPECT_THAT(error_of(plans), HasSubstr("without being the same elements"));
}

}  // namespace
}  // namespace fabring
