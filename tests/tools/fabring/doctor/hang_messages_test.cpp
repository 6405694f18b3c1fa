// Why sends and receives stand still: both sides are named where they do not fit, else what is between them.

#include <gmock/gmock.h>

#include "tests/tools/fabring/made_up_job.hpp"
#include "tools/fabring/doctor/hang_verdict.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The rank is in a send or receive on 'world'. `sequence`: the two sides have met, or the send is announced.
OperationState& message(RankPicture& rank, const char* call, std::uint64_t stuck_ms, std::vector<PeerState> peers,
                        OperationPhase phase, std::uint32_t sequence) {
  return is_in(rank, 1, sequence, call, stuck_ms, std::move(peers), phase);
}

TEST(HangMessages, ThatDifferInTheirTagsAreNamedOnceWithBothSides) {
  JobPicture job = job_of(2);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 0, tag 2)", 8000, {awaits(0)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.mismatch");
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_THAT(findings[0].what, HasSubstr("tags differ"));
  EXPECT_THAT(findings[0].what, HasSubstr("to 1, tag 1)"));
  EXPECT_THAT(findings[0].what, HasSubstr("from 0, tag 2)"));
}

TEST(HangMessages, ThatHaveMetAndDoNotArriveAreALink) {
  JobPicture job = job_of(2);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {{1, 3, 8, 0, 0, 2, true, 2}}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 0, tag 1)", 8000, {{0, 0, 0, 1, 8, 1, true}}, running, 1);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_THAT(findings[0].where, StartsWith("rank 1 "));
  EXPECT_THAT(findings[0].what, HasSubstr("messages of rank 0 (host host0, pid 100): 1 of 8 received, 3 sent, 2 in"));
}

TEST(HangMessages, ASenderThatIsDoneWithWhatItsReceiverWaitsForIsALinkToo) {
  JobPicture job = job_of(2);
  message(job.ranks[1], "recv(1000000 x float32, from 0, tag 1)", 8000, {{0, 0, 0, 7, 8, 1, true}}, running, 5);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_THAT(findings[0].what, HasSubstr("7 of 8 received, and that rank is done with it"));
}

TEST(HangMessages, AnAnnouncementThatDoesNotComeIsALink) {
  JobPicture job = job_of(3);
  message(job.ranks[2], "send(1000000 x float32, to 1, tag 4)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from anybody, any tag)", 9500, {}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.link");
  EXPECT_THAT(findings[0].what, HasSubstr("to 1, tag 4) of rank 2"));
}

TEST(HangMessages, AReceiveFromAnybodyThatNobodyServesIsNotFine) {
  JobPicture job = job_of(3);
  message(job.ranks[0], "recv(4 x float32, from anybody, tag 3)", 9000, {}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.standing");
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_THAT(findings[0].what, HasSubstr("no rank that answered is in a send to it"));
}

TEST(HangMessages, AReceiveFromAnotherRankIsNoOtherSide) {
  JobPicture job = job_of(3);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 2, tag 1)", 100, {awaits(2)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 1 "));
}

TEST(HangMessages, OfAPipelineOnlyItsEndIsNamed) {
  JobPicture job = job_of(4);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "send(1000000 x float32, to 2, tag 1)", 9000, {awaits(2)}, running, 1);
  message(job.ranks[2], "recv(1000000 x float32, from 3, tag 1)", 9000, {awaits(3)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 3 "));
}

TEST(HangMessages, OfARankThatReceivesNothingOneMessageIsTold) {
  JobPicture job = job_of(3);
  message(job.ranks[0], "send(1000000 x float32, to 2, tag 1)", 9000, {awaits(2)}, running, 1);
  message(job.ranks[0], "send(1000000 x float32, to 2, tag 2)", 9000, {awaits(2)}, running, 2);
  message(job.ranks[1], "send(1000000 x float32, to 2, tag 1)", 9000, {awaits(2)}, running, 1);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].what, HasSubstr("nor the other side of 2 more messages that stand still"));
}

TEST(HangMessages, SendsInACircleNameAllThatAreInIt) {
  JobPicture job = job_of(3);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "send(1000000 x float32, to 0, tag 1)", 9000, {awaits(0)}, running, 1);
  message(job.ranks[2], "recv(1000000 x float32, from 0, tag 2)", 9000, {awaits(0)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u) << "2 waits for one of the circle, and is not in it";
  EXPECT_EQ(findings[0].id, "hang.order");
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_THAT(findings[0].what,
              HasSubstr("rank 0 (host host0, pid 100) has waited 9.0 s for rank 1, in send #1 on 'world'"));
  EXPECT_THAT(findings[0].what, HasSubstr("rank 1 (host host1, pid 101) has waited 9.0 s for rank 0"));
  EXPECT_THAT(findings[0].what, testing::Not(HasSubstr("rank 2")));
}

TEST(HangMessages, TheOtherSideThatWasCalledAMomentAgoIsNoCause) {
  JobPicture job = job_of(2);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 9000, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 0, any tag)", 10, {awaits(0)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.standing");
}

TEST(HangMessages, ASendThatHasMetAnotherReceiveIsNotTheOtherSide) {
  JobPicture job = job_of(2);  // the first of two receives has met the only send
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 100, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 0, tag 1)", 100, {awaits(0)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from 0, tag 1)", 9000, {awaits(0)}, waiting, 0);
  const Findings findings = judge(job, patience);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].id, "hang.never_entered");
  EXPECT_THAT(findings[0].where, StartsWith("rank 0 "));
}

TEST(HangMessages, WhatDoesNotStandStillIsFine) {
  JobPicture job = job_of(2);
  message(job.ranks[0], "send(1000000 x float32, to 1, tag 1)", 900, {awaits(1)}, running, 1);
  message(job.ranks[1], "recv(1000000 x float32, from anybody, tag 2)", 900, {}, waiting, 0);
  EXPECT_EQ(judge(job, patience)[0].severity, Severity::ok);
}

}  // namespace
}  // namespace fabring::tools
