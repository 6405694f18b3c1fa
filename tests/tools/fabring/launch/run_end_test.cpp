// How a job of `fabring run` ends, and what is said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Run, ReturnsTheFirstBadStatusAndNamesTheRank) {
  const auto result = run({"run", "-n", "3", "--", "sh", "-c", "test $FABRING_RANK = 1 && exit 7; exit 0"});
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, testing::ContainsRegex("rank 1 \\(pid [0-9]+\\) exited with status 7"));
}

TEST(Run, ASignalIsNamedAndCountsAs128AndItsNumber) {
  const auto result = run({"run", "-n", "2", "--", "sh", "-c", "test $FABRING_RANK = 1 && kill -9 $$; exit 0"});
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1"), HasSubstr("was killed by signal 9 (Killed)")));
}

TEST(Run, ReportsTheJobAsJsonBehindWhatTheRanksPrint) {
  const auto result = run(
      {"run", "-n", "3", "--json", "--job-id", "j", "--", "sh", "-c",
       "echo printed; test $FABRING_RANK = 1 && exit 7; test $FABRING_RANK = 2 && { sleep 0.4; kill -9 $$; }; exit 0"});
  EXPECT_EQ(result.code, 7);
  const std::vector<std::string> printed = lines(result.out);
  ASSERT_EQ(printed.size(), 4u) << result.out;
  const auto report = nlohmann::json::parse(printed.back());
  EXPECT_EQ(report["job"], "j");
  EXPECT_EQ(report["exit_code"], 7);
  EXPECT_EQ(report["error"], "");
  EXPECT_EQ(report["attempts"], 1);
  EXPECT_EQ(report["first_failure"]["rank"], 1);
  EXPECT_THAT(report["first_failure"]["what"], HasSubstr("exited with status 7"));
  EXPECT_EQ(report["hosts"][0]["ranks"], 3);
  ASSERT_EQ(report["ranks"].size(), 3u);
  EXPECT_EQ(report["ranks"][0]["exit_code"], 0);
  EXPECT_EQ(report["ranks"][1]["exit_code"], 7);
  EXPECT_EQ(report["ranks"][1]["signal"], nullptr);
  EXPECT_EQ(report["ranks"][2]["exit_code"], 137);
  EXPECT_EQ(report["ranks"][2]["signal"], 9);
  EXPECT_EQ(report["ranks"][2]["host"], report["hosts"][0]["host"]);
}

TEST(Run, ItsReportIsALineOfItsOwnWhateverTheRanksPrintLast) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "2"}, std::vector<std::string>{"--hosts", "localhost:2"}})
    for (const char* last : {"nonl", "bar\\r", ""}) {
      std::vector<std::string> words{"run", "--json", "--", "printf", last};
      words.insert(words.begin() + 1, here.begin(), here.end());
      const auto result = run(words);
      ASSERT_EQ(result.code, 0) << result.err;
      EXPECT_EQ(nlohmann::json::parse(lines(result.out).back())["exit_code"], 0) << result.out;
      if (*last == '\0') {
        EXPECT_EQ(lines(result.out).size(), 1u) << result.out;
      }
    }
  EXPECT_EQ(run({"run", "-n", "1", "--", "printf", "nonl"}).out, "nonl") << "nothing follows";
}

TEST(Run, ASecretIsFoundFromAnotherDirectoryToo) {
  const std::string name = "secret_" + std::to_string(::getpid());
  std::ofstream(name) << "words";
  EXPECT_EQ(run({"run", "-n", "1", "--chdir", "/", "--", "sh", "-c", "cat $FABRING_SECRET_FILE"},
                {{"FABRING_SECRET_FILE", name}})
                .out,
            "words");
  std::remove(name.c_str());
}

TEST(Run, WritesTheReportToAFileAndLeavesStdoutToTheRanks) {
  const std::string file = testing::TempDir() + "report_" + std::to_string(::getpid());
  const auto result = run({"run", "-n", "1", "--output", file, "--", "echo", "printed"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "printed\n");
  std::ifstream in(file);
  const auto report = nlohmann::json::parse(in);
  EXPECT_EQ(report["exit_code"], 0);
  EXPECT_EQ(report["first_failure"], nullptr);
  std::remove(file.c_str());
  EXPECT_EQ(run({"run", "-n", "1", "--output", "/no/such/folder/x", "--", "echo", "printed"}).out, "") << "not started";
}

TEST(Run, AJobThatHadToBeStartedAgainIsAWarning) {
  const std::string mark = testing::TempDir() + "again_" + std::to_string(::getpid());
  for (const bool strict : {false, true}) {
    std::vector<std::string> words{"run", "-n", "1", "--restarts", "1"};
    if (strict) words.emplace_back("--strict");
    words.insert(words.end(), {"--", "sh", "-c", "test -e " + mark + " || { touch " + mark + "; exit 4; }"});
    const auto result = run(words);
    EXPECT_EQ(result.code, strict ? 1 : 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("fabring run: warning: ranks were started 2 times"));
    std::remove(mark.c_str());
  }
}

TEST(Run, TheOthersAreTerminatedAfterAGraceAndThenKilled) {
  const auto result = run({"run", "-n", "2", "--grace", "50ms", "--", "sh", "-c",
                           "trap 'echo told to end; exit 9' TERM; test $FABRING_RANK = 1 && exit 7; "
                           "while :; do sleep 0.01; done"});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.out, "told to end\n");
  EXPECT_THAT(result.err, HasSubstr("1 of 2 ranks still run (0): terminating them"));
}

TEST(Run, TheOthersMayEndByThemselvesWithinTheGrace) {
  const auto result = run({"run", "-n", "2", "--grace", "50s", "--", "sh", "-c",
                           "test $FABRING_RANK = 1 && exit 7; sleep 0.1; echo by myself; exit 3"});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.out, "by myself\n");
  EXPECT_THAT(result.err, testing::Not(HasSubstr("terminating")));
}

TEST(Run, KillsWhatRanksLeaveRunning) {
  const auto result = run({"run", "-n", "1", "--", "sh", "-c", "sleep 1000 & echo $!"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(is_gone_soon(std::stoi(result.out)));
}

// torchrun's workers have sessions of their own, and so has a daemon.
TEST(Run, KillsWhatRanksLeaveRunningOutsideTheirGroupToo) {
  const auto result =
      run({"run", "-n", "2", "--", "sh", "-c", "setsid sh -c 'sleep 1000 & echo $!; wait' & sleep 0.2"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto left = lines(result.out);
  ASSERT_EQ(left.size(), 2u) << result.out;
  for (const std::string& pid : left) EXPECT_TRUE(is_gone_soon(std::stoi(pid))) << pid;
}

TEST(Run, WhatAnAttemptLeavesBehindIsGoneBeforeTheNext) {
  const std::string file = testing::TempDir() + "stray_" + std::to_string(::getpid());
  const auto result = run({"run", "-n", "1", "--restarts", "1", "--", "sh", "-c",
                           "if test -e " + file + "; then kill -0 $(cat " + file +
                               ") && echo alive; exit 0; fi; setsid sleep 1000 >/dev/null 2>&1 & echo $! > " + file +
                               "; sleep 0.2; exit 4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "") << result.err;
  std::remove(file.c_str());
}

// `exec` in a script makes the script's children those of `fabring run`; they are none of its ranks'.
TEST(Run, LeavesAloneWhatWasRunningBeforeIt) {
  const std::string file = testing::TempDir() + "before_" + std::to_string(::getpid());
  const std::string inner = "sh -c 'sleep 1000 & echo $! > " + file + "; exec " FABRING_CLI " run -n 1 -- true'";
  const auto result =
      run({"run", "-n", "1", "--", "sh", "-c", inner + " && kill -0 $(cat " + file + ") && echo alive"});
  EXPECT_EQ(result.out, "alive\n") << result.err;
  std::remove(file.c_str());
}

TEST(Run, StartsAllRanksAgainUnderAnotherName) {
  const std::string script = "echo $FABRING_JOB_ID; case $FABRING_JOB_ID in j.2) exit 0;; *) exit 4;; esac";
  const auto enough = run({"run", "-n", "1", "--job-id", "j", "--restarts", "2", "--", "sh", "-c", script});
  EXPECT_EQ(enough.code, 0) << enough.err;
  EXPECT_EQ(enough.out, "j\nj.1\nj.2\n");
  EXPECT_EQ(run({"run", "-n", "1", "--job-id", "j", "--restarts", "1", "--", "sh", "-c", script}).code, 4);
}

TEST(Run, AJobThatWasGivenUpIsNotStartedAgain) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "1"}, std::vector<std::string>{"--hosts", "localhost:1"}}) {
    std::vector<std::string> words{"run", "--restarts", "3", "--", "sh", "-c", "while :; do echo more; done"};
    words.insert(words.begin() + 1, here.begin(), here.end());
    Program program(words);
    ASSERT_TRUE(program.wait_for_output("more"));
    program.close_output();
    const auto result = program.wait();
    EXPECT_EQ(result.code, 128 + SIGPIPE) << here.front();
    EXPECT_THAT(result.err, testing::Not(HasSubstr("again")));
  }
}

TEST(Run, AJobWhoseTimeIsUpIsTerminatedAndNotStartedAgain) {
  const auto result = run({"run", "-n", "2", "--timeout", "200ms", "--restarts", "3", "--", "sh", "-c",
                           "trap 'echo told to end; exit 0' TERM; while :; do sleep 0.01; done"});
  EXPECT_EQ(result.code, 124);
  EXPECT_EQ(result.out, "told to end\ntold to end\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("the time is up (--timeout)"), HasSubstr("terminating them")));
  EXPECT_EQ(run({"run", "-n", "2", "--timeout", "1h", "--", "sh", "-c", "exit 0"}).code, 0);
}

TEST(Run, AJobOfAgentsWhoseTimeIsUpIsTerminatedToo) {
  const auto result = run({"run", "--hosts", "localhost:2", "--timeout", "2s", "--", "sh", "-c",
                           "trap 'echo told to end; exit 0' TERM; while :; do sleep 0.01; done"});
  EXPECT_EQ(result.code, 124) << result.err;
  EXPECT_EQ(result.out, "told to end\ntold to end\n");
  EXPECT_THAT(result.err, HasSubstr("the time is up (--timeout)"));
}

// What ended it is no rank and no host.
TEST(Run, TheReportOfAJobWhoseTimeIsUpSaysSo) {
  for (const std::vector<std::string>& here : {std::vector<std::string>{"-n", "2"}, {"--hosts", "localhost:2"}}) {
    std::vector<std::string> words{"run", "--json", "--timeout", "2s"};
    words.insert(words.end(), here.begin(), here.end());
    words.insert(words.end(), {"--", "sleep", "60"});
    const auto result = run(words);
    EXPECT_EQ(result.code, 124) << result.err;
    const auto report = nlohmann::json::parse(lines(result.out).back());
    EXPECT_EQ(report["exit_code"], 124) << here.front();
    EXPECT_EQ(report["error"], "the time is up (--timeout)") << here.front();
    EXPECT_EQ(report["first_failure"], nullptr) << here.front();
  }
  const auto own = run({"run", "-n", "1", "--json", "--timeout", "1h", "--", "sh", "-c", "exit 124"});
  EXPECT_EQ(nlohmann::json::parse(lines(own.out).back())["error"], "") << "it was the rank's own";
}

}  // namespace
}  // namespace fabring::tests
