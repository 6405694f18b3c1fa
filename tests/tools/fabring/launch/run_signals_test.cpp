// Signals to `fabring run`, and what its ranks ignore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <map>
#include <optional>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

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

// libinfinipath and libpsm2 else take over SIGINT and SIGTERM while libfabric loads them.
TEST(Run, RanksKeepTheirSignalsWhenLibfabricLoads) {
  const auto result = run({"run", "-n", "1", "--", "sh", "-c", "echo $IPATH_NO_BACKTRACE $HFI_NO_BACKTRACE"});
  EXPECT_EQ(result.out, "1 1\n");
}

}  // namespace
}  // namespace fabring::tests
