#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/startup/machine_file.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tests/tools/fabring/scratch.hpp"
#include "tools/fabring/simulate/simulate_report.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace tools;

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

// Nothing said whether anybody was late, and a picture not even that somebody might be.
TEST(Simulate, SaysHowManyAreLate) {
  const Scratch plot;
  const std::vector<std::string> words{"simulate",    "allreduce", "--scale",      "8,64",    "--sizes", "4",
                                       "--algorithm", "ring",      "--stragglers", "0.1:500", "--seed",  "7"};
  auto table = words;
  table.insert(table.end(), {"--plot", plot.path(), "--explain"});
  const auto shown = run(table);
  auto json = words;
  json.emplace_back("--json");
  const auto rows = nlohmann::json::parse(run(json).out);
  ASSERT_EQ(rows.size(), 2u);
  const int of_8 = rows[0].at("late_ranks"), of_64 = rows[1].at("late_ranks");
  EXPECT_GE(of_64, of_8);
  EXPECT_GT(of_64, 0);
  EXPECT_LT(of_64, 32) << "a tenth of them, more or less";
  EXPECT_EQ(rows[1].at("late_us"), 500);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("on 100g, 10% of ranks 500 us late\n"),
                               HasSubstr("(500 us late, by --seed 7: " + std::to_string(of_8) + " of 8 ranks, " +
                                         std::to_string(of_64) + " of 64)"),
                               HasSubstr("(prices know nothing of ranks that are late)")));
  EXPECT_THAT(plot.text(), HasSubstr("10% of ranks 500 us late"));
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

TEST(Simulate, ListsWhatWasMeasuredByTheBytesOfTheMeasurement) {
  const Scratch measured(
      R"([{"collective": "all_gather", "algorithm": "ring", "bytes": 4, "ranks": 4, "time_us": 2.0}])");
  std::vector<std::string> words{"simulate", "all_gather", "--measured", measured.path()};
  EXPECT_THAT(run(words).out, HasSubstr("\n       4 B      4      1                 ring"));
  words.emplace_back("--json");
  EXPECT_EQ(nlohmann::json::parse(run(words).out)[0]["bytes"], 4) << "not those of an element of each rank";
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
  EXPECT_THAT(scale.out, testing::AllOf(HasSubstr("all_gather of 64 B"),
                                        HasSubstr("(512 ranks: 64 B is simulated as 2 KiB, one element for each rank)"),
                                        testing::Not(HasSubstr("(8 ranks"))));
  const Scratch links;
  EXPECT_EQ(
      run({"simulate", "all_gather", "--nodes", "4", "--sizes", "64", "--algorithm", "ring", "--links", links.path()})
          .code,
      0);
  EXPECT_THAT(links.text(), testing::AllOf(HasSubstr("all_gather of 128 B"), testing::Not(HasSubstr("node 0 B"))));
  const auto rounded = run({"simulate", "allreduce", "--sizes", "0,1,3,5", "--algorithm", "ring", "--json"});
  const auto whole = nlohmann::json::parse(rounded.out);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_THAT(rounded.err, HasSubstr("5 B is simulated as 4 B, whole elements of 4 bytes")) << "as perf measures it";
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

// The eleventh curve had the first one's colour, and was dashed, which one point does not show.
TEST(Simulate, EveryAlgorithmHasAColourOfItsOwn) {
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_LE(std::ranges::count_if(all_algorithms(), [=](Algorithm one) { return has_algorithm(collective, one); }),
              std::ptrdiff_t{curve_colours})
        << name(collective);
  }
}

TEST(Simulate, LinksSayWhichAlgorithmsAreDrawn) {
  const Scratch links;
  const std::vector<std::string> all{"simulate", "allreduce", "--nodes", "2",       "--ranks-per-node",
                                     "2",        "--sizes",   "1M",      "--links", links.path()};
  EXPECT_THAT(run(all).err, HasSubstr("drawn are star, ring, hierarchical, circulant; --algorithm names others"));
  EXPECT_THAT(run({"simulate", "--help"}).out,
              testing::ContainsRegex("star,[ \n]+ring, hierarchical and circulant, or"));
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
      {{"simulate", "allreduce", "--model", "resnet50", "--compute-ms", "0"}, "0.001"},
      {{"simulate", "allreduce", "--bucket", "1M"}, "--model"},
      {{"simulate", "broadcast", "--model", "vgg16", "--compute-ms", "5"}, "not broadcast"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--measured", "x"}, "take one"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--sizes", "1M"}, "leave out --sizes"},
      {{"simulate", "allreduce", "--model", "vgg16", "--compute-ms", "5", "--explain"}, "--explain"},
      {{"simulate", "allreduce", "--measured", "x", "--algorithm", "ring"}, "leave out --algorithm"},
      {{"simulate", "allreduce", "--measured", "x", "--sizes", "1M"}, "--sizes"},
      {{"simulate", "allreduce", "--measured", "x", "--scale", "8"}, "--scale"},
      {{"simulate", "allreduce", "--scale", "8", "--nodes", "4"}, "--nodes would do nothing: --scale says"},
      {{"simulate", "--model", "resnet50"}, "--compute-ms"},
      {{"simulate", "allreduce", "--seed", "2"}, "--stragglers"},
      {{"simulate", "allreduce", "--stragglers", "0.1:5", "--seed", "-1"}, "'-1' is not a whole number"},
      {{"simulate", "allreduce", "--stragglers", "0.1:5", "--seed", ""}, "--seed lacks its value"},
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
