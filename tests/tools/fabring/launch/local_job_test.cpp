// The pure parts of `fabring run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/launch/job_output.hpp"
#include "tools/fabring/launch/job_supervisor.hpp"
#include "tools/fabring/launch/local_job.hpp"
#include "tools/fabring/launch/output_lines.hpp"

namespace fabring::tools {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Bindings, CoresAreSharedOutInNeighbouringBlocks) {
  EXPECT_THAT(core_bindings(Binding::core, 2, {{0}, {1}, {2}, {3}}, {}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(core_bindings(Binding::core, 3, {{4}, {5}, {6}, {7}}, {}),
              ElementsAre(ElementsAre(4), ElementsAre(5), ElementsAre(6, 7)));
}

TEST(Bindings, ThreadsOfACoreStayTogether) {
  const std::vector<std::vector<int>> cores{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_THAT(core_bindings(Binding::core, 2, cores, {}),
              ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
  EXPECT_THAT(core_bindings(Binding::core, 3, cores, {}),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 3, 6, 7)));
  EXPECT_THAT(core_bindings(Binding::core, 8, cores, {}),
              ElementsAre(ElementsAre(0), ElementsAre(4), ElementsAre(1), ElementsAre(5), ElementsAre(2),
                          ElementsAre(6), ElementsAre(3), ElementsAre(7)))
      << "more ranks than cores";
}

TEST(Bindings, MoreRanksThanProcessorsAreNotBound) {
  EXPECT_THAT(core_bindings(Binding::core, 3, {{0}, {1}}, {}), Each(IsEmpty()));
}

TEST(Bindings, NumaNodesAreSharedOutAndOneNodeIsNone) {
  EXPECT_THAT(core_bindings(Binding::numa, 3, {{0}, {1}, {2}, {3}}, {{0, 1}, {2, 3}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(core_bindings(Binding::numa, 2, {{0}, {1}}, {{0, 1, 2, 3}}), Each(IsEmpty()));
  EXPECT_THAT(core_bindings(Binding::numa, 2, {{0}, {1}}, {{0, 1}, {2, 3}}),
              Each(IsEmpty()));  // the other node is not ours
  EXPECT_THAT(core_bindings(Binding::none, 2, {{0}, {1}}, {{0}, {1}}), Each(IsEmpty()));
}

TEST(OutputLines, HoldsBackALineUntilItEnds) {
  OutputLines plain(3, {});
  EXPECT_EQ(plain.take("one"), "");
  EXPECT_EQ(plain.take(" and\ntwo"), "one and\n");
  EXPECT_EQ(plain.finish(), "two");
  OutputLines tagged(3, {.tag = true, .timestamp = false});
  EXPECT_EQ(tagged.take("a\nb\n\nc"), "[3] a\n[3] b\n[3] \n");
  EXPECT_EQ(tagged.finish(), "[3] c\n");
  EXPECT_EQ(tagged.finish(), "");
}

TEST(OutputLines, LetsAProgressBarThroughAndEndlessLinesInPieces) {
  OutputLines plain(0, {});
  EXPECT_EQ(plain.take("50%\r60"), "50%\r");
  OutputLines tagged(0, {.tag = true, .timestamp = false});
  const std::string endless(1 << 20, 'x');
  EXPECT_EQ(tagged.take(endless).size(), endless.size() + 5);
}

std::string read_some(int fd) {
  char bytes[65536];
  const ssize_t got = ::read(fd, bytes, sizeof bytes);
  return {bytes, got > 0 ? static_cast<std::size_t>(got) : 0};
}

TEST(JobOutput, KeepsTheOrderOfOutputAndErrorsThatGoToTheSamePlace) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor read(ends[0]), out(ends[1]), err(::dup(ends[1]));
  JobOutput output("run", 1, {}, out.fd(), err.fd());
  output.rank_printed(0, OutputStream::err, "first\n");
  output.rank_printed(0, OutputStream::out, "second\n");
  output.say("third");
  EXPECT_FALSE(output.flush());
  EXPECT_EQ(read_some(read.fd()), "first\nsecond\nfabring run: third\n");
}

TEST(JobOutput, HasNoRoomWhileItsReaderTakesNothingAndLosesNothing) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor read(ends[0]), out(ends[1]), err(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  JobOutput output("run", 1, {}, out.fd(), err.fd());
  const std::string line(999, 'x');
  std::size_t printed = 0, arrived = 0;
  for (; output.room(OutputStream::out); printed += line.size() + 1) {
    output.rank_printed(0, OutputStream::out, line + "\n");
    EXPECT_FALSE(output.flush());
  }
  EXPECT_TRUE(output.room(OutputStream::err));
  EXPECT_EQ(output.deadline(), JobOutput::Time::max()) << "as long as the job goes on it waits";
  while (arrived < printed) {
    arrived += read_some(read.fd()).size();
    EXPECT_FALSE(output.flush());
  }
  EXPECT_TRUE(output.empty());
  EXPECT_FALSE(output.dropped());
}

TEST(JobOutput, TellsOnceThatNobodyReadsAnyMore) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor out(ends[1]);
  ::close(ends[0]);
  auto* const before = ::signal(SIGPIPE, SIG_IGN);
  JobOutput output("run", 1, {}, out.fd(), out.fd());
  output.rank_printed(0, OutputStream::out, "first\n");
  EXPECT_EQ(output.flush(), EPIPE);
  output.say("second");
  EXPECT_FALSE(output.flush());
  EXPECT_TRUE(output.empty());
  ::signal(SIGPIPE, before);
}

// Three ranks on made-up time; what was signalled and said is kept.
class Supervision : public testing::Test {
 protected:
  using Time = JobSupervisor::Time;
  static constexpr Time start{};
  SupervisorOptions options() {
    SupervisorOptions options;
    options.ranks = 3;
    options.grace = std::chrono::seconds(10);
    options.term_grace = std::chrono::seconds(5);
    options.signal_all = [this](int number) { signals.push_back(number); };
    options.say = [this](const std::string& text) { said.push_back(text); };
    return options;
  }
  static Ending exit(int status) { return {status, 0}; }
  std::vector<int> signals;
  std::vector<std::string> said;
  JobSupervisor job{options()};
};

TEST_F(Supervision, AfterABadEndTheOthersGetAGraceThenTermThenKill) {
  job.ended(1, 77, exit(7), start);
  job.act_on_deadlines(start + std::chrono::seconds(1));
  EXPECT_EQ(job.code(), 7);
  EXPECT_THAT(said, ElementsAre("rank 1 (pid 77) exited with status 7"));
  job.act_on_deadlines(start + std::chrono::seconds(9));
  EXPECT_THAT(signals, IsEmpty());
  job.act_on_deadlines(start + std::chrono::seconds(10));
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGCONT));
  EXPECT_EQ(said.back(), "2 of 3 ranks still run (0, 2): terminating them");
  job.act_on_deadlines(start + std::chrono::seconds(15));
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGCONT, SIGKILL));
}

TEST_F(Supervision, TheFirstBadEndCounts) {
  job.ended(0, 5, exit(0), start);
  job.ended(2, 6, {0, SIGKILL}, start);
  job.ended(1, 7, exit(3), start);
  EXPECT_EQ(job.code(), 137);
  EXPECT_EQ(said.size(), 1U);
  EXPECT_EQ(job.running(), 0);
  job.act_on_deadlines(start + std::chrono::hours(1));
  EXPECT_THAT(signals, IsEmpty());  // nobody is left
}

TEST_F(Supervision, WhatSurvivorsExitWithWaitsForTheRankThatWasKilled) {
  job.ended(0, 5, exit(3), start);
  job.ended(1, 6, {0, SIGABRT}, start + std::chrono::milliseconds(1));
  EXPECT_THAT(said, IsEmpty());
  EXPECT_EQ(job.deadline(), start + std::chrono::milliseconds(250)) << "somebody must come back to it";
  job.ended(2, 7, {0, SIGKILL}, start + std::chrono::milliseconds(2));
  EXPECT_EQ(job.code(), 137);
  EXPECT_THAT(said, ElementsAre(testing::HasSubstr("rank 2 (pid 7) was killed"),
                                "rank 0 (pid 5) exited with status 3 just before that, perhaps because of it"));
}

TEST_F(Supervision, KnowsWhetherTheFirstWasKilled) {
  job.ended(0, 5, {0, SIGABRT}, start);
  EXPECT_FALSE(job.first_was_killed()) << "nobody is named yet";
  job.ended(1, 6, {0, SIGKILL}, start + std::chrono::milliseconds(2));
  EXPECT_TRUE(job.first_was_killed());
  JobSupervisor other(options());
  other.ended(0, 5, exit(3), start);
  other.act_on_deadlines(start + std::chrono::seconds(1));
  other.ended(1, 6, {0, SIGKILL}, start + std::chrono::seconds(2));
  EXPECT_FALSE(other.first_was_killed()) << "the first had exited";
}

TEST_F(Supervision, WhatSurvivorsExitWithWaitsForTheHostThatWasLost) {
  job.ended(0, 5, exit(4), start);
  job.lost({1, 2}, "host b: gone", 3, start);
  EXPECT_EQ(job.code(), 3);
  EXPECT_THAT(
      said, ElementsAre("host b: gone", "rank 0 (pid 5) exited with status 4 just before that, perhaps because of it"));
}

TEST_F(Supervision, OfRanksThatExitTheFirstIsNamedWhenNobodyElseIsLeftOrItsMomentIsOver) {
  job.ended(0, 5, exit(4), start);
  job.ended(2, 6, exit(3), start + std::chrono::milliseconds(1));
  job.act_on_deadlines(start + std::chrono::milliseconds(249));
  EXPECT_THAT(said, IsEmpty());
  job.ended(1, 7, exit(0), start + std::chrono::milliseconds(249));
  EXPECT_EQ(job.code(), 4);
  EXPECT_THAT(said, ElementsAre("rank 0 (pid 5) exited with status 4", "rank 2 (pid 6) exited with status 3"));
  EXPECT_THAT(signals, IsEmpty());
}

// The culprit may be slower to end than who has heard of it.
TEST_F(Supervision, EachExitCodeThatARankGivesItselfIsSaidOnce) {
  job.ended(0, 5, exit(1), start);
  job.act_on_deadlines(start + std::chrono::milliseconds(250));
  job.ended(2, 6, exit(1), start + std::chrono::milliseconds(300));
  job.ended(1, 7, exit(5), start + std::chrono::milliseconds(400));
  EXPECT_EQ(job.code(), 1);
  EXPECT_THAT(said, ElementsAre("rank 0 (pid 5) exited with status 1", "rank 1 (pid 7) exited with status 5"));
}

TEST_F(Supervision, ExitCodesOfRanksThatWereToldToEndAreNotSaid) {
  job.ended(0, 5, exit(1), start);
  job.act_on_deadlines(start + std::chrono::milliseconds(250));
  job.act_on_deadlines(start + std::chrono::minutes(1));
  EXPECT_THAT(signals, testing::Contains(SIGTERM));
  const std::size_t before = said.size();
  job.ended(1, 6, exit(143), start + std::chrono::minutes(1));
  job.ended(2, 7, {0, SIGTERM}, start + std::chrono::minutes(1));
  EXPECT_EQ(said.size(), before);
}

TEST_F(Supervision, ARankThatExitedBeforeASignalFromOutsideIsNamedNotThoseThatDieOfIt) {
  job.ended(0, 5, exit(4), start);
  job.interrupt(SIGINT);
  job.ended(1, 6, {0, SIGINT}, start + std::chrono::milliseconds(1));
  EXPECT_EQ(job.code(), 4);
  EXPECT_EQ(said.front(), "rank 0 (pid 5) exited with status 4");
}

TEST_F(Supervision, WhatIsGivenUpSaysWhyARankHadExited) {
  job.ended(0, 5, exit(4), start);
  EXPECT_FALSE(job.ended_for_good());
  job.give_up(141);
  EXPECT_TRUE(job.ended_for_good());
  EXPECT_EQ(job.code(), 4);
  EXPECT_THAT(said, ElementsAre("rank 0 (pid 5) exited with status 4"));
  EXPECT_THAT(signals, ElementsAre(SIGKILL));
}

// A job with a time of its own.
class SupervisionUntil : public Supervision {
 protected:
  JobSupervisor timed_job() {
    SupervisorOptions with = options();
    with.until = start + std::chrono::seconds(60);
    return JobSupervisor(with);
  }
};

TEST_F(SupervisionUntil, TheTimeIsUpTheRanksAreTerminatedThenKilled) {
  JobSupervisor timed = timed_job();
  EXPECT_EQ(timed.deadline(), start + std::chrono::seconds(60)) << "somebody must come back to it";
  timed.ended(0, 5, exit(0), start);
  timed.act_on_deadlines(start + std::chrono::seconds(59));
  EXPECT_THAT(signals, IsEmpty());
  timed.act_on_deadlines(start + std::chrono::seconds(60));
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGCONT));
  EXPECT_THAT(said, ElementsAre("the time is up (--timeout)", "2 of 3 ranks still run (1, 2): terminating them"));
  timed.ended(1, 6, {0, SIGTERM}, start + std::chrono::seconds(61));
  timed.act_on_deadlines(start + std::chrono::seconds(65));
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGCONT, SIGKILL));
  timed.ended(2, 7, {0, SIGKILL}, start + std::chrono::seconds(65));
  EXPECT_EQ(timed.code(), exit_timed_out);
  EXPECT_TRUE(timed.ended_for_good()) << "such a job is not started again";
}

TEST_F(SupervisionUntil, ABadEndBeforeItCountsAndItsGraceEndsWithTheTime) {
  JobSupervisor timed = timed_job();
  timed.ended(1, 77, exit(7), start + std::chrono::seconds(55));
  timed.act_on_deadlines(start + std::chrono::seconds(56));
  EXPECT_EQ(timed.deadline(), start + std::chrono::seconds(60));
  timed.act_on_deadlines(start + std::chrono::seconds(60));
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGCONT));
  EXPECT_EQ(timed.code(), 7);
}

TEST_F(SupervisionUntil, RanksThatAreDoneInTimeAreFine) {
  JobSupervisor timed = timed_job();
  for (int rank = 0; rank < 3; ++rank) timed.ended(rank, 5 + rank, exit(0), start);
  timed.act_on_deadlines(start + std::chrono::hours(1));
  EXPECT_EQ(timed.code(), 0);
  EXPECT_FALSE(timed.ended_for_good());
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(Supervision, LostRanksEndTheJobAndEveryLostHostIsNamed) {
  job.lost({0, 1}, "host a: gone", 3, start);
  job.lost({2}, "host b: gone", 3, start);
  EXPECT_EQ(job.code(), 3);
  EXPECT_EQ(job.running(), 0);
  EXPECT_THAT(said, ElementsAre("host a: gone", "host b: gone"));
}

TEST_F(Supervision, ASecondSignalKills) {
  job.interrupt(SIGINT);
  job.interrupt(SIGINT);
  EXPECT_THAT(signals, ElementsAre(SIGINT, SIGKILL));
  EXPECT_TRUE(job.interrupted());
  EXPECT_EQ(job.code(), 0);  // the ranks' ends say what it was
}

// As one that a library started: SIGCHLD goes to it, and is ignored.
class ThreadThatTakesChildSignals {
 public:
  ThreadThatTakesChildSignals() {
    ::pthread_sigmask(SIG_BLOCK, nullptr, &before_);
    thread_ = std::thread([this] {
      sigset_t child;
      ::sigemptyset(&child);
      ::sigaddset(&child, SIGCHLD);
      ::pthread_sigmask(SIG_UNBLOCK, &child, nullptr);
      std::uint64_t over = 0;
      while (::read(over_.fd(), &over, sizeof over) < 0) continue;
    });
  }
  ~ThreadThatTakesChildSignals() {
    const std::uint64_t one = 1;
    while (::write(over_.fd(), &one, sizeof one) < 0) continue;
    thread_.join();
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  const Descriptor over_{::eventfd(0, EFD_CLOEXEC)};
  std::thread thread_;
};

// What each rank leaves behind holds its output open, so only its end tells of its end.
TEST(LocalJob, EndsWithItsRanksAlsoWhereAnotherThreadTakesTheirSignals) {
  std::string folder = testing::TempDir() + "fabring-ends-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  JobOptions options;
  options.ranks = 8;
  options.command = {"sh", "-c", "(sleep 20; : > \"$0/too-late\") & exit 0", folder};
  for (int job = 0; job < 3; ++job) {  // now and then the last signal of a job is seen in time
    ThreadThatTakesChildSignals thread;
    const auto code = run_local_job(options, process_environment());
    ASSERT_TRUE(code.has_value()) << code.error().message();
    EXPECT_EQ(*code, 0);
    ASSERT_TRUE(std::filesystem::is_empty(folder)) << "the ends were seen only when the last output was closed";
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fabring::tools
