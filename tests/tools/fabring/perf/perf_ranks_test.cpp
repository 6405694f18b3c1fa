// Where the ranks of `fabring perf` come from, and what becomes of one that does not come or is killed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

TEST(PerfRun, APlaceInTheEnvironmentIsNotThatOfRanksItStarts) {
  for (const char* transport : {"tcp", "inproc"}) {
    const auto result = run({"perf", "barrier", "-n", "2", "--transport", transport, "-i", "1", "-w", "0"},
                            {{"FABRING_RANK", "7"}, {"FABRING_LOCAL_RANK", "-1"}});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("fabring perf: note: FABRING_RANK, FABRING_LOCAL_RANK of the environment are not "
                                      "passed on: every rank gets this job's own\n"));
  }
}

TEST(PerfRun, EveryRankOfAJobThatStartsRanksIsAJobOfItsOwn) {
  const std::vector<std::string> perf{FABRING_CLI, "perf", "barrier", "-n", "2", "-i", "1", "-w", "0"};
  const auto in_a_job_of = [&](const char* ranks) {
    std::vector<std::string> words{"run", "-n", ranks, "--"};
    words.insert(words.end(), perf.begin(), perf.end());
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(in_a_job_of("2"), HasSubstr("fabring perf: warning: this is a rank of a job of 2, and with -n each"));
  EXPECT_THAT(in_a_job_of("1"), testing::AllOf(testing::Not(HasSubstr("warning")), testing::Not(HasSubstr("note"))));
}

// Rank 1 dies when rank 0 has begun to write.
TEST(PerfRun, WhatIsWrittenOfAJobThatLosesARankIsStillJson) {
  const std::string pid_file = testing::TempDir() + "fabring-rank-1-" + std::to_string(::getpid());
  for (const auto& [words, rows] :
       std::vector<std::pair<std::string, std::size_t>>{{"allreduce --sizes 4,8,16M -i 20000", 2},
                                                        {"--model 4x1000000 -i 100000", 0},
                                                        {"--guard --sizes 4M --target-ms 60000 --cap-s 600", 0}}) {
    Program program(
        {"run", "-n", "2", "--", "sh", "-c",
         "test $FABRING_RANK = 0 || echo $$ > " + pid_file + "; exec " FABRING_CLI " perf --json " + words});
    ASSERT_TRUE(program.wait_for_output(rows > 0 ? "}" : "["));
    int pid = 0;
    ASSERT_TRUE(std::ifstream(pid_file) >> pid);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    const auto result = program.wait();
    EXPECT_EQ(result.code, 137) << words;
    EXPECT_THAT(result.err, HasSubstr("peer_lost")) << words;
    const auto list = nlohmann::ordered_json::parse(result.out, nullptr, false);
    ASSERT_TRUE(list.is_array()) << words << ": " << result.out;
    EXPECT_EQ(list.size(), rows) << words;
  }
  ::unlink(pid_file.c_str());
}

// Programs tell by it that there is nothing to read; of `fabring run` they ask what became of their own program.
TEST(PerfRun, ARankOfItsOwnThatIsKilledMeansThatItCouldNotRun) {
  Program program({"perf", "allreduce", "-n", "2", "--sizes", "4,8,16M", "-i", "20000", "--json"});
  ASSERT_TRUE(program.wait_for_output("}"));
  const std::string self = std::to_string(program.pid());
  std::ifstream children("/proc/" + self + "/task/" + self + "/children");
  int rank = 0;  // the last: first comes what outlives the command
  while (children >> rank) {
  }
  ASSERT_GT(rank, 0);
  ASSERT_EQ(::kill(rank, SIGKILL), 0);
  const auto result = program.wait();
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("was killed by signal 9"));
}

TEST(PerfRun, WhatIsInterruptedEndsByThatSignal) {
  Program program({"perf", "allreduce", "-n", "2", "--sizes", "4,8,16M", "-i", "20000", "--json"});
  ASSERT_TRUE(program.wait_for_output("}"));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
}

TEST(PerfRun, AJobOnSeveralNodesNamesBothOfItsTransports) {
  const auto result = run({"perf", "allreduce", "-n", "4", "--split-nodes", "2", "--transport", "shm,tcp", "--json",
                           "--sizes", "1K", "-i", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::ordered_json::parse(result.out)[0]["transport"], "shm+tcp");
}

TEST(PerfRun, RanksCanBeThreadsOfOneProcess) {
  const auto result = run({"perf", "allreduce", "-n", "3", "--transport", "inproc", "--json", "--sizes", "4,100000,1M",
                           "-i", "2", "-w", "1"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto list = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(list.size(), 3U);
  for (const auto& row : list) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["ranks"], 3);
    EXPECT_EQ(row["transport"], "inproc");
  }
}

TEST(PerfRun, RanksThatAreProcessesCannotBeInOne) {
  const auto result =
      run({"run", "-n", "2", "--", FABRING_CLI, "perf", "allreduce", "--transport", "inproc", "--sizes", "4"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, testing::AllOf(HasSubstr("threads of one process, and these are several processes"),
                                         testing::Not(HasSubstr("share memory"))));
  const auto second = run({"perf", "allreduce", "-n", "2", "--transport", "inproc,tcp", "--json", "--sizes", "4"});
  EXPECT_EQ(second.code, 2) << "inproc was dropped, and tcp measured";
  EXPECT_THAT(second.err, HasSubstr("inproc goes alone"));
}

TEST(PerfRun, ATimeoutNamesTheRankThatDoesNotCome) {
  const auto result =
      run({"perf", "allreduce", "--timeout", "0.5", "--sizes", "4"}, {{"FABRING_RANK", "0"},
                                                                      {"FABRING_WORLD_SIZE", "2"},
                                                                      {"FABRING_MASTER_ADDR", "127.0.0.1"},
                                                                      {"FABRING_MASTER_PORT", free_port()}});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("rank 1"));
}

TEST(PerfRun, PretendedNodesRunHierarchical) {
  const auto result = run({"perf", "allreduce", "-n", "4", "--split-nodes", "2", "--transport", "tcp", "--algorithm",
                           "hierarchical", "--sizes", "40000", "-i", "2", "-d", "bfloat16", "-o", "avg"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("4 ranks on 2 nodes, transport tcp"));
  EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK"));
}

TEST(PerfRun, WithoutMinusNTheEnvironmentSaysWhichRankThisIs) {
  const std::string port = free_port();
  const auto environment = [&](const char* rank) {
    return std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", rank}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  };
  const std::vector<std::string> arguments{"perf", "allreduce", "--transport", "tcp",      "--sizes",
                                           "1K",   "-i",        "2",           "--format", "csv"};
  Program second(arguments, environment("1"));
  const auto first = run(arguments, environment("0"));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(lines(first.out).size(), 2U);
  const auto other = second.wait();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.out, "");
}

}  // namespace
}  // namespace fabring::tests
