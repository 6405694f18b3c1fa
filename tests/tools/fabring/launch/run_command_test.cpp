#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(Run, GivesEachRankItsNumberAndAllTheSameMeetingPoint) {
  const auto result = run({"run", "-n", "3", "--", "sh", "-c",
                           "echo $FABRING_RANK $FABRING_LOCAL_RANK $FABRING_WORLD_SIZE; "
                           "echo at $FABRING_MASTER_ADDR $FABRING_MASTER_PORT $FABRING_JOB_ID"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> ranks;
  std::set<std::string> places;
  for (const std::string& line : lines(result.out)) {
    if (line.starts_with("at "))
      places.insert(line);
    else
      ranks.push_back(line);
  }
  EXPECT_THAT(ranks, UnorderedElementsAre("0 0 3", "1 1 3", "2 2 3"));
  ASSERT_EQ(places.size(), 1U);
  EXPECT_THAT(*places.begin(), testing::MatchesRegex("at 127.0.0.1 [0-9]+ run-[0-9a-f]+"));
}

TEST(Run, WhatALauncherAroundItNamedItIsNoRanks) {
  const auto result =
      run({"run", "-n", "1", "--", "sh", "-c",
           "echo ${RANK-none} ${MASTER_PORT-none} ${TORCHELASTIC_RUN_ID-none} ${GROUP_ID-none} $_FABRING_RUN"},
          {{"RANK", "3"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "x"}, {"GROUP_ID", "7"}});
  EXPECT_EQ(result.out, "none none none 7 0/1\n")
      << "the fourth is the program's own, the last says that they were removed, and who it is";
}

TEST(Run, TwoJobsDifferInPortAndName) {
  const std::vector<std::string> command{
      "run", "-np", "1", "--", "sh", "-c", "echo $FABRING_MASTER_PORT $FABRING_JOB_ID"};
  EXPECT_NE(run(command).out, run(command).out);
  EXPECT_EQ(run({"run", "-n", "1", "--job-id", "mine", "--", "sh", "-c", "echo $FABRING_JOB_ID"}).out, "mine\n");
}

TEST(Run, SplitsTheRanksIntoPretendedNodes) {
  const auto result =
      run({"run", "-n", "4", "--split-nodes", "2", "--tag-output", "--", "sh", "-c", "echo $FABRING_HOST_ID"});
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("[0] node0", "[1] node0", "[2] node1", "[3] node1"));
}

TEST(Run, ExplainIsASettingOfTheRanks) {
  EXPECT_EQ(run({"run", "-n", "1", "--explain", "--", "sh", "-c", "echo $FABRING_EXPLAIN"}).out, "1\n");
}

TEST(Run, KeepsTheLinesOfManyRanksWhole) {
  expect_whole_lines(run({"run", "-n", "3", "--tag-output", "--", "sh", "-c", many_lines}), 3);
}

TEST(Run, TimestampsAndTagsStandInFront) {
  const auto result =
      run({"run", "-n", "1", "--tag-output", "--timestamp-output", "--", "sh", "-c", "echo out; echo err >&2"});
  const std::string front = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9][0-9][0-9] \\[0\\] ";
  EXPECT_THAT(result.out, testing::MatchesRegex(front + "out\n"));
  EXPECT_THAT(result.err, testing::MatchesRegex(front + "err\n"));
}

TEST(Run, GivesTheStandardInputToRank0Only) {
  const auto result = run({"run", "-n", "2", "--tag-output", "--", "sh", "-c", "cat; true"}, {}, "hello\n");
  EXPECT_EQ(result.out, "[0] hello\n");
}

TEST(Run, EndsWhenNobodyReadsItsOutput) {
  Program program({"run", "-n", "2", "--", "sh", "-c", "while :; do echo more; done"});
  ASSERT_TRUE(program.wait_for_output("more"));
  program.close_output();
  EXPECT_NE(program.wait().code, 0);
}

TEST(Run, SaysWhatIsWrongWithItsUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"run", "--", "true"}, "-n"},
      {{"run", "-n", "0", "--", "true"}, "-n"},
      {{"run", "-n", "many", "--", "true"}, "many"},
      {{"run", "-n", "2"}, "which program?"},
      {{"run", "-n", "2", "--tag-outptu", "--", "true"}, "did you mean '--tag-output'?"},
      {{"run", "-n", "2", "--bind", "socket", "--", "true"}, "--bind"},
      {{"run", "-n", "2", "--split-nodes", "3", "--", "true"}, "--split-nodes 3"},
      {{"run", "-n", "2", "--grace", "soon", "--", "true"}, "--grace"},
      {{"run", "-n", "2", "--timeout", "soon", "--", "true"}, "--timeout"},
      {{"run", "-n", "2", "--lost-after", "5s", "--", "true"}, "--lost-after is for jobs on several hosts"},
      {{"run", "-n", "2", "--ssh", "ssh -p 22", "--", "true"}, "--ssh is for jobs on several hosts"},
      {{"rum"}, "did you mean 'run'?"},
      {{}, "subcommand"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
    EXPECT_EQ(result.out, "");
  }
}

TEST(Run, AProgramThatIsNotThereCannotRun) {
  for (const char* name : {"/no/such/program", "no-such-program-anywhere", "/etc/passwd"}) {
    const auto result = run({"run", "-n", "2", "--", name});
    EXPECT_EQ(result.code, 3) << name;
    EXPECT_THAT(result.err, HasSubstr(name));
  }
}

TEST(Run, HelpHasAnExample) {
  const auto result = run({"run", "--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("Example: fabring run"));
}

TEST(Run, SaysThatAScriptsInterpreterIsMissing) {
  const auto script = std::filesystem::temp_directory_path() / ("fabring-script-" + std::to_string(::getpid()));
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto result = run({"run", "-n", "1", "--", script.string()});
  std::filesystem::remove(script);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("cannot run '" + script.string()), HasSubstr("names as interpreter is not there")));
}

// On a full disk under the log a job would end without a word.
TEST(Run, SaysThatItsOutputCannotBeWritten) {
  const std::string cli = FABRING_CLI;
  const std::string here = cli + " run -n 2 -- sh -c 'echo more; sleep 60' > /dev/full";
  const std::string by_agents = cli + " run --hosts localhost:2 -- sh -c 'echo more; sleep 60' > /dev/full";
  for (const std::string& launcher : {here, by_agents}) {
    const auto result = run({"run", "-n", "1", "--", "sh", "-c", launcher});
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("what the ranks print cannot be written: No space left on device")) << launcher;
  }
}

// Three descriptors for each rank, where the soft limit leaves room for 20 ranks, the hard one for 340.
TEST(Run, TheLimitOnOpenFilesIsRaisedForTheLauncherNotForItsRanks) {
  const std::string cli = FABRING_CLI;
  for (const char* here : {"-n 40", "--hosts localhost:40"}) {
    const std::string job = " run " + std::string(here) + " -- sh -c 'ulimit -Sn'";
    const auto raised = run({"run", "-n", "1", "--", "sh", "-c", "ulimit -Sn 64; ulimit -Hn 1024; exec " + cli + job});
    EXPECT_EQ(raised.code, 0) << here << ": " << raised.err;
    const auto limits = lines(raised.out);
    EXPECT_EQ(limits.size(), 40u) << here;
    EXPECT_THAT(limits, testing::Each("64")) << here;
    const auto refused = run({"run", "-n", "1", "--", "sh", "-c", "ulimit -n 64; exec " + cli + job});
    EXPECT_EQ(refused.code, 3) << here;
    EXPECT_THAT(refused.err, HasSubstr("Too many open files; raise the limit on open files (ulimit -n)")) << here;
  }
}

TEST(Run, AListOfHostsThatIsAFolderIsNamed) {
  const auto result = run({"run", "--hostfile", testing::TempDir(), "--", "true"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr(testing::TempDir()), HasSubstr("Is a directory")));
}

}  // namespace
}  // namespace fabring::tests
