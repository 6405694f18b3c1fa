// What `fabring status` prints of a job.

#include "tools/fabring/status/job_text.hpp"

#include <gmock/gmock.h>

#include "tests/tools/fabring/made_up_job.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;

TEST(JobText, SaysHowManyCommunicatorsItLeavesOut) {
  JobPicture job = job_of(1);
  job.ranks[0].state->communicator_count = 13;
  EXPECT_THAT(doing(job.ranks[0]), HasSubstr("and 12 more communicators"));
  job.ranks[0].state->communicator_count = 1;
  EXPECT_THAT(doing(job.ranks[0]), testing::Not(HasSubstr("more communicator")));
}

JobPicture large_job() {
  JobPicture job = job_of(40);
  job.ranks[5].state->communicators[0].failed = static_cast<std::uint8_t>(ErrorCode::peer_lost);
  job.ranks[5].state->communicators[0].failure = "rank 39 died";
  job.ranks[6].state->driver = Driver::unheard;
  job.ranks[6].state->operation_count = 3;
  job.ranks[7].state->leaving = true;
  return job;
}

TEST(JobText, OfALargeJobTellsFailuresWhoIsUnheardAndWhoLeaves) {
  const JobPicture job = large_job();
  const std::string text = job_text(job);
  EXPECT_THAT(text, HasSubstr("rank 5: 'world' has failed: rank 39 died"));
  EXPECT_THAT(text, HasSubstr("rank 6: in 3 operations; the thread that drives them does not come round"));
  EXPECT_THAT(text, HasSubstr("rank 7: leaving the job; 6 called on 'world'"));
  EXPECT_THAT(text, HasSubstr("ranks 0-4 and 8-39: outside Fabring; 6 called on 'world'"));
}

TEST(JobText, TellsWhatTheRankThatHoldsMostHolds) {
  JobPicture job = job_of(3);
  EXPECT_THAT(job_text(job), testing::Not(HasSubstr("memory of")));
  job.ranks[0].state->memory = MemoryAccount{.peers = 2, .posted = 1 << 20};
  job.ranks[1].state->memory = MemoryAccount{.peers = 2, .posted = 1 << 20, .scratch = 2 << 20};
  EXPECT_THAT(job_text(job),
              HasSubstr("memory of rank 1 (host host1, pid 101), which holds most: 3.0 MiB held; for 2\n"));
}

TEST(JobText, TellsHowManyStrangersCameAndToWhomMost) {
  JobPicture job = job_of(3);
  EXPECT_THAT(job_text(job), testing::Not(HasSubstr("strangers")));
  job.ranks[0].state->strangers = 2;
  job.ranks[2].state->strangers = 5;
  EXPECT_THAT(job_text(job), HasSubstr("  connections of strangers turned away: 7, of which 5 by rank 2 (host host2,"));
}

}  // namespace
}  // namespace fabring::tools
