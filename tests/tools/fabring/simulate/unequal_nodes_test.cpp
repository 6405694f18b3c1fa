// `fabring simulate --nodes 8,8,1`: worlds whose nodes have unequal numbers of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "simulation/simulate.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tests/tools/fabring/scratch.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const nlohmann::json unequal = {8, 8, 1};

nlohmann::json rows_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"simulate", "allreduce"});
  words.emplace_back("--json");
  const auto result = run(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

TEST(UnequalNodes, AreSimulatedAsTheyAre) {
  const auto rows = rows_of({"--nodes", "8,8,1", "--sizes", "1M", "--algorithm", "hierarchical,ring"});
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_EQ(row["nodes"], 3);
    EXPECT_EQ(row["ranks"], 17);
    EXPECT_EQ(row["ranks_of_nodes"], unequal);
    EXPECT_EQ(row["ranks_simulated"], 17) << "none stands for others";
    PlanRequest request;
    request.algorithm = *parse_algorithm(row["algorithm"].get<std::string>());
    request.node_of = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2};
    const Machine machine = *find_machine("100g");
    const auto schedule = simulation::make_schedule(request, simulation::options_for(machine));
    ASSERT_TRUE(schedule);
    const auto outcome = simulation::simulate(*schedule, machine, {.bytes = 1 << 20});
    ASSERT_TRUE(outcome);
    EXPECT_DOUBLE_EQ(row["time_us"], static_cast<double>(outcome->time_ns) / 1e3);
  }
  const auto table =
      run({"simulate", "allreduce", "--nodes", "8,8,1", "--sizes", "1M", "--algorithm", "ring", "--explain"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("allreduce, 3 nodes of 8, 8, 1 ranks (17 in all) on 100g"),
                               HasSubstr("over 17 ranks on 3 nodes")));
}

TEST(UnequalNodes, AListOfEqualOnesIsTheirNumber) {
  const std::vector<std::string> what{"--sizes", "64K", "--algorithm", "ring,hierarchical"};
  auto listed = what, counted = what;
  listed.insert(listed.end(), {"--nodes", "4,4"});
  counted.insert(counted.end(), {"--nodes", "2", "--ranks-per-node", "4"});
  const auto rows = rows_of(listed);
  EXPECT_EQ(rows, rows_of(counted));
  EXPECT_FALSE(rows[0].contains("ranks_of_nodes"));
}

TEST(UnequalNodes, ManyAreNamedByTheirLeastAndMost) {
  std::string nodes = "1";
  for (int i = 0; i < 8; ++i) nodes += ",2";
  EXPECT_THAT(run({"simulate", "barrier", "--nodes", nodes}).out,
              HasSubstr("barrier, 9 nodes of 1 to 2 ranks (17 in all) on"));
}

TEST(UnequalNodes, ArePicturedToo) {
  const Scratch plot, links;
  const auto result = run({"simulate", "allreduce", "--nodes", "2,2,1", "--sizes", "1K,1M", "--algorithm", "ring",
                           "--plot", plot.path(), "--links", links.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(plot.text(), HasSubstr("allreduce, 3 nodes of 2, 2, 1 ranks (5 in all) on 100g"));
  EXPECT_THAT(links.text(), AllOf(HasSubstr("3 nodes of 2, 2, 1 ranks"), HasSubstr("ring: busiest node 1.6 MiB")))
      << "2 (n-1)/n of a vector pass each of a ring's links";
}

TEST(UnequalNodes, TrainingScalesOverTheFirstOfThem) {
  const std::vector<std::string> what{"--model", "resnet50", "--compute-ms", "120",
                                      "--nodes", "8,8,1",    "--algorithm",  "ring"};
  const auto rows = rows_of(what);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["ranks"], 8);
  EXPECT_EQ(rows[1]["ranks"], 16);
  EXPECT_EQ(rows[2]["ranks"], 17);
  EXPECT_FALSE(rows[1].contains("ranks_of_nodes"));
  EXPECT_EQ(rows[2]["ranks_of_nodes"], unequal);
  auto words = what;
  words.insert(words.begin(), "simulate");
  EXPECT_THAT(run(words).out, HasSubstr("3 nodes of 8, 8, 1 ranks (17 in all) on 100g"));
}

TEST(UnequalNodes, ContradictionsAreRefused) {
  for (const auto& [words, why] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--nodes", "8,8,1", "--ranks-per-node", "8"},
            "--nodes 8,8,1 says how many ranks are on each node: leave out --ranks-per-node"},
           {{"--nodes", "8,8,1", "--scale", "8,16"}, "--nodes 8,8,1 is one world, and --scale names several"},
           {{"--nodes", "8,8,1", "--scale", "8", "--links", "a.svg"}, "leave one out"},
           {{"--nodes", "8,x"}, "--nodes: 'x' is not a whole number"},
           {{"--nodes", "8,0"}, "--nodes: 0 is out of range"},
           {{"--nodes", "8,"}, "--nodes: the list has an empty item"},
           {{"--nodes", "131072,1"}, "--nodes has more than 131072 ranks, the most that are simulated: give fewer"},
           {{"--nodes", "0"}, "--nodes: 0 is out of range"}}) {
    auto all = words;
    all.insert(all.begin(), {"simulate", "allreduce"});
    const auto refused = run(all);
    EXPECT_EQ(refused.code, 2) << why;
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
}

std::string measured_on(const std::string& more) {
  return R"([{"collective": "allreduce", "algorithm": "ring", "ranks": 17, "bytes": 1024, "time_us": 5.0)" + more +
         "}]";
}

TEST(UnequalNodes, AreComparedWithWhatWasMeasuredOnThem) {
  const auto simulated = rows_of({"--nodes", "8,8,1", "--sizes", "1K", "--algorithm", "ring"});
  for (const auto& [file, nodes] :
       std::vector<std::pair<std::string, std::string>>{{R"(, "nodes": 3)", "8,8,1"},
                                                        {"", "8,8,1"},
                                                        {R"(, "nodes": 3, "ranks_of_nodes": [8, 8, 1])", ""},
                                                        {R"(, "nodes": 3, "ranks_of_nodes": [8, 8, 1])", "8,8,1"}}) {
    const Scratch measured(measured_on(file));
    std::vector<std::string> words{"--measured", measured.path()};
    if (!nodes.empty()) words.insert(words.end(), {"--nodes", nodes});
    const auto rows = rows_of(words);
    ASSERT_EQ(rows.size(), 1u) << file;
    EXPECT_EQ(rows[0]["nodes"], 3);
    EXPECT_EQ(rows[0]["ranks_of_nodes"], unequal);
    EXPECT_EQ(rows[0]["time_us"], simulated[0]["time_us"]) << file;
  }
}

TEST(UnequalNodes, ThatWereNotMeasuredOnAreRefused) {
  for (const auto& [file, nodes, code, why] : std::vector<std::tuple<std::string, std::string, int, const char*>>{
           {R"(, "nodes": 3)", "", 2, "17 ranks on 3 nodes: the file does not say how many are on each; --nodes can"},
           {R"(, "nodes": 2)", "8,8,1", 2, "measured with 17 ranks on 2 nodes, and --nodes says 3 nodes of 8, 8, 1"},
           {R"(, "nodes": 3)", "8,8,2", 2, "measured with 17 ranks on 3 nodes, and --nodes says 3 nodes of 8, 8, 2"},
           {R"(, "nodes": 3, "ranks_of_nodes": [8, 8, 1])", "1,8,8", 2,
            "17 ranks on 3 nodes (8,8,1), and --nodes says"},
           {R"(, "nodes": 3, "ranks_of_nodes": [8, 8, 2])", "", 3,
            "has 3 nodes of 17 ranks, but its ranks_of_nodes are"},
           {R"(, "nodes": 2, "ranks_of_nodes": [8, 8, 1])", "", 3,
            "has 2 nodes of 17 ranks, but its ranks_of_nodes are"},
           {R"(, "ranks_of_nodes": [17, 0])", "", 3, "has a ranks_of_nodes that is no list of whole numbers"},
           {R"(, "ranks_of_nodes": "8,8,1")", "", 3, "has a ranks_of_nodes that is no list of whole numbers"}}) {
    const Scratch measured(measured_on(file));
    std::vector<std::string> words{"simulate", "allreduce", "--measured", measured.path()};
    if (!nodes.empty()) words.insert(words.end(), {"--nodes", nodes});
    const auto refused = run(words);
    EXPECT_EQ(refused.code, code) << file << ": " << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
}

TEST(UnequalNodes, PerfSaysHowManyRanksEachHas) {
  const auto measured = [](const char* nodes) {
    const auto result = run({"perf", "allreduce", "-n", "3", "--split-nodes", nodes, "--sizes", "4", "-i", "1", "-w",
                             "0", "--in-place", "--algorithm", "ring", "--transport", "shm,tcp", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  const Scratch file(measured("2"));
  EXPECT_EQ(nlohmann::json::parse(file.text())[0]["ranks_of_nodes"], nlohmann::json({2, 1}));
  const auto rows = rows_of({"--measured", file.path()});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["ranks_of_nodes"], nlohmann::json({2, 1}));
  EXPECT_THAT(measured("3"), Not(HasSubstr("ranks_of_nodes"))) << "equal ones";
}

}  // namespace
}  // namespace fabring::tests
