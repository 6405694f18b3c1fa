#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
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

TEST(Run, ExplainIsASettingOfTheRanks) {
  EXPECT_EQ(run({"run", "-n", "1", "--explain", "--", "sh", "-c", "echo $FABRING_EXPLAIN"}).out, "1\n");
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

TEST(Run, PassesATermOnAndReturnsWhatTheRanksMakeOfIt) {
  Program program(
      {"run", "-n", "2", "--", "sh", "-c", "trap 'echo ended; exit 0' TERM; echo ready; while :; do sleep 0.01; done"});
  ASSERT_TRUE(program.wait_for_output("ready", 2));
  program.signal(SIGTERM);
  const auto result = program.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ended\nended\n"));
}

TEST(Run, ASecondSignalKills) {
  Program program(
      {"run", "-n", "2", "--", "sh", "-c", "trap 'echo ignored' INT; echo ready; while :; do sleep 0.01; done"});
  ASSERT_TRUE(program.wait_for_output("ready", 2));
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_for_output("ignored", 2));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 137);
}

// As a shell or nohup starts a program: what is ignored stays so in what it runs.
class Ignored {
 public:
  explicit Ignored(std::initializer_list<int> numbers) {
    for (int number : numbers) before_[number] = ::signal(number, SIG_IGN);
  }
  ~Ignored() {
    for (const auto& [number, handler] : before_) ::signal(number, handler);
  }

 private:
  std::map<int, void (*)(int)> before_;
};

TEST(Run, AHangupUnderNohupEndsNothing) {
  const Ignored ignored({SIGHUP});
  Program program({"run", "-n", "2", "--", "sh", "-c",
                   "trap 'echo ended; exit 0' TERM; kill -HUP $$; echo ready; while :; do sleep 0.01; done"});
  ASSERT_TRUE(program.wait_for_output("ready", 2));
  program.signal(SIGHUP);
  program.signal(SIGTERM);  // the first that counts: it is passed on and does not kill
  const auto result = program.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ended\nended\n"));
}

TEST(Run, RanksIgnoreNothingThatAShellIgnoresInTheBackground) {
  std::optional<Program> program;
  {
    const Ignored ignored({SIGINT, SIGQUIT, SIGCHLD});
    program.emplace(std::vector<std::string>{
        "run", "-n", "1", "--", "sh", "-c",
        "grep SigIgn /proc/$$/status; trap 'exit 5' INT; echo ready; while :; do sleep 0.01; done"});
  }
  ASSERT_TRUE(program->wait_for_output("ready"));
  program->signal(SIGINT);
  const auto result = program->wait();
  unsigned long long still = ~0ULL;  // a bit for each
  ASSERT_EQ(std::sscanf(result.out.c_str(), "SigIgn: %llx", &still), 1) << result.out;
  for (int number : {SIGINT, SIGQUIT, SIGCHLD}) EXPECT_EQ(still >> (number - 1) & 1, 0U) << ::strsignal(number);
  EXPECT_EQ(result.code, 5) << "how it ended is known, although children's ends were ignored";
}

TEST(Run, LeavesNothingBehindWhenItIsKilledItself) {
  Program program({"run", "-n", "2", "--", "sh", "-c", "sleep 1000 & echo rank $$ child $!; wait"});
  ASSERT_TRUE(program.wait_for_output("child", 2));
  ASSERT_TRUE(program.wait_for_output("\n", 2));
  std::vector<pid_t> processes;
  for (const std::string& line : lines(program.output())) {
    int rank = 0, child = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "rank %d child %d", &rank, &child), 2) << line;
    processes.insert(processes.end(), {rank, child});
  }
  ASSERT_EQ(processes.size(), 4U);
  program.signal(SIGKILL);
  program.wait();
  for (pid_t pid : processes) EXPECT_TRUE(is_gone_soon(pid)) << pid;
}

TEST(Run, KillsWhatRanksLeaveRunning) {
  const auto result = run({"run", "-n", "1", "--", "sh", "-c", "sleep 1000 & echo $!"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(is_gone_soon(std::stoi(result.out)));
}

TEST(Run, StartsAllRanksAgainUnderAnotherName) {
  const std::string script = "echo $FABRING_JOB_ID; case $FABRING_JOB_ID in j.2) exit 0;; *) exit 4;; esac";
  const auto enough = run({"run", "-n", "1", "--job-id", "j", "--restarts", "2", "--", "sh", "-c", script});
  EXPECT_EQ(enough.code, 0) << enough.err;
  EXPECT_EQ(enough.out, "j\nj.1\nj.2\n");
  EXPECT_EQ(run({"run", "-n", "1", "--job-id", "j", "--restarts", "1", "--", "sh", "-c", script}).code, 4);
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

TEST(Run, PassesUserSignalsOnAndGoesOn) {
  for (const std::vector<std::string>& here :
       {std::vector<std::string>{"-n", "2"}, std::vector<std::string>{"--hosts", "localhost:2"}}) {
    std::vector<std::string> words{"run", "--", "sh", "-c",
                                   "trap 'echo one' USR1; trap 'echo two; exit 5' USR2; trap 'echo told to end' TERM; "
                                   "echo ready; while :; do sleep 0.01; done"};
    words.insert(words.begin() + 1, here.begin(), here.end());
    Program program(words);
    ASSERT_TRUE(program.wait_for_output("ready", 2)) << here.front();
    program.signal(SIGUSR1);
    ASSERT_TRUE(program.wait_for_output("one", 2)) << here.front();
    program.signal(SIGTERM);  // the first that counts: it does not kill
    ASSERT_TRUE(program.wait_for_output("told to end", 2)) << here.front();
    program.signal(SIGUSR2);
    EXPECT_EQ(program.wait().code, 5) << here.front();
  }
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

TEST(Run, TakesTheOptionsOfHorovodrun) {
  const auto result = run({"run",
                           "-np",
                           "2",
                           "-H",
                           "localhost:2",
                           "--verbose",
                           "--gloo",
                           "--start-timeout",
                           "30",
                           "--cycle-time-ms",
                           "5",
                           "--fusion-threshold-mb",
                           "32",
                           "--network-interfaces",
                           "lo",
                           "--timeline-filename",
                           "/t.json",
                           "--timeline-mark-cycles",
                           "--stall-check-warning-time-seconds",
                           "5",
                           "--stall-check-shutdown-time-seconds=0",
                           "sh",
                           "-c",
                           "echo $FABRING_RANK $FABRING_LOG $FABRING_RENDEZVOUS_TIMEOUT $FABRING_INTERFACE "
                           "$HOROVOD_FUSION_THRESHOLD $HOROVOD_TIMELINE $HOROVOD_TIMELINE_MARK_CYCLES "
                           "$HOROVOD_STALL_CHECK_TIME_SECONDS $HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre("0 info 30s lo 33554432 /t.json 1 5 0", "1 info 30s lo 33554432 /t.json 1 5 0"));
  EXPECT_THAT(result.err, HasSubstr("--gloo, --cycle-time-ms: no meaning here, ignored"));
}

TEST(Run, TheWordsOfOtherLaunchersAreItsOwnOnlyBeforeTheProgram) {
  for (const char* ranks : {"--np=2", "--num-proc=2", "-np=2"})
    EXPECT_EQ(run({"run", ranks, "echo", "ran"}).out, "ran\nran\n") << ranks;
  const auto dashes = run({"run", "--num-proc", "1", "--", "echo", "-np", "--np=3", "-hostfile"});
  EXPECT_EQ(dashes.out, "-np --np=3 -hostfile\n") << dashes.err;
  const auto none = run({"run", "-np", "1", "echo", "-np", "4", "--num-proc=3", "-hostfile", "F"});
  EXPECT_EQ(none.out, "-np 4 --num-proc=3 -hostfile F\n") << none.err;
}

TEST(Run, AVariableIsOneWordAndTheProgramFollows) {
  EXPECT_EQ(run({"run", "-n", "1", "-x", "A=1", "sh", "-c", "echo $A"}).out, "1\n");
  const auto options =
      run({"run", "-np", "2", "-x", "A=1", "--env", "B=2", "sh", "-c", "echo $A $B $@", "sh", "--option"});
  EXPECT_EQ(options.out, "1 2 --option\n1 2 --option\n") << options.err;
  EXPECT_EQ(run({"run", "-n", "1", "-x", "A=[b,c]", "sh", "-c", "echo $A"}).out, "[b,c]\n");
  EXPECT_THAT(lines(run({"run", "-n", "1", "-x", "[A=b,C=d]", "env"}).out), testing::Contains("[A=b,C=d]"));
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

// libinfinipath and libpsm2 else take over SIGINT and SIGTERM while libfabric loads them.
TEST(Run, RanksKeepTheirSignalsWhenLibfabricLoads) {
  const auto result = run({"run", "-n", "1", "--", "sh", "-c", "echo $IPATH_NO_BACKTRACE $HFI_NO_BACKTRACE"});
  EXPECT_EQ(result.out, "1 1\n");
}

TEST(Run, AListOfHostsThatIsAFolderIsNamed) {
  const auto result = run({"run", "--hostfile", testing::TempDir(), "--", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(testing::TempDir()), HasSubstr("Is a directory")));
}

TEST(Run, SaysWhyItTakesNoElasticOptions) {
  const auto result = run({"run", "-np", "2", "--min-np", "1", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--min-np"), HasSubstr("--restarts")));
}

// Every option of horovodrun 0.28.1 but those of the tests around, each before a program that says whether it runs.
TEST(Run, KnowsEveryOptionOfHorovodrun) {
  using Words = std::vector<std::string>;
  const auto run_with = [](Words words) {
    words.insert(words.begin(), {"run", "-n", "1"});
    words.insert(words.end(), {"sh", "-c", "echo ran"});
    return run(words);
  };
  for (const Words& taken : {Words{"-prefix-timestamp"},
                             {"--prefix-output-with-timestamp"},
                             {"--verbose"},
                             {"--log-level", "WARNING"},
                             {"-p", "22"},
                             {"-i", "key"},
                             {"--network-interface", "lo"}}) {
    const auto result = run_with(taken);
    EXPECT_THAT(result.out, HasSubstr("ran")) << taken[0] << ": " << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("no meaning"))) << taken[0];
  }
  for (const Words& noted : {Words{"--jsrun"},
                             {"--tcp"},
                             {"--mpi-args", "x"},
                             {"--binding-args", "x"},
                             {"--num-nccl-streams", "1"},
                             {"--thread-affinity", "0"},
                             {"--gloo-timeout-seconds", "30"},
                             {"--cache-capacity", "1024"},
                             {"--disable-cache"},
                             {"--autotune"},
                             {"--no-autotune"},
                             {"--autotune-log-file", "f"},
                             {"--autotune-warmup-samples", "3"},
                             {"--autotune-steps-per-sample", "10"},
                             {"--autotune-bayes-opt-max-samples", "20"},
                             {"--autotune-gaussian-process-noise", "0.8"},
                             {"--hierarchical-allreduce"},
                             {"--no-hierarchical-allreduce"},
                             {"--hierarchical-allgather"},
                             {"--no-hierarchical-allgather"},
                             {"--no-timeline-mark-cycles"},
                             {"--no-stall-check"},
                             {"--stall-check"},
                             {"--mpi-threads-disable"},
                             {"--no-mpi-threads-disable"},
                             {"--log-with-timestamp"},
                             {"--log-without-timestamp"},
                             {"--log-hide-timestamp"},
                             {"--no-log-hide-timestamp"}}) {
    const auto result = run_with(noted);
    EXPECT_EQ(result.out, "ran\n") << noted[0] << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(noted[0] + ": no meaning here, ignored"));
  }
  const std::pair<Words, const char*> refused[] = {
      {{"--output-filename", "d"}, "--tag-output"},    {{"--config-file", "f"}, "-x NAME=VALUE"},
      {{"--check-build"}, "fabring doctor"},           {{"-cb"}, "fabring doctor"},
      {{"--max-num-proc", "4"}, "--restarts"},         {{"--blacklist-cooldown-range", "1", "2"}, "--restarts"},
      {{"--host-discovery-script", "s"}, "--restarts"}};
  for (const auto& [words, instead] : refused) {
    const auto result = run_with(words);
    EXPECT_EQ(result.code, 2) << words[0];
    EXPECT_THAT(result.out, Not(HasSubstr("ran")));
    EXPECT_THAT(result.err, HasSubstr(instead)) << words[0];
  }
  EXPECT_THAT(run({"run", "-cb"}).err, HasSubstr("--check-build: there is one build"));  // it needs no program
}

TEST(Run, AWordOfHorovodrunThatIsWrongIsNamed) {
  EXPECT_THAT(run({"run", "-np", "1", "--log-level", "LOUD", "true"}).err, HasSubstr("--log-level LOUD is none of"));
}

}  // namespace
}  // namespace fabring::tests
