// Why a job stands still, from pictures made by hand: the cause is named, and nobody who is only waiting.

#include "tools/fabring/doctor/hang_verdict.hpp"

#include <gmock/gmock.h>

#include "tests/tools/fabring/made_up_job.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The rank is in the next allreduce on 'world'.
OperationState& enter(RankPicture& rank, std::uint64_t stuck_ms, std::vector<PeerState> peers) {
  rank.state->communicators[0].called = 7;
  return is_in(rank, 1, 7, "allreduce(1024 x float32, sum, ring)", stuck_ms, std::move(peers));
}

/// Another communicator of these two, by which the rank waits in a first allreduce for the other.
void enter_pair(RankPicture& rank, const char* label, std::uint64_t id, std::uint64_t stuck_ms, Rank other) {
  rank.state->communicators.push_back({id, label, 2, 1, "", 0, ""});
  is_in(rank, id, 1, "allreduce(1024 x float32, sum, ring)", stuck_ms, {awaits(other)});
}

TEST(HangVerdict, AHealthyJobIsFine) {
  JobPicture job = job_of(3);
  enter(job.ranks[0], 100, {awaits(1)});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::ok);
}

TEST(HangVerdict, OnlyTheOneThatNeverEnteredIsNamed) {
  JobPicture job = job_of(3);  // 0 waits for 1, 1 waits for 2, 2 is elsewhere
  enter(job.ranks[0], 9000, {awaits(1)});
  enter(job.ranks[1], 9000, {awaits(2)});
  job.ranks[2].state->idle_ms = 9100;
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_EQ(findings[0].where, "rank 2 (host host2, pid 102)");
  EXPECT_THAT(findings[0].what, HasSubstr("allreduce #7 on 'world'"));
  EXPECT_THAT(findings[0].what, HasSubstr("outside Fabring for 9.1 s"));
}

TEST(HangVerdict, ASilentRankIsDeadOrPartitionedAndNobodyElse) {
  JobPicture job = job_of(2);
  enter(job.ranks[0], 9000, {awaits(1)});
  job.ranks[1].answering = Answering::silent;
  job.ranks[1].silent_ms = 8000;
  job.ranks[1].state.reset();
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.silent");
  EXPECT_THAT(findings[0].what, HasSubstr("rank 0 waits for it"));
}

TEST(HangVerdict, ALinkThatDeliversNothingIsNamedWithBothEnds) {
  JobPicture job = job_of(3);
  enter(job.ranks[0], 9000, {{2, 4, 8, 3, 8, 1, true}});
  enter(job.ranks[1], 9000, {{0, 3, 8, 3, 8, 0, true}});
  enter(job.ranks[2], 9000, {{0, 5, 8, 8, 8, 3, false, 2}, {1, 0, 8, 0, 8, 0, true}});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u) << "1 waits for 0, and 2 for 1, which have sent nothing that is missing";
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_THAT(findings[0].where, StartsWith("rank 0 "));
  EXPECT_THAT(findings[0].what, HasSubstr("rank 2 (host host2, pid 102)"));
  EXPECT_THAT(findings[0].what, HasSubstr("3 of 8 received, 5 sent, 2 in flight there"));
}

TEST(HangVerdict, WhoOnlyHasReceivesThereIsNoLinkThatFails) {
  JobPicture job = job_of(3);  // from 0 to 1 nothing comes; 1 waits for room at 2, which waits for what 1 has not made
  enter(job.ranks[0], 9000, {{1, 3, 8, 0, 0, 1, true, 1}});
  enter(job.ranks[1], 9000, {{0, 0, 0, 3, 8, 4, true}, {2, 0, 8, 0, 0, 0, true}});
  enter(job.ranks[2], 9000, {{1, 0, 0, 0, 8, 18, true}});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u) << "the receives that 2 has posted are no messages on their way to 1";
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_THAT(findings[0].where, StartsWith("rank 1 "));
  EXPECT_THAT(findings[0].what, HasSubstr("messages of rank 0 (host host0, pid 100): 3 of 8 received, 3 sent, 1 in"));
}

TEST(HangVerdict, OfARowOverOperationsOnlyItsEndIsNamedAndOnce) {
  JobPicture job = job_of(3);  // 2 is late for a gather to 1; 0 has sent its part and waits in the next allreduce
  OperationState& gather = enter(job.ranks[1], 9000, {{2, 0, 0, 0, 1, 0, true}});
  gather.call = "gather(4 x float32, root 1, direct)";
  enter(job.ranks[0], 9000, {awaits(1), awaits(2)}).sequence = 8;
  job.ranks[0].state->communicators[0].called = 8;
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_EQ(findings[0].where, "rank 2 (host host2, pid 102)");
  EXPECT_THAT(findings[0].what,
              HasSubstr("it has not called gather #7 on 'world', in which rank 1 has waited for 9.0 s, "
                        "nor allreduce #8 on 'world' (rank 0);"));
}

TEST(HangVerdict, OfARowOverCommunicatorsOnlyItsEndIsNamed) {
  JobPicture job = job_of(3);  // 0 waits on A for 1, which waits on B for 2
  enter_pair(job.ranks[0], "A", 10, 9000, 1);
  enter_pair(job.ranks[1], "B", 11, 8900, 2);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 2 "));
  EXPECT_THAT(findings[0].what, HasSubstr("allreduce #1 on 'B'"));
}

TEST(HangVerdict, WhoHasWaitedForLessIsNotAccusedEither) {
  JobPicture job = job_of(3);
  enter_pair(job.ranks[0], "A", 10, 9000, 1);
  enter_pair(job.ranks[1], "B", 11, 2000, 2);  // not long enough to name 2, but nothing that 1 does
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.standing");
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_THAT(findings[0].what, HasSubstr("rank 1 (host host1, pid 101), which has not called it, has waited itself"));
}

// Of two that wait for each other one has waited for long enough a moment before the other.
TEST(HangVerdict, WhoHasNearlyWaitedForLongEnoughIsNotAccusedEither) {
  JobPicture job = job_of(2);
  enter_pair(job.ranks[0], "A", 10, 1004, 1);
  enter_pair(job.ranks[1], "B", 11, 996, 0);
  const Findings findings = judge(job, 1000);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.standing");
}

TEST(HangVerdict, WhoIsBusyElsewhereIsNamed) {
  JobPicture job = job_of(2);
  enter_pair(job.ranks[0], "A", 10, 9000, 1);
  enter_pair(job.ranks[1], "B", 11, 20, 0);  // in one operation after the other
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 1 "));
}

TEST(HangVerdict, CallsInOppositeOrderAreOneCircleWithBothSides) {
  JobPicture job = job_of(3);  // and 2 waits for one of them on 'world'
  enter_pair(job.ranks[0], "left", 10, 9000, 1);
  enter_pair(job.ranks[1], "right", 11, 9000, 0);
  enter(job.ranks[2], 9000, {awaits(0), awaits(1)});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.order");
  EXPECT_THAT(findings[0].what,
              HasSubstr("rank 0 (host host0, pid 100) has waited 9.0 s for rank 1, in allreduce #1 on "
                        "'left'; rank 1 (host host1, pid 101) has waited 9.0 s for rank 0, in "
                        "allreduce #1 on 'right'"));
}

TEST(HangVerdict, ACircleWithSomebodyBehindItWhoIsLateIsNone) {
  JobPicture job = job_of(3);  // 0 and 1 would get on once 2 has called 'world', which both have begun
  for (const Rank rank : {0, 1}) {
    RankPicture& one = job.ranks[static_cast<std::size_t>(rank)];
    enter_pair(one, rank == 0 ? "left" : "right", rank == 0 ? 10 : 11, 9000, 1 - rank);
    enter(one, 9000, {awaits(2)});
  }
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 2 "));
}

TEST(HangVerdict, DifferentCallsUnderOneNumberAreAMismatch) {
  JobPicture job = job_of(2);
  enter(job.ranks[0], 9000, {awaits(1)});
  enter(job.ranks[1], 9000, {awaits(0)}).call = "barrier(0 x float32, ring)";
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.mismatch");
  EXPECT_THAT(findings[0].what, HasSubstr("barrier"));
}

TEST(HangVerdict, ARankThatHasLeftIsNamedOnlyIfSomebodyWaitsForIt) {
  JobPicture job = job_of(2);
  job.ranks[1].answering = Answering::left;
  job.ranks[1].state.reset();
  EXPECT_EQ(judge(job, patience)[0].severity, Severity::ok);
  enter(job.ranks[0], 9000, {awaits(1)});
  EXPECT_EQ(judge(job, patience)[0].id, "hang.left");
}

TEST(HangVerdict, ADriverThatDoesNotComeRoundIsTheCause) {
  JobPicture job = job_of(2);
  enter(job.ranks[0], 9000, {awaits(1)});
  job.ranks[1].state->driver = Driver::unheard;
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.driver");
}

TEST(HangVerdict, ARankThatListsNotAllItsCommunicatorsIsNotBlamed) {
  JobPicture job = job_of(2);
  for (RankPicture& rank : job.ranks) rank.state->communicator_count = 30;
  OperationState& operation = enter(job.ranks[0], 9000, {awaits(1)});
  operation.communicator = 29;  // which rank 1 has too, and may have called
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.standing");
  EXPECT_THAT(findings[0].what, HasSubstr("whether rank 1 is in it is not known"));
  job.ranks[1].state->communicator_count = 1;  // it has no such communicator, so it has called nothing on it
  EXPECT_EQ(judge(job, patience)[0].id, "hang.never_entered");
}

TEST(HangVerdict, ARankThatListsNotAllItsOperationsIsNotDoneWithTheOthers) {
  JobPicture job = job_of(2);
  enter(job.ranks[0], 9000, {awaits(1)});
  enter(job.ranks[1], 9000, {}).communicator = 2;
  job.ranks[1].state->operation_count = 30;
  const Findings findings = judge(job, patience);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].id, "hang.standing");
  EXPECT_EQ(count(findings, Severity::critical), 0u) << findings[0].what;
}

TEST(HangVerdict, OperationsThatAreNotListedAreNotCalledFine) {
  JobPicture job = job_of(2);
  enter(job.ranks[0], 100, {awaits(1)});
  job.ranks[0].state->operation_count = 30;
  Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].id, "hang.unlisted");
  EXPECT_EQ(findings[1].severity, Severity::not_checked);
  EXPECT_THAT(findings[1].what, HasSubstr("30 operations under way and lists 1"));
  job.ranks[0].state->operations[0].phase = OperationPhase::queued;  // so all others are queued as well
  EXPECT_EQ(judge(job, patience).size(), 1u);
}

TEST(HangVerdict, ADriverThatIsBusyForAMomentIsNoCause) {
  JobPicture job = job_of(2);
  job.ranks[1].state->driver = Driver::unheard;
  EXPECT_EQ(judge(job, patience)[0].severity, Severity::info) << "nobody waits for it";
  enter(job.ranks[0], 900, {awaits(1)});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.driver");
  EXPECT_EQ(findings[0].severity, Severity::info) << "not for as long as --after";
  EXPECT_EQ(judge(job, 500)[0].severity, Severity::critical);
  const Findings held = judge(job, patience, {1});
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].severity, Severity::critical);
  EXPECT_THAT(held[0].what, HasSubstr("for 5.0 s now"));
}

TEST(HangVerdict, OnlyADriverOfWhichNothingEndsInBetweenIsHeld) {
  JobPicture before = job_of(5);
  for (RankPicture& rank : before.ranks) {
    rank.state->driver = Driver::unheard;
    rank.state->up_ms = 60'000;
    rank.state->idle_ms = 1000;
  }
  before.ranks[4].state->idle_ms = -1;
  JobPicture now = before;
  for (RankPicture& rank : now.ranks) rank.state->up_ms += 5000;
  now.ranks[0].state->idle_ms = 6001;
  now.ranks[1].state->idle_ms = 200;  // something of it has ended
  now.ranks[2].state->driver = Driver::thread;
  now.ranks[3].state.reset();
  EXPECT_EQ(held_since(before, now), (std::set<Rank>{0, 4}));
}

const Finding* finding(const Findings& all, std::string_view id) {
  for (const Finding& one : all)
    if (one.id == id) return &one;
  return nullptr;
}

/// Rank 2 of 4 died; 'world' was shrunk, and the others have a communicator of their own.
JobPicture shrunk_job() {
  JobPicture job = job_of(4);
  job.ranks[2].answering = Answering::unreachable;
  job.ranks[2].state.reset();
  for (RankPicture& rank : job.ranks) {
    if (!rank.state) continue;
    CommunicatorState& world = rank.state->communicators[0];
    world.failed = static_cast<std::uint8_t>(ErrorCode::peer_lost);
    world.failure = "rank 2 (host host2, pid 102) died";
    world.shrunk = true;
    rank.state->left_out = {2};
    rank.state->communicators.push_back({9, "world without rank 2", 3, 6, "", 0, ""});
  }
  return job;
}

TEST(HangVerdict, AJobThatWasShrunkAndGoesOnIsFine) {
  const Findings findings = judge(shrunk_job(), patience);
  for (const Finding& one : findings) EXPECT_LE(one.severity, Severity::info) << one.id << ": " << one.what;
  ASSERT_NE(finding(findings, "hang.shrunk"), nullptr);
  EXPECT_THAT(finding(findings, "hang.shrunk")->what, HasSubstr("'world' failed on ranks 0, 1 and 3 and was shrunk"));
  ASSERT_NE(finding(findings, "hang.left_out"), nullptr);
  EXPECT_EQ(finding(findings, "hang.left_out")->where, "rank 2 (host host2, pid 102)");
  ASSERT_NE(finding(findings, "hang.none"), nullptr);
  EXPECT_THAT(finding(findings, "hang.none")->what, HasSubstr("all 3 ranks"));
}

TEST(HangVerdict, WhatStandsStillAfterAShrinkIsSaid) {
  JobPicture job = shrunk_job();
  for (const Rank rank : {0, 1, 3})  // nothing is on its way
    enter(job.ranks[static_cast<std::size_t>(rank)], 9000, {{rank == 0 ? 1 : 0, 0, 8, 0, 8, 0, true}}).communicator = 9;
  const Findings findings = judge(job, patience);
  ASSERT_NE(finding(findings, "hang.standing"), nullptr);
  EXPECT_THAT(finding(findings, "hang.standing")->what, HasSubstr("'world without rank 2'"));
  EXPECT_EQ(finding(findings, "hang.none"), nullptr);
}

TEST(HangVerdict, AFailedCommunicatorThatOneRankHasNotShrunkIsSaidOfThatRank) {
  JobPicture job = shrunk_job();
  job.ranks[3].state->communicators[0].shrunk = false;
  const Findings findings = judge(job, patience);
  ASSERT_NE(finding(findings, "hang.lost"), nullptr);
  EXPECT_THAT(finding(findings, "hang.lost")->what, HasSubstr("has failed on rank 3:"));
}

TEST(HangVerdict, AllThatAreStoppedAreNamed) {
  JobPicture job = job_of(20);
  for (std::size_t rank = 1; rank < 13; ++rank) {
    job.ranks[rank].answering = Answering::stopped;
    job.ranks[rank].process = 'T';
    job.ranks[rank].state.reset();
  }
  std::string all;
  for (const Finding& one : judge(job, patience)) {
    EXPECT_EQ(one.id, "hang.stopped");
    EXPECT_EQ(one.severity, Severity::critical);
    all += one.where + "; " + one.what + "\n";
  }
  for (int rank = 1; rank < 9; ++rank) EXPECT_THAT(all, HasSubstr("rank " + std::to_string(rank) + " (host"));
  EXPECT_THAT(all, HasSubstr("the same of ranks 9-12"));
}

TEST(HangVerdict, WhatIsNotKnownIsNotFine) {
  JobPicture job = job_of(2);
  job.ranks[1].answering = Answering::unknown;
  job.ranks[1].state.reset();
  EXPECT_EQ(judge(job, patience)[0].severity, Severity::not_checked);
}

}  // namespace
}  // namespace fabring::tools
