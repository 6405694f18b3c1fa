// What `fabring perf --explain` says of choices, and the machines by which they are made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

TEST(PerfRun, ModelsAndTheGuardExplainTheirChoicesToo) {
  const auto model = run({"perf", "--model", "3x1000", "-n", "2", "-i", "2", "-w", "0", "--explain", "--json"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_TRUE(nlohmann::json::accept(model.out));
  EXPECT_THAT(model.err, testing::AllOf(HasSubstr("allreduce of 12000 B over 2 ranks"), HasSubstr(" us predicted"),
                                        HasSubstr("allreduce of 4000 B over 2 ranks"),
                                        testing::ContainsRegex("one, in turn: predicted .* us, measured .* us")));
  const auto guard = run({"perf", "--guard", "-n", "2", "--sizes", "4", "--reps", "1", "--target-ms", "1", "--margin",
                          "1000", "--explain"});
  EXPECT_EQ(guard.code, 0) << guard.err;
  EXPECT_THAT(guard.err, testing::AllOf(HasSubstr("all_gather of 8 B over 2 ranks"), HasSubstr(" us predicted"),
                                        testing::ContainsRegex("0 B: barrier by .* predicted .* measured"),
                                        testing::ContainsRegex("of [0-9]+ predictions within 20%")));
  const auto told = lines(guard.err);
  EXPECT_EQ(std::ranges::count_if(told, [](const auto& line) { return line.starts_with("fabring perf:   fold "); }), 3)
      << "of allreduce, which is in two pairs, of reduce and of reduce_scatter";
  const auto quiet =
      run({"perf", "--guard", "-n", "2", "--sizes", "4", "--reps", "1", "--target-ms", "1", "--margin", "1000"});
  EXPECT_THAT(quiet.err, testing::Not(HasSubstr("predicted")));
}

TEST(PerfRun, ExplainsItsChoices) {
  const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "4", "-i", "1", "--explain",
                           "--format", "plain"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("fabring r0 info: transport tcp"));
  EXPECT_THAT(result.err, HasSubstr("4 B: "));
  EXPECT_THAT(result.err,
              testing::ContainsRegex("4 B: [a-z_]+ predicted [0-9.]+ us, measured [0-9.]+ us \\([0-9.]+x\\)"));
  EXPECT_THAT(result.err, testing::ContainsRegex("[01] of 1 predictions within 20% of what was measured"));
  EXPECT_EQ(lines(result.out).size(), 1U);
}

TEST(PerfRun, WhatTheEngineExplainsIsSaidOnceAndIsNoWarning) {
  for (const char* setting : {"no", "yes"}) {
    const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "4", "-i", "1"},
                            {{"FABRING_EXPLAIN", setting}});
    EXPECT_EQ(result.code, 0) << result.err;
    const std::string all = result.out + result.err;
    const std::size_t first = all.find("transport tcp: ");
    ASSERT_NE(first, std::string::npos) << all;
    EXPECT_EQ(all.find("transport tcp: ", first + 1), std::string::npos) << all;
    EXPECT_THAT(all, testing::Not(HasSubstr("warning")));
  }
}

TEST(PerfRun, SettingsOfATransportThatIsNotTakenAreSaidToHaveNoEffect) {
  const std::map<std::string, std::string> settings = {{"FABRING_CONGESTION_CONTROL", "reno"},
                                                       {"FABRING_SOCKETS_PER_PEER", "2"}};
  const auto perf_over = [&](const char* transport, const std::map<std::string, std::string>& environment) {
    const auto result =
        run({"perf", "allreduce", "-n", "2", "--transport", transport, "--sizes", "4", "-i", "1"}, environment);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  const bool has_fabric = std::string_view(FABRING_TEST_TRANSPORTS).ends_with("fabric");
  for (const char* transport : {"shm", has_fabric ? "fabric" : "shm"})
    EXPECT_THAT(perf_over(transport, settings),
                HasSubstr("no effect: FABRING_SOCKETS_PER_PEER=2, FABRING_CONGESTION_CONTROL=reno: only for the tcp"));
  EXPECT_THAT(perf_over("tcp", settings), testing::Not(HasSubstr("no effect")));
  EXPECT_THAT(perf_over("shm", {{"FABRING_CONGESTION_CONTROL", "auto"}}), testing::Not(HasSubstr("no effect")));
}

TEST(PerfRun, ProbesTheMachineAndPricesByIt) {
  const auto result =
      run({"perf", "allreduce", "-n", "3", "--sizes", "4,64K", "-i", "1", "--explain", "--format", "plain"},
          {{"FABRING_MACHINE", "probe"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, testing::ContainsRegex(
                              "priced for this machine, probed in [0-9]+ ms: [0-9]+ of [1-9][0-9]* times within"));
  EXPECT_EQ(lines(result.out).size(), 2U);
}

// On a busy machine the prices may be far off, which was said at level info only.
TEST(PerfRun, RankZeroWarnsWhereWhatWasProbedDoesNotFit) {
  const auto result = run({"perf", "allreduce", "-n", "3", "--sizes", "4", "-i", "1", "--explain", "--format", "plain"},
                          {{"FABRING_MACHINE", "probe"}});
  ASSERT_EQ(result.code, 0) << result.err;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.err, found,
                                std::regex("probed in \\d+ ms: (\\d+) of (\\d+) times within 20% of what was measured "
                                           "here, the worst (\\d+\\.\\d+) times off")))
      << result.err;
  const bool doubtful = 2 * std::stoi(found[1]) < std::stoi(found[2]) || std::stod(found[3]) > 5;
  std::vector<std::string> warnings;
  for (const std::string& line : lines(result.err))
    if (line.find("found prices that do not fit") != std::string::npos) warnings.push_back(line);
  EXPECT_EQ(warnings.size(), doubtful ? 1U : 0U) << result.err;
  if (!warnings.empty()) {
    EXPECT_THAT(warnings.front(), HasSubstr("fabring r0 warning: "));
  }
}

TEST(PerfRun, ProbesTheLinksBetweenNodes) {
  const auto result = run({"perf", "allreduce", "-n", "4", "--split-nodes", "2", "--sizes", "4,64K", "-i", "1",
                           "--explain", "--format", "plain"},
                          {{"FABRING_MACHINE", "probe"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, testing::ContainsRegex(
                              "this machine with links of [0-9.e+]+ Gbit/s, probed in [0-9]+ ms: [0-9]+ of [1-9]"));
  EXPECT_EQ(lines(result.out).size(), 2U);
}

TEST(PerfRun, TakesAMachineFromRankZerosFile) {
  const std::string path = testing::TempDir() + "fabring_machine_" + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << R"({"name": "an own one", "base": "100g", "call_ns": 12345678})";
  const auto result = run({"perf", "allreduce", "-n", "2", "--sizes", "4", "-i", "1", "--explain", "--format", "plain"},
                          {{"FABRING_MACHINE", path}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("priced for an own one"));
  EXPECT_THAT(result.err, testing::ContainsRegex("predicted 123[0-9.]+ us"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace fabring::tests
