// `fabring run` where nobody reads what it prints: its ranks, its limits of time and its signals do not wait for that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

// More than the pipes between hold: a launcher that waits for its own reader takes no more of it, and the rank stays in
// the middle of it.
const std::string much = "yes | head -c 300000; ";

TEST(Run, AJobWhoseOutputNobodyReadsEndsWhenItsTimeIsUp) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "2"}, std::vector<std::string>{"--hosts", "localhost:2"}}) {
    std::vector<std::string> words{"run", "--timeout", "2s", "--", "yes"};
    words.insert(words.begin() + 1, here.begin(), here.end());
    Program program(words);
    program.leave_output_unread();
    const auto result = program.wait();
    EXPECT_EQ(result.code, 124) << here.front();
    EXPECT_THAT(result.err, AllOf(HasSubstr("the time is up (--timeout)"),
                                  testing::ContainsRegex("nobody reads what the ranks print: [0-9]+ bytes of it")));
  }
}

// poll() calls a terminal writable that has little room left; a write that waits for its reader would hold up all else.
TEST(Run, AJobWhoseTerminalNobodyReadsEndsWhenItsTimeIsUp) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "1"}, std::vector<std::string>{"--hosts", "localhost:1"}}) {
    std::vector<std::string> words{"run", "--timeout", "2s", "--", "yes"};
    words.insert(words.begin() + 1, here.begin(), here.end());
    Program program(words, {}, {}, Program::Stdout::terminal);
    ASSERT_TRUE(program.wait_for_output("y", 1000));
    program.leave_output_unread();
    const auto result = program.wait();
    EXPECT_EQ(result.code, 124) << here.front();
    EXPECT_THAT(result.err, HasSubstr("nobody reads what the ranks print")) << here.front();
  }
}

TEST(Run, AJobWhoseOutputNobodyReadsEndsAtASignal) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "2"}, std::vector<std::string>{"--hosts", "localhost:2"}}) {
    std::vector<std::string> words{"run", "--", "sh", "-c", much + "echo ready >&2; exec yes"};
    words.insert(words.begin() + 1, here.begin(), here.end());
    Program program(words);
    program.leave_output_unread();
    ASSERT_TRUE(program.wait_for_errors("ready")) << here.front();
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait().code, 143) << here.front();
  }
}

TEST(Run, ASecondSignalKillsAlsoWhileNobodyReadsTheOutput) {
  Program program(
      {"run", "-n", "2", "--", "sh", "-c",
       "trap 'echo ignored >&2' INT; " + much + "echo ready $FABRING_RANK >&2; while :; do sleep 0.01; done"});
  program.leave_output_unread();
  ASSERT_TRUE(program.wait_for_errors("ready 0") && program.wait_for_errors("ready 1"));  // both have their trap
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_for_errors("ignored"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 137);
}

TEST(Run, ARankThatFailsIsNamedAndTheOthersEndAlsoWhileNobodyReadsTheOutput) {
  // Rank 1 fails once rank 0 has printed more than anybody takes.
  const std::string filled = testing::TempDir() + "fabring-filled-" + std::to_string(::getpid());
  Program program({"run", "-n", "2", "--grace", "50ms", "--", "sh", "-c",
                   "if test $FABRING_RANK = 1; then until test -e " + filled + "; do sleep 0.01; done; exit 7; fi; " +
                       much + "touch " + filled + "; exec yes"});
  program.leave_output_unread();
  ASSERT_TRUE(program.wait_for_errors("exited with status 7"));
  ASSERT_TRUE(program.wait_for_errors("1 of 2 ranks still run (0): terminating them"));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 7);
  std::filesystem::remove(filled);
}

TEST(Run, WhatItSaysItselfHoldsUpNothingEither) {
  Program program({"run", "-n", "1", "--timeout", "1s", "--", "sh", "-c", "exec yes >&2"});
  program.leave_output_unread();
  program.leave_errors_unread();
  EXPECT_EQ(program.wait().code, 124);
}

// Of the last mebibyte part is still in the rank's pipe when it ends, and its launcher takes no more for now.
TEST(Run, ASlowReaderGetsAllThatARankPrintedBeforeItsEnd) {
  constexpr std::size_t bytes = (1 << 20) + (112 << 10);
  Program program({"run", "-n", "1", "--", "sh", "-c", "yes | head -c " + std::to_string(bytes) + "; echo done >&2"});
  program.leave_output_unread();
  ASSERT_TRUE(program.wait_for_errors("done"));
  // Longer than what is given to what ranks leave behind: the only way to see that nothing happens.
  EXPECT_FALSE(is_gone_within(program.pid(), std::chrono::milliseconds(1300)));
  program.read_output_again();
  const auto result = program.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.size(), bytes);
}

}  // namespace
}  // namespace fabring::tests
