// `fabring run --hosts`: several hosts, which are this one behind a stand-in for ssh. As with sshd the other side lives
// in a session of its own and sees no more of the launcher's death than the end of its stdin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr const char* stand_in_for_ssh = R"(
host=$1
case $host in
  unknown) echo "ssh: Could not resolve hostname unknown: Name or service not known" >&2; exit 255;;
  refuses) echo "ssh: connect to host refuses port 22: Connection refused" >&2; exit 255;;
  bare)    set -- "$host" "exec /no/such/fabring agent";;
  older)   set -- "$host" "printf '\001fabring-agent 0.0.1\n'; cat";;
  chatty)  set -- "$host" "echo 'Welcome to chatty'; echo 'quota: 97%' >&2; $2";;
esac
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
exec 3<&0
setsid sh -c "$2" <&3 3<&- &
exec 3<&-
wait $!
)";

class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/fabring-hosts-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
    std::ofstream(folder / "ssh") << stand_in_for_ssh;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::vector<std::string> words(const std::string& hosts, const std::string& script,
                                 const std::vector<std::string>& options = {}) {
    std::vector<std::string> all{"run", "--hosts", hosts, "--ssh", "sh " + (folder / "ssh").string()};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "sh", "-c", script});
    return all;
  }
  ProgramResult on(const std::string& hosts, const std::string& script, const std::vector<std::string>& options = {},
                   const std::map<std::string, std::string>& environment = {}, const std::string& input = {}) {
    return run(words(hosts, script, options), environment, input);
  }

  // Pids that ranks printed, as "pids A B C"; waits until `ranks` of them have.
  static std::vector<pid_t> pids(Program& program, int ranks) {
    std::vector<pid_t> found;
    if (!program.wait_for_output("pids ", ranks) || !program.wait_for_output("\n", ranks)) return found;
    for (const std::string& line : lines(program.output())) {
      int a = 0, b = 0, c = 0;
      if (std::sscanf(line.c_str(), "pids %d %d %d", &a, &b, &c) == 3) found.insert(found.end(), {a, b, c});
    }
    return found;
  }

  std::filesystem::path folder;
};

TEST_F(Hosts, NumberRanksInBlocksAndMeetOnTheFirst) {
  const auto result = on("a:2,b:1,localhost:1",
                         "echo $FABRING_RANK $FABRING_LOCAL_RANK $FABRING_WORLD_SIZE; "
                         "echo at $FABRING_MASTER_ADDR $FABRING_MASTER_PORT $FABRING_JOB_ID");
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> ranks;
  std::set<std::string> places;
  for (const std::string& line : lines(result.out)) {
    if (line.starts_with("at "))
      places.insert(line);
    else
      ranks.push_back(line);
  }
  EXPECT_THAT(ranks, UnorderedElementsAre("0 0 4", "1 1 4", "2 0 4", "3 0 4"));
  ASSERT_EQ(places.size(), 1U);
  EXPECT_THAT(*places.begin(), testing::MatchesRegex("at 127.0.0.1 [0-9]+ run-[0-9a-f]+"));
}

TEST_F(Hosts, RunARealJob) {
  auto all = words("a:2,b:2", "");
  all.erase(all.end() - 4, all.end());
  for (const char* word : {"--", FABRING_CLI, "perf", "allreduce", "-b", "64K", "-e", "64K", "--format", "json"})
    all.emplace_back(word);
  const auto result = run(all);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"ranks\":4"), HasSubstr("\"wrong\":0")));
}

TEST_F(Hosts, ThisHostNeedsNoSsh) {
  const auto result = run({"run", "--hosts", "localhost:2", "--ssh", "/bin/false", "--", "sh", "-c", "echo here"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "here\nhere\n");
}

TEST_F(Hosts, ThisHostUnderTwoNamesIsRefused) {
  const auto result = on("localhost:1,b:1,127.0.0.1:1", "echo here");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("'localhost' and '127.0.0.1' both name this host"));
}

TEST_F(Hosts, AreReadFromAFileAndFewerRanksFillTheFirst) {
  std::ofstream(folder / "file") << "# two\na slots=2\nb:2\n";
  const auto result = run({"run", "--hostfile", (folder / "file").string(), "--ssh", "sh " + (folder / "ssh").string(),
                           "-n", "3", "--tag-output", "--", "sh", "-c", "echo $FABRING_LOCAL_RANK"});
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("[0] 0", "[1] 1", "[2] 0")) << result.err;
}

TEST_F(Hosts, TheFirstBadStatusIsReturnedWithRankAndHost) {
  const auto result = on("a:2,b:2", "test $FABRING_RANK = 2 && exit 7; exit 0");
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, ContainsRegex("rank 2 on host b \\(pid [0-9]+\\) exited with status 7"));
}

TEST_F(Hosts, ASignalOfARankOnTheSecondHostIsNamedAndTheOthersEnd) {
  const auto result = on("a:1,b:1",
                         "test $FABRING_RANK = 1 && kill -9 $$; trap 'echo told to end; exit 0' TERM; "
                         "while :; do sleep 0.01; done",
                         {"--grace", "50ms"});
  EXPECT_EQ(result.code, 137);
  EXPECT_EQ(result.out, "told to end\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1 on host b"), HasSubstr("was killed by signal 9"),
                                HasSubstr("1 of 2 ranks still run (0): terminating them")));
}

TEST_F(Hosts, KeepTheLinesOfManyRanksWhole) { expect_whole_lines(on("a:2,b:2", many_lines, {"--tag-output"}), 4); }

TEST_F(Hosts, KeepOutputAndErrorsApart) {
  const auto result = on("a,b", "echo out; echo err >&2");
  EXPECT_EQ(result.out, "out\nout\n");
  EXPECT_EQ(result.err, "err\nerr\n");
}

// Prints the rank's pid, that of a child, and that of the agent; and lives on, deaf to TERM.
constexpr const char* deaf = "trap '' TERM; sleep 1000 & echo pids $$ $! $PPID; while :; do sleep 0.1; done";

TEST_F(Hosts, NothingIsLeftAnywhereWhenTheLauncherIsKilled) {
  Program program(words("a:2,b:1,localhost:1", deaf));
  const auto all = pids(program, 4);
  ASSERT_EQ(all.size(), 12U);
  program.signal(SIGKILL);
  program.wait();
  for (pid_t pid : all) EXPECT_TRUE(is_gone_soon(pid)) << pid;
}

TEST_F(Hosts, WhatRanksLeaveBehindIsEndedEvenOutsideTheirGroup) {
  const auto result = on("a", "setsid sleep 1000 & echo $!");
  EXPECT_EQ(result.code, 0);
  ASSERT_FALSE(result.out.empty()) << result.err;
  EXPECT_TRUE(is_gone_soon(std::stoi(result.out)));
}

TEST_F(Hosts, AHostWhoseAgentDiesIsNamedAndItsRanksEnd) {
  Program program(words("a:1,b:1", deaf, {"--grace", "50ms"}));
  const auto all = pids(program, 2);
  ASSERT_EQ(all.size(), 6U);
  ::kill(all[5], SIGKILL);  // of whichever host
  const auto result = program.wait();
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, ContainsRegex("host [ab]: the connection ended.*its ranks are given up"));
  for (pid_t pid : all) EXPECT_TRUE(is_gone_soon(pid)) << pid;
}

TEST_F(Hosts, ASilentHostIsGivenUp) {
  Program program(words("a:1,b:1", deaf, {"--lost-after", "500ms", "--grace", "50ms"}));
  const auto all = pids(program, 2);
  ASSERT_EQ(all.size(), 6U);
  ::kill(all[2], SIGSTOP);
  const auto result = program.wait();
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, ContainsRegex("host [ab]: nothing was heard from it for 500 ms"));
  ::kill(all[2], SIGCONT);  // back, it finds its launcher gone
  for (pid_t pid : all) EXPECT_TRUE(is_gone_soon(pid)) << pid;
}

TEST_F(Hosts, ALauncherThatSaysNothingIsGivenUpToo) {
  Program program(words("a:1,b:1", deaf, {"--lost-after", "500ms"}));
  const auto all = pids(program, 2);
  ASSERT_EQ(all.size(), 6U);
  program.signal(SIGSTOP);  // its connections stay open, as behind a cut cable
  for (pid_t pid : all) EXPECT_TRUE(is_gone_soon(pid)) << pid;
  program.signal(SIGCONT);
  EXPECT_EQ(program.wait().code, 3);
}

TEST_F(Hosts, ASuspendedLauncherIsWaitedFor) {
  Program program(words("a:1", "echo $$ ready; while :; do sleep 0.05; done", {"--lost-after", "300ms"}));
  ASSERT_TRUE(program.wait_for_output("ready"));
  const pid_t rank = std::stoi(program.output());
  program.signal(SIGTSTP);
  // Longer than the limit: the only way to see that nothing happens.
  EXPECT_FALSE(is_gone_within(rank, std::chrono::milliseconds(900)));
  program.signal(SIGCONT);
  ::kill(rank, SIGTERM);
  EXPECT_EQ(program.wait().code, 143);
}

TEST_F(Hosts, AnInterruptReachesEveryRankAndASecondKills) {
  Program program(words("a:1,b:1", "trap 'echo ignored' INT; echo ready; while :; do sleep 0.01; done"));
  ASSERT_TRUE(program.wait_for_output("ready", 2));
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_for_output("ignored", 2));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 137);
}

TEST_F(Hosts, ThatCannotBeReachedAreAllNamedAndNothingStarts) {
  const auto result = on("unknown,a:1,refuses,bare,older", "echo started");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "");
  for (const char* part : {"host unknown: the name is unknown", "host refuses: nobody listens", "host bare: cannot run",
                           "host older: ", "is Fabring 0.0.1", "4 of 5 hosts cannot be used"})
    EXPECT_THAT(result.err, HasSubstr(part));
}

TEST_F(Hosts, WithoutAJobTheReportSaysWhy) {
  const auto error = [](const ProgramResult& result) -> std::string {
    return nlohmann::json::parse(lines(result.out).back())["error"];
  };
  EXPECT_THAT(error(on("a,unknown,refuses", "true", {"--json"})),
              AllOf(HasSubstr("host unknown: the name is unknown"), HasSubstr("host refuses: nobody listens"),
                    HasSubstr("2 of 3 hosts cannot be used")));
  EXPECT_THAT(
      error(run({"run", "--hosts", "a", "--ssh", "sh " + (folder / "ssh").string(), "--json", "--", "/no/such"})),
      HasSubstr("host a: "));
  EXPECT_EQ(error(on("a", "exit 3", {"--json"})), "") << "there was a job";
}

TEST_F(Hosts, MayPrintAtLogin) {
  const auto result = on("chatty", "echo $FABRING_RANK");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "0\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(Hosts, WithoutTheProgramAreNamedAndTheJobEndsAtOnce) {
  auto all = words("a,b", "");
  all.erase(all.end() - 2, all.end());
  all.back() = "/no/such/program";
  const auto result = run(all);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, ContainsRegex("host [ab]: rank [01]: cannot run '/no/such/program'"));
}

TEST_F(Hosts, GiveTheStandardInputToRank0Only) {
  const auto result = on("a:2,b:1", "cat; true", {"--tag-output"}, {}, "hello\n");
  EXPECT_EQ(result.out, "[0] hello\n") << result.err;
}

TEST_F(Hosts, PassOnMoreInputThanAnyPipeHolds) {
  std::ofstream(folder / "input") << std::string(3'000'000, 'x');
  const std::string launcher = std::string(FABRING_CLI) + " run --hosts a,b --ssh 'sh " + (folder / "ssh").string() +
                               "' -- sh -c 'sleep 0.05; wc -c' < " + (folder / "input").string();
  const auto result = run({"run", "-n", "1", "--", "sh", "-c", launcher});
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("3000000", "0")) << result.err;
}

TEST_F(Hosts, DropTheInputThatRank0DoesNotWant) {
  std::ofstream(folder / "input") << std::string(3'000'000, 'x');
  const std::string launcher = std::string(FABRING_CLI) + " run --hosts a --ssh 'sh " + (folder / "ssh").string() +
                               "' -- sh -c 'exec <&-; echo unread' < " + (folder / "input").string();
  EXPECT_EQ(run({"run", "-n", "1", "--", "sh", "-c", launcher}).out, "unread\n");
}

TEST_F(Hosts, EndWhenNobodyReadsTheOutput) {
  Program program(words("a,b", "while :; do echo more; done"));
  ASSERT_TRUE(program.wait_for_output("more"));
  program.close_output();
  EXPECT_EQ(program.wait().code, 128 + SIGPIPE);
}

TEST_F(Hosts, StartAgainUnderAnotherName) {
  const auto result = on("a,b", "echo $FABRING_JOB_ID; case $FABRING_JOB_ID in j.1) exit 0;; *) exit 4;; esac",
                         {"--job-id", "j", "--restarts", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("j", "j", "j.1", "j.1"));
}

TEST_F(Hosts, StandInTheReportOfTheJobAndRanksExplain) {
  const auto result =
      on("a:1,b:2", "echo $FABRING_EXPLAIN; test $FABRING_RANK != 2 || exit 6", {"--json", "--explain"});
  EXPECT_EQ(result.code, 6) << result.err;
  const auto printed = lines(result.out);
  ASSERT_EQ(printed.size(), 4u) << result.out;
  EXPECT_EQ(printed[0], "1");
  const auto report = nlohmann::json::parse(printed.back());
  EXPECT_EQ(report["first_failure"]["rank"], 2);
  EXPECT_EQ(report["hosts"][1]["host"], "b");
  EXPECT_EQ(report["hosts"][1]["first_rank"], 1);
  EXPECT_EQ(report["ranks"][2]["host"], "b");
  EXPECT_EQ(report["ranks"][2]["exit_code"], 6);
}

TEST_F(Hosts, AreNotAskedAgainForWhatTheyDoNotHave) {
  for (const char* host : {"bare", "older"}) {
    const auto result = on(host, "true", {"--restarts", "3"});
    EXPECT_EQ(result.code, 3) << host;
    EXPECT_THAT(result.err, Not(HasSubstr("again"))) << host;
  }
  auto missing = words("a,b", "", {"--restarts", "3"});
  missing.erase(missing.end() - 2, missing.end());
  missing.back() = "/no/such/program";
  EXPECT_THAT(run(missing).err, AllOf(HasSubstr("/no/such/program"), Not(HasSubstr("again"))));
  EXPECT_THAT(on("refuses", "true", {"--restarts", "1"}).err, HasSubstr("starting all ranks again (1 of 1 restarts)"))
      << "it may be back";
}

TEST_F(Hosts, GetFabringsVariablesAndThoseAskedFor) {
  const auto result = on("a", "echo $FABRING_LOG $ASKED $GIVEN", {"-x", "ASKED", "--env", "GIVEN=a b"},
                         {{"FABRING_LOG", "info"}, {"ASKED", "yes"}});
  EXPECT_EQ(result.out, "info yes a b\n") << result.err;
}

TEST_F(Hosts, RunInTheSameDirectoryOrTheOneNamed) {
  EXPECT_EQ(on("a", "pwd", {"--chdir", folder.string()}).out, folder.string() + "\n");
  const auto missing = on("a", "pwd", {"--chdir", "/no/such/directory"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err,
              AllOf(HasSubstr("host a: cannot enter the directory '/no/such/directory'"), HasSubstr("--chdir")));
}

TEST_F(Hosts, ThatDoNotAnswerWhenTheTimeIsUpAreNamedAndNotAskedAgain) {
  std::ofstream(folder / "ssh") << "exec sleep 60\n";
  const auto result = on("a:1,b:1", "true", {"--timeout", "200ms", "--restarts", "3"});
  EXPECT_EQ(result.code, 124) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("host a: no answer"), HasSubstr("host b: no answer")));
  EXPECT_EQ(result.err.find("the time is up"), result.err.rfind("the time is up")) << result.err;
  EXPECT_NE(result.err.find("the time is up (--timeout)"), std::string::npos) << result.err;
}

TEST_F(Hosts, GetTheSecretInAFileThatOnlyTheyCanReadAndThatVanishes) {
  std::ofstream(folder / "secret") << std::string(40, 's') << "\n";
  ::chmod((folder / "secret").c_str(), 0600);
  const std::map<std::string, std::string> secret{{"FABRING_SECRET_FILE", (folder / "secret").string()}};
  const auto result =
      on("a,b", "echo $FABRING_SECRET_FILE; cat $FABRING_SECRET_FILE; echo; stat -L -c %a $FABRING_SECRET_FILE", {},
         secret);
  EXPECT_EQ(result.code, 0) << result.err;
  int held = 0, modes = 0;
  for (const std::string& line : lines(result.out)) {
    if (line == std::string(40, 's')) ++held;
    if (line == "600") ++modes;
    if (line.starts_with("/")) {
      EXPECT_NE(line, (folder / "secret").string());
      EXPECT_FALSE(std::filesystem::exists(line)) << line;
    }
  }
  EXPECT_EQ(held, 2);
  EXPECT_EQ(modes, 2);
  ::chmod((folder / "secret").c_str(), 0644);
  const auto open = on("a", "true", {}, secret);
  EXPECT_EQ(open.code, 3);
  EXPECT_THAT(open.err, HasSubstr("chmod 600"));
}

TEST_F(Hosts, SayWhatIsWrongWithTheirUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--hosts", "a:0"}, "--hosts: 'a:0'"},
      {{"--hosts", "a:2,b", "-n", "5"}, "5 ranks, but only 3 slots"},
      {{"--hosts", "a", "--hostfile", "f"}, "--hosts"},
      {{"--hosts", "a", "--ssh", "ssh 'x"}, "--ssh"},
      {{"--hosts", "a", "-x", "FABRING_TEST_NOT_SET"}, "is not set here"},
      {{"--hosts", "a", "--lost-after", "soon"}, "--lost-after"},
      {{"--hosts", "a:2", "--split-nodes", "2"}, "--split-nodes"},
  };
  for (const auto& [options, expected] : cases) {
    std::vector<std::string> all{"run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "true"});
    const auto result = run(all);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

TEST_F(Hosts, TheAgentIsNotInTheHelp) { EXPECT_THAT(run({"--help"}).out, Not(HasSubstr("agent"))); }

}  // namespace
}  // namespace fabring::tests
