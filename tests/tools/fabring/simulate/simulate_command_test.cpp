#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/startup/machine_file.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tools/fabring/models.hpp"
#include "tools/fabring/simulate/measured_times.hpp"
#include "tools/fabring/simulate/simulate_report.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using namespace tools;

/// A file that is gone after the test.
class Scratch {
 public:
  explicit Scratch(const std::string& text = {}) {
    std::string path = (std::filesystem::temp_directory_path() / "fabring-simulate-XXXXXX").string();
    const int fd = mkstemp(path.data());
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = path;
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

std::vector<std::string> training(const std::vector<std::string>& more) {
  std::vector<std::string> words{"simulate",     "allreduce", "--model",   "resnet50",
                                 "--compute-ms", "120",       "--machine", "100g"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Models, HaveTheParametersOfTheirArchitectures) {
  const std::pair<const char*, std::uint64_t> counts[] = {
      {"resnet50", 25'557'032}, {"vgg16", 138'357'544}, {"bert-base", 109'482'240}, {"gpt2", 124'439'808}};
  for (const auto& [model, count] : counts) EXPECT_EQ(total_elements(*model_gradients(model)), count) << model;
  const auto resnet = *model_gradients("resnet50");
  EXPECT_EQ(resnet.size(), 161u);
  EXPECT_EQ(resnet.front().name, "fc.bias");  // the last layer's gradients come first
  EXPECT_EQ(resnet.back().name, "conv1.weight");
  EXPECT_EQ(resnet.back().shape, (std::vector<std::int64_t>{64, 3, 7, 7}));
  EXPECT_THAT(model_gradients("resnet5").error().message(), HasSubstr("did you mean 'resnet50'?"));
}

TEST(Models, BucketsHoldEveryByteOnce) {
  const auto gradients = *model_gradients("bert-base");
  const auto buckets = fused_buckets(gradients, 4, 25 << 20);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sum += buckets[i];
    EXPECT_TRUE(buckets[i] >= (25u << 20) || i + 1 == buckets.size());
  }
  EXPECT_EQ(sum, 4 * total_elements(gradients));
}

TEST(MachineFile, IsReadAsItIsWritten) {
  for (const std::string_view each : machine_names()) {
    const Machine machine = *find_machine(each);
    const auto again = machine_from_json(machine_to_json(machine));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(machine_to_json(*again), machine_to_json(machine));
  }
  const auto derived = machine_from_json(R"({"base": "efa-400", "nics": 8, "between": {"latency_ns": 9000}})");
  ASSERT_TRUE(derived);
  EXPECT_EQ(derived->nics, 8u);
  EXPECT_EQ(derived->between.latency_ns, 9000);
  EXPECT_EQ(derived->between.send_ns, find_machine("efa-400")->between.send_ns);
}

// What is cut off is a character, not a byte of it: the rest could not be written.
TEST(MachineFile, ALongNameIsCutBetweenCharacters) {
  const std::string letter = "\xc3\xa4";
  std::string name = "x";
  while (name.size() < 100) name += letter;
  const auto machine = machine_from_json(R"({"base": "10g", "name": ")" + name + "\"}");
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_EQ(machine->name, name.substr(0, 63));
  EXPECT_THAT(machine_to_json(*machine), HasSubstr(name.substr(0, 63)));
}

TEST(MachineFile, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"{", "not JSON"},
      {"[]", "object"},
      {R"({"nic": 4})", "did you mean 'nics'?"},
      {R"({"nics": 0})", "nics must be 1"},
      {R"({"nics": -1})", "whole number"},
      {R"({"nics": 1e30})", "whole number"},
      {R"({"nics": 4294967297})", "too large"},
      {R"({"base": "efa-400", "oversubscription_percent": 400})", "nodes_per_leaf must be 1 to 65536 where"},
      {R"({"inside": 3})", "inside must be an object"},
      {R"({"inside": {"latency_n": 3}})", "did you mean 'latency_ns'?"},
      {R"({"base": "efa"})", "base must be one of"},
      {"{}", "would cost nothing: add \"base\""},
      {R"({"between": {"latency_ns": 9000}})", "\"inside\""},
      {R"({"inside": {}, "between": {}})", "would cost nothing: add \"base\""},
      {R"({"base": "10g", "name": "\u001b[31m"})", "cannot be printed"},
      {R"({"base": "10g", "name": "\u0085"})", "cannot be printed"},
      {R"({"base": "10g", "name": "\uffff"})", "cannot be printed"},
      {R"({"base": "10g", "cache_bytes": 9000000000000000000})", "cache_bytes must be 0 to 1000000000000000"},
      {R"({"base": "10g"})" + std::string(1, '\0') + "junk", "not JSON"},
      {R"({"name": 3})", "name must be a text"},
      {R"({"nic_bytes_per_second": 5})", "bytes per second"},
      {R"({"nics": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}", "not array"},
  };
  for (const auto& [text, expected] : cases) {
    const auto machine = machine_from_json(text);
    ASSERT_FALSE(machine) << text;
    EXPECT_THAT(machine.error().message(), HasSubstr(expected));
  }
}

std::string many_fields(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "\"field" + std::to_string(i) + "\": 1, ";
  return text;
}

// Each new field was compared with all before it: 100,000 took 10 s.
TEST(MachineFile, ManyFieldsTakeNoTime) {
  const auto machine = machine_from_json("{" + many_fields(300'000) + R"("base": "10g"})");
  ASSERT_FALSE(machine);
  EXPECT_THAT(machine.error().message(), HasSubstr("is not a field of a machine"));
}

TEST(MeasuredTimes, ManyFieldsTakeNoTime) {
  const auto times =
      measured_times("[{" + many_fields(400'000) +
                     R"("collective": "allreduce", "ranks": 2, "bytes": 4, "algorithm": "ring", "time_us": 1.0}])");
  ASSERT_TRUE(times) << times.error().message();
  EXPECT_EQ(times->size(), 1u);
  EXPECT_FALSE(measured_times(std::string("[]\0[]", 5)));
}

TEST(Simulate, PrintsATableByAlgorithmOverSize) {
  const auto result = run({"simulate", "allreduce", "--nodes", "4", "--ranks-per-node", "2", "--sizes", "1K,1M",
                           "--algorithm", "ring,hierarchical", "--explain"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("allreduce, 4 nodes of 2 ranks on 100g"));
  EXPECT_THAT(result.out, HasSubstr("1 KiB"));
  EXPECT_THAT(result.out, HasSubstr("*"));
  EXPECT_THAT(result.out, HasSubstr("has the lowest predicted time"));
}

TEST(Simulate, OneRankIsSingular) {
  const auto result =
      run({"simulate", "allreduce", "--ranks-per-node", "1", "--scale", "2", "--sizes", "1K", "--algorithm", "ring"});
  EXPECT_THAT(result.out, HasSubstr("nodes of 1 rank on 100g"));
}

TEST(Simulate, ExplainsEveryWorldOfAScale) {
  const auto result = run(
      {"simulate", "allreduce", "--scale", "64,512", "--sizes", "1K,1M", "--algorithm", "hierarchical", "--explain"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* world : {"64 ranks", "512 ranks"})
    for (const char* size : {"1 KiB", "1 MiB"})
      EXPECT_THAT(lines(result.out), testing::Contains(testing::AllOf(HasSubstr("has the lowest predicted time"),
                                                                      HasSubstr(world), HasSubstr(size))));
}

TEST(Simulate, MarksWhatWasNotSimulatedWhole) {
  simulation::Outcome some, whole;
  some.time_ns = whole.time_ns = 2'000'000;
  some.tiles = whole.tiles = whole.tiles_simulated = 100;
  some.tiles_simulated = 24;
  const auto table = [](const simulation::Outcome& outcome) {
    return forecast_table({{{Algorithm::ring, 1, 8, 1024, {}, outcome, {}}}}, Rows::sizes);
  };
  EXPECT_THAT(table(some), testing::AllOf(HasSubstr("*^2.00 ms"), HasSubstr("(^: ")));
  EXPECT_THAT(table(whole), testing::AllOf(HasSubstr("*2.00 ms"), testing::Not(HasSubstr("^"))));
}

// The price of 4096 ranks without stragglers, 92 ms, was the fastest beside 222 ms with one of 200 ms.
TEST(Simulate, APriceIsNoForecastOfRanksThatAreLate) {
  simulation::Outcome whole;
  whole.time_ns = 2'000'000;
  whole.tiles = whole.tiles_simulated = 1;
  const std::vector<Forecast> row{{Algorithm::ring, 1, 8, 1024, 1'000'000, {}, "too many steps", true},
                                  {Algorithm::star, 1, 8, 1024, 3'000'000, whole, {}, true}};
  EXPECT_THAT(forecast_table({row}, Rows::ranks),
              testing::AllOf(HasSubstr("*2.00 ms"), HasSubstr("(ring: too many steps)"),
                             testing::Not(HasSubstr("1.00 ms")), testing::Not(HasSubstr("~"))));
  const Chart chart = forecast_chart({row}, Rows::ranks, "title");
  EXPECT_TRUE(chart.curves[0].points.empty());
  EXPECT_EQ(chart.curves[1].points.size(), 1u);
  const auto far = run({"simulate", "allreduce", "--nodes", "16", "--sizes", "64M", "--algorithm", "star,hierarchical",
                        "--stragglers", "0.1:100"});
  EXPECT_THAT(far.out, testing::AllOf(HasSubstr("knows of no stragglers"), testing::Not(HasSubstr("~"))));
}

TEST(Simulate, GivesTheSameNumbersEveryTime) {
  const std::vector<std::string> arguments{"simulate",    "allreduce", "--nodes",      "4",       "--sizes", "64K",
                                           "--algorithm", "ring",      "--stragglers", "0.3:100", "--json"};
  const auto first = run(arguments);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, run(arguments).out);
  const auto json = nlohmann::ordered_json::parse(first.out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["ranks_simulated"], 32);
  auto other = arguments;
  other.insert(other.end(), {"--seed", "9"});
  EXPECT_NE(first.out, run(other).out);
}

// The sums of a day's and a century's nanoseconds went below zero: that was the fastest.
TEST(Simulate, NamesNoFastestOfWhatTakesTooLongToBeCounted) {
  const std::string tier = R"({"copy_bytes_per_second": 1000, "lane_bytes_per_second": 1000})";
  const Scratch machine(R"({"base": "1g", "segment_bytes": 1099511627776, "smallest_bytes": 1099511627776,
    "nic_bytes_per_second": 1000, "memory_bytes_per_second": 1000, "reduce_bytes_per_second": 1000,
    "inside": )" + tier +
                        R"(, "between": )" + tier + "}");
  const std::vector<std::string> command{
      "simulate",     "allreduce",        "--sizes", "1T",          "--machine",
      machine.path(), "--ranks-per-node", "4",       "--algorithm", "star,direct_one_shot,ring"};
  auto words = command;
  words.emplace_back("--explain");
  const auto table = run(words);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, testing::AllOf(HasSubstr("~> 36 years"), HasSubstr("ring: too long to be simulated"),
                                        HasSubstr("too long for their prices to be compared"),
                                        testing::Not(HasSubstr("*~")), testing::Not(HasSubstr("lowest"))));
  words.back() = "--json";
  for (const auto& row : nlohmann::json::parse(run(words).out)) {
    EXPECT_TRUE(row["predicted_us"].is_null() && row["time_us"].is_null()) << row;
    EXPECT_THAT(row["note"].get<std::string>(), HasSubstr("give fewer bytes"));
  }
  const Scratch measured(R"([{"collective": "allreduce", "algorithm": "ring", "bytes": 9000000000000000, "ranks": 4,
    "time_us": 100.0}])");
  const auto beside = run({"simulate", "allreduce", "--measured", measured.path(), "--machine", machine.path()});
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_THAT(beside.out, testing::AllOf(HasSubstr("> 36 years       100 us      -"), HasSubstr("0 of 1 within")));
}

TEST(Simulate, DrawsChartsAndLinks) {
  const Scratch plot, links;
  const auto result = run({"simulate", "allreduce", "--scale", "8,16,32", "--sizes", "1K,1M", "--algorithm", "ring",
                           "--plot", plot.path(), "--links", links.path(), "--nodes", "4"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const Scratch* each : {&plot, &links}) {
    EXPECT_EQ(each->text().rfind("<svg", 0), 0u);
    EXPECT_THAT(each->text(), HasSubstr("</svg>"));
    EXPECT_THAT(each->text(), HasSubstr("ring"));
    EXPECT_THAT(each->text(), HasSubstr("allreduce of 1 MiB")) << "both show the last size, and say so";
  }
}

// 64 B and 1 KiB in 512 blocks were no element each, and a row like 2 KiB.
TEST(Simulate, BlocksHaveAnElementEach) {
  const std::vector<std::string> world{"simulate",    "all_gather",  "--nodes", "64",
                                       "--algorithm", "ring,direct", "--sizes"};
  const auto of = [&world](const std::vector<std::string>& more) {
    auto words = world;
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto rows = nlohmann::json::parse(of({"64,1K,2K,4K", "--json"}).out);
  ASSERT_EQ(rows.size(), 4u) << "two sizes by two algorithms";
  EXPECT_EQ(rows[0]["bytes"], 2048);
  EXPECT_EQ(rows[2]["bytes"], 4096);
  EXPECT_THAT(of({"64"}).out, HasSubstr("2 KiB"));
  const auto explained = of({"64", "--explain"});
  EXPECT_THAT(explained.out, HasSubstr("all_gather of 2 KiB"));
  const auto scale = run({"simulate", "all_gather", "--scale", "8,512", "--algorithm", "ring", "--sizes", "64"});
  EXPECT_THAT(scale.out, testing::AllOf(HasSubstr("all_gather of 64 B"), HasSubstr("(512 ranks: 2 KiB, an element"),
                                        testing::Not(HasSubstr("(8 ranks"))));
  const Scratch links;
  EXPECT_EQ(
      run({"simulate", "all_gather", "--nodes", "4", "--sizes", "64", "--algorithm", "ring", "--links", links.path()})
          .code,
      0);
  EXPECT_THAT(links.text(), testing::AllOf(HasSubstr("all_gather of 128 B"), testing::Not(HasSubstr("node 0 B"))));
  const auto whole =
      nlohmann::json::parse(run({"simulate", "allreduce", "--sizes", "0,1,3", "--algorithm", "ring", "--json"}).out);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0]["bytes"], 0);
  EXPECT_EQ(whole[1]["bytes"], 4) << "an element";
}

TEST(Simulate, ABarrierHasNoSize) {
  const auto table = run({"simulate", "barrier", "--sizes", "1K,1M", "--explain"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, testing::AllOf(HasSubstr("barrier over 8 ranks: "), testing::Not(HasSubstr("KiB")),
                                        testing::Not(HasSubstr("MiB")), testing::Not(HasSubstr("barrier of"))));
  const auto rows = nlohmann::json::parse(
      run({"simulate", "barrier", "--sizes", "1K,1M", "--algorithm", "dissemination", "--json"}).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["bytes"], 0);
  EXPECT_GT(rows[0]["time_us"], 0);
  EXPECT_EQ(rows[0]["busbw_GBps"], 0);
  EXPECT_THAT(run({"simulate", "barrier", "--scale", "8,64"}).out, HasSubstr("barrier, nodes of 8 ranks"));
}

// Three alike dots stood for a price, the pace of a few tiles and a whole simulation.
TEST(Simulate, PicturesTellPricesAndExtrapolationsFromWhatWasSimulated) {
  simulation::Outcome some, whole;
  some.time_ns = whole.time_ns = 2'000'000;
  some.tiles = whole.tiles = whole.tiles_simulated = 100;
  some.tiles_simulated = 24;
  const Chart chart = forecast_chart({{{Algorithm::ring, 1, 8, 1024, 5'000'000, {}, "too many steps"},
                                       {Algorithm::star, 1, 8, 1024, {}, some, {}},
                                       {Algorithm::circulant, 1, 8, 1024, {}, whole, {}}}},
                                     Rows::ranks, "title");
  ASSERT_EQ(chart.curves.size(), 3u);
  EXPECT_THAT(chart.curves[0].markers, testing::ElementsAre(Marker::circle));
  EXPECT_THAT(chart.curves[1].markers, testing::ElementsAre(Marker::square));
  EXPECT_THAT(chart.curves[2].markers, testing::ElementsAre(Marker::dot));
  EXPECT_THAT(draw(chart), testing::AllOf(HasSubstr("price, not simulated"), HasSubstr("rest added at its pace")));
}

TEST(Simulate, LinkLoadsAreThoseOfThePlans) {
  const auto ring = link_loads(Collective::allreduce, Algorithm::ring, {0, 1, 2, 3}, 4096, 4);
  ASSERT_TRUE(ring);
  for (std::size_t node = 0; node < 4; ++node) {
    EXPECT_EQ(ring->values[node][(node + 1) % 4], 2.0 * 3 / 4 * 4096);
    EXPECT_EQ(ring->values[node][(node + 2) % 4], 0);
  }
  const auto alltoall = link_loads(Collective::alltoall, Algorithm::direct_one_shot, {0, 1}, 4096, 4);
  ASSERT_TRUE(alltoall);
  EXPECT_EQ(alltoall->values[0][1], 4096 / 2) << "of the bytes that a rank has, half is for the other";
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

TEST(Simulate, ComparesWithWhatWasMeasured) {
  const Scratch measured(
      R"([{"collective": "allreduce", "ranks": 2, "bytes": 1048576, "algorithm": "ring", "time_us": 202.0},
                             {"collective": "broadcast", "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1.0}])");
  const auto result = run({"simulate", "allreduce", "--measured", measured.path(), "--machine", "loopback-tcp"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("202 us"));
  EXPECT_THAT(result.out, HasSubstr("of 1 within 20%"));
  const auto json =
      run({"simulate", "allreduce", "--measured", measured.path(), "--machine", "loopback-tcp", "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  const auto rows = nlohmann::json::parse(json.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["measured_us"], 202.0);
  EXPECT_DOUBLE_EQ(rows[0]["ratio"], rows[0]["time_us"].get<double>() / 202.0);
  EXPECT_EQ(rows[0]["priced"], false);
  EXPECT_EQ(rows[0]["extrapolated"], false);
  const Scratch wide(
      R"([{"collective": "allreduce", "ranks": 4096, "bytes": 4194304, "algorithm": "ring", "time_us": 3e7}])");
  const std::vector<std::string> beside{"simulate", "allreduce", "--measured", wide.path(), "--nodes", "2"};
  const auto priced = run(beside);
  EXPECT_THAT(priced.out, testing::AllOf(testing::ContainsRegex("ring +~"), HasSubstr("(~: price in closed form"),
                                         HasSubstr("(ring: the plans of 4096 ranks")));
  auto late = beside;
  late.insert(late.end(), {"--stragglers", "0.1:100", "--json"});
  const auto none = nlohmann::json::parse(run(late).out);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_TRUE(none[0]["time_us"].is_null() && none[0]["ratio"].is_null()) << none;
  EXPECT_EQ(none[0]["within_20_percent"], false);
  for (const char* text :
       {"{}", "[1]", R"([{"collective": 5, "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1}])",
        R"([{"collective": "allreduce", "ranks": 0, "bytes": 1, "algorithm": "ring", "time_us": 1}])",
        R"([{"collective": "allreduce", "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1e300}])"}) {
    const Scratch broken(text);
    EXPECT_EQ(run({"simulate", "allreduce", "--measured", broken.path()}).code, 2) << text;
  }
}

TEST(Simulate, SaysWhatIsWrongWithItsUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"simulate"}, "collective"},
      {{"simulate", "alreduce"}, "did you mean 'allreduce'?"},
      {{"simulate", "allreduce", "--algorithm", "rign"}, "did you mean 'ring'?"},
      {{"simulate", "allreduce", "--machine", "efa-40"}, "did you mean 'efa-400'?"},
      {{"simulate", "allreduce", "--scale", "12"}, "do not fill nodes of 8"},
      {{"simulate", "allreduce", "--stragglers", "2:5"}, "PROBABILITY:MICROSECONDS"},
      {{"simulate", "allreduce", "--model", "resnet50"}, "--compute-ms"},
      {{"simulate", "allreduce", "--nodes", "100000"}, "more than"},
      {{"simulate", "allreduce", "--plto", "x"}, "did you mean '--plot'?"},
      {{"simulate", "allreduce", "--compute-ms", "5"}, "--model"},
      {{"simulate", "allreduce", "--bucket", "1M"}, "--model"},
      {{"simulate", "broadcast", "--model", "vgg16", "--compute-ms", "5"}, "not broadcast"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--measured", "x"}, "take one"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--sizes", "1M"}, "leave out --sizes"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--explain"}, "--explain"},
      {{"simulate", "allreduce", "--measured", "x", "--algorithm", "ring"}, "leave out --algorithm"},
      {{"simulate", "allreduce", "--measured", "x", "--sizes", "1M"}, "--sizes"},
      {{"simulate", "allreduce", "--measured", "x", "--scale", "8"}, "--scale"},
      {{"simulate", "allreduce", "--seed", "2"}, "--stragglers"},
      {{"simulate", "allreduce", "--stragglers", "0.1:5", "--seed", "-1"}, "'-1' is not a whole number"},
      {{"simulate", "allreduce", "--stragglers", "0.1:5", "--seed", ""}, "'' is not a whole number"},
      {{"simulate", "allreduce", "--stragglers", "0.1:5", "--seed", "18446744073709551616"}, "not a whole number"},
      {{"simulate", "allreduce", "--plot", "-"}, "name a file"},
      {{"simulate", "barrier", "--plot", "a.svg"}, "give --scale"},
      {{"simulate", "barrier", "--nodes", "2", "--links", "a.svg"}, "sends no bytes"},
      {{"simulate", "allreduce", "--plot", "a.svg", "--output", "a.svg"}, "the same file"},
      {{"simulate", "allreduce", "--plot", "a.svg", "--links", "a.svg"}, "the same file"},
      {{"simulate", "allreduce", "--nodes", "64", "--ranks-per-node", "2048", "--links", "a.svg"}, "up to 4096 ranks"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

TEST(Simulate, AMachineIsShownWithoutACollective) {
  const auto result = run({"simulate", "--machine", "efa-400", "--show-machine"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(machine_to_json(*machine_from_json(result.out)), machine_to_json(*find_machine("efa-400")));
}

TEST(Simulate, ExplainsBesideTheJsonAndNotInIt) {
  const std::vector<std::string> arguments{"simulate", "allreduce", "--nodes", "2", "--sizes", "1K", "--json"};
  auto explained = arguments;
  explained.push_back("--explain");
  const auto result = run(explained);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, run(arguments).out);
  EXPECT_THAT(result.err, HasSubstr("has the lowest predicted time"));
}

TEST(Simulate, AFileThatCannotBeReadIsNamed) {
  const auto result = run({"simulate", "allreduce", "--measured", testing::TempDir()});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, testing::AllOf(HasSubstr(testing::TempDir()), HasSubstr("Is a directory")));
}

TEST(Svg, TellsManyCurvesApart) {
  Chart chart;
  for (int i = 0; i < 12; ++i) chart.curves.push_back({"curve", {{1, 1}, {2, 2.0 + i}}});
  std::istringstream text(draw(chart));
  std::set<std::string> strokes;
  for (std::string line; std::getline(text, line);)
    if (const auto at = line.find("stroke="); line.starts_with("<polyline") && line.find(" fill=\"none\"") < at)
      strokes.insert(line.substr(at));
  EXPECT_EQ(strokes.size(), 12u);
}

TEST(Svg, LeavesOutWhatHasNoPlaceOnAnAxis) {
  Chart chart;
  chart.x_is_bytes = true;
  chart.curves = {{"one", {{0, 5}, {1024, 50}}}};
  EXPECT_THAT(draw(chart), testing::Not(HasSubstr("inf")));
}

// A point that is left out takes its marker with it; what is not drawn has no line in the legend.
TEST(Svg, DrawsTheMarkerOfEachPoint) {
  Chart chart;
  chart.circles = "circles";
  chart.squares = "squares";
  chart.curves = {{"one", {{0, 5}, {10, 50}, {20, 60}}, {Marker::square, Marker::circle}}};
  const std::string text = draw(chart);
  EXPECT_THAT(text, testing::AllOf(HasSubstr(">circles<"), testing::Not(HasSubstr(">squares<"))));
  const auto count = [&text](const std::string& what) {
    int found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("rx=\"3.5\""), 2) << "the point and its line of the legend";
  EXPECT_EQ(count("<circle "), 1) << "the last point, a dot";
}

TEST(Svg, OneSquareIsWideEnoughForTheTitle) {
  EXPECT_THAT(draw("title", "unit", {{"ring", {{1}}}}),
              HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"670\""));
}

TEST(Svg, WritesTextThatIsNoMarkup) {
  Chart chart;
  chart.title = "a <b> & \"c\"";
  chart.curves = {{"one", {{1, 1}, {1000, 50}}}};
  const std::string text = draw(chart);
  EXPECT_THAT(text, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nan")));
}

TEST(Simulate, SaysWhyAnAlgorithmHasNoForecast) {
  const auto none = run({"simulate", "reduce_scatter", "--nodes", "3", "--algorithm", "halving_doubling"});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.out, HasSubstr("24 ranks are no power of two"));
  EXPECT_THAT(none.err, HasSubstr("no forecast of halving_doubling: "));
  const auto some = run({"simulate", "reduce_scatter", "--scale", "8,24", "--algorithm", "halving_doubling"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr("24 ranks are no power of two"));
  const auto all = run({"simulate", "reduce_scatter", "--nodes", "3", "--sizes", "1K"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("24 ranks are no power of two"));
  const Scratch plot;
  const auto drawn = run({"simulate", "reduce_scatter", "--nodes", "3", "--sizes", "1K,1M", "--algorithm",
                          "ring,halving_doubling", "--plot", plot.path()});
  EXPECT_EQ(drawn.code, 3);
  EXPECT_THAT(plot.text(), HasSubstr("<svg")) << "of those that have one";
}

}  // namespace
}  // namespace fabring::tests
