// --model: how training scales.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/fabring/program.hpp"
#include "tests/tools/fabring/scratch.hpp"
#include "tools/fabring/simulate/scaling.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

std::vector<std::string> training(const std::vector<std::string>& more) {
  std::vector<std::string> words{"simulate",     "allreduce", "--model",   "resnet50",
                                 "--compute-ms", "120",       "--machine", "100g"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Simulate, WorldsDoubleUpToAllNodesUnlessTheyAreNamed) {
  const auto ranks = [](const tools::NodeLayout& all) {
    std::vector<int> worlds;
    for (const tools::NodeLayout& world : tools::default_scale(all)) worlds.push_back(world.ranks());
    return worlds;
  };
  EXPECT_THAT(ranks({1, 8}), testing::ElementsAre(8));
  EXPECT_THAT(ranks({3, 2}), testing::ElementsAre(2, 4, 6));
  EXPECT_THAT(ranks({4, 8}), testing::ElementsAre(8, 16, 32));
}

TEST(Simulate, ShowsScalingEfficiencyOfAModel) {
  const auto result = run({"simulate", "allreduce", "--model", "resnet50", "--compute-ms", "120", "--scale", "8,64",
                           "--algorithm", "hierarchical", "--machine", "efa-400"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("25557032 parameters"));
  EXPECT_THAT(result.out, HasSubstr("%"));
}

// 200 ms of one rank were 7 s in 35 buckets.
TEST(Simulate, WhoIsLateDelaysATrainingStepOnce) {
  for (const char* bucket : {"200M", "25M", "1M"}) {
    const auto in_time = run(training({"--scale", "64", "--algorithm", "hierarchical", "--json", "--bucket", bucket}));
    const auto late = run(training(
        {"--scale", "64", "--algorithm", "hierarchical", "--json", "--bucket", bucket, "--stragglers", "0.05:200000"}));
    ASSERT_EQ(late.code, 0) << late.err;
    const auto before = nlohmann::json::parse(in_time.out)[0], after = nlohmann::json::parse(late.out)[0];
    EXPECT_EQ(before["late_us"], 0);
    EXPECT_FALSE(before.contains("late_ranks"));
    EXPECT_GT(after.at("late_ranks"), 0);
    EXPECT_EQ(after["late_us"], 200'000);
    EXPECT_NEAR(after["step_us"].get<double>(), before["step_us"].get<double>() + 200'000, 0.01) << bucket;
  }
  const auto nobody = run(training({"--nodes", "1", "--algorithm", "ring", "--json", "--stragglers", "0:200000"}));
  EXPECT_EQ(nlohmann::json::parse(nobody.out)[0]["late_us"], 0);
}

// Of 4096 ranks in nodes of 2048 the plans of a ring have too many steps.
TEST(Simulate, ScalingOfAModelMarksPrices) {
  const std::vector<std::string> world{"--ranks-per-node", "2048", "--scale", "4096", "--algorithm", "ring"};
  const Scratch plot;
  auto drawn = world;
  drawn.insert(drawn.end(), {"--plot", plot.path()});
  const auto table = run(training(drawn));
  EXPECT_THAT(plot.text(), HasSubstr("price, not simulated"));
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, testing::AllOf(testing::ContainsRegex(" 4096 +~"), HasSubstr("(~: price in closed form"),
                                        HasSubstr("(ring: the plans of 4096 ranks have more than")));
  auto json = world;
  json.emplace_back("--json");
  const auto rows = nlohmann::json::parse(run(training(json)).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["priced"], true);
  EXPECT_EQ(rows[0]["extrapolated"], false);
  EXPECT_THAT(rows[0]["note"].get<std::string>(), HasSubstr("steps"));
}

TEST(Simulate, ScalingOfAModelSaysWhyThereIsNone) {
  const Scratch slow(R"({"base": "1g", "nic_bytes_per_second": 1000, "between": {"lane_bytes_per_second": 1000}})");
  const std::vector<std::string> world{"simulate",  "allreduce", "--model",     "vgg16", "--compute-ms", "120",
                                       "--machine", slow.path(), "--algorithm", "star",  "--scale",      "16384"};
  EXPECT_THAT(run(world).out, HasSubstr("(star: the buckets of a step take too long to be counted)"));
  auto json = world;
  json.emplace_back("--json");
  const auto rows = nlohmann::json::parse(run(json).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["step_us"].is_null() && rows[0]["efficiency"].is_null()) << rows;
}

}  // namespace
}  // namespace fabring::tests
