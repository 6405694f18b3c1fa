// Why a job stands still, from pictures made by hand: the cause is named, and nobody who is only waiting.

#include "tools/fabring/hang_verdict.hpp"

#include <gmock/gmock.h>

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t patience = 5000;

JobPicture job_of(int ranks) {
  JobPicture job;
  for (Rank rank = 0; rank < ranks; ++rank) {
    RankPicture one;
    one.rank = rank;
    one.host = "host" + std::to_string(rank);
    one.pid = 100 + rank;
    one.answering = Answering::answered;
    one.state = RankState();
    one.state->rank = rank;
    one.state->world = ranks;
    one.state->communicators.push_back(
        {1, "world", static_cast<std::uint32_t>(ranks), 6, "allreduce(4 x float32, sum, ring)", 0, ""});
    job.ranks.push_back(one);
  }
  return job;
}

/// The rank is in the next allreduce, in which nothing has moved for `stuck_ms`.
OperationState& enter(RankPicture& rank, std::uint64_t stuck_ms, std::vector<PeerState> peers) {
  rank.state->communicators[0].called = 7;
  OperationState operation;
  operation.communicator = 1;
  operation.sequence = 7;
  operation.call = "allreduce(1024 x float32, sum, ring)";
  operation.phase = OperationPhase::running;
  operation.begun_ms = operation.stuck_ms = stuck_ms;
  operation.peers = std::move(peers);
  rank.state->operations.push_back(operation);
  return rank.state->operations.back();
}

PeerState awaits(Rank rank) { return {rank, 0, 8, 0, 8, 1, true}; }

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
  enter(job.ranks[2], 9000, {{0, 5, 8, 8, 8, 2, false}, {1, 0, 8, 0, 8, 0, true}});
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u) << "1 waits for 0, and 2 for 1, which have sent nothing that is missing";
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_THAT(findings[0].where, StartsWith("rank 0 "));
  EXPECT_THAT(findings[0].what, HasSubstr("rank 2 (host host2, pid 102)"));
  EXPECT_THAT(findings[0].what, HasSubstr("3 of 8 received, 5 sent, 2 in flight there"));
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

TEST(HangVerdict, WhatIsNotKnownIsNotFine) {
  JobPicture job = job_of(2);
  job.ranks[1].answering = Answering::unknown;
  job.ranks[1].state.reset();
  EXPECT_EQ(judge(job, patience)[0].severity, Severity::not_checked);
}

}  // namespace
}  // namespace fabring::tools
