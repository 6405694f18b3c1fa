// `fabring perf` with ranks: processes of this host over real transports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/fabring/program.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

TEST(PerfRun, EveryElementIsRightAndTheRingSendsWhatItShould) {
  const auto result = run({"perf", "allreduce", "-n", "3", "--transport", "tcp", "--algorithm", "ring", "--sizes",
                           "0,4,100000,1M", "-i", "5", "-w", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto list = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(list.size(), 4U);
  for (const auto& row : list) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["ranks"], 3);
    EXPECT_EQ(row["transport"], "tcp");
    EXPECT_EQ(row["algorithm"], "ring");
    EXPECT_LE(row["p50_us"], row["p99_us"]);
  }
  const double ideal = 2.0 * 2 / 3 * (1 << 20), sent = list[3]["wire_bytes_per_rank"];
  EXPECT_GE(sent, ideal - 8);
  EXPECT_LE(sent, ideal * 1.02);
}

TEST(PerfRun, SingleCallsAreTimedAsManyAsTakeLittleTimeAndOneAtLeast) {
  EXPECT_EQ(tools::calls_timed_singly(20, 0.1), 20);
  EXPECT_EQ(tools::calls_timed_singly(100, 2), 10);
  EXPECT_EQ(tools::calls_timed_singly(20, 2), 5);
  EXPECT_EQ(tools::calls_timed_singly(20, 20), 1) << "a second each";
  EXPECT_EQ(tools::calls_timed_singly(4, 0.001), 4) << "there are no more";
  EXPECT_EQ(tools::calls_timed_singly(1, 0), 1);
  const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "4", "-i", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto row = nlohmann::ordered_json::parse(result.out)[0];
  EXPECT_GT(row["p50_us"], 0) << row;
  EXPECT_EQ(row["p99_us"], row["p50_us"]) << "of one call: " << row;
}

TEST(PerfRun, ASizeTakesNoLongerThanItsCap) {
  using std::chrono::milliseconds;
  EXPECT_EQ(tools::filling_of(0.001, milliseconds(100), 20, milliseconds(6000)), (tools::Filling{100, 20}));
  EXPECT_EQ(tools::filling_of(0.05, milliseconds(100), 20, milliseconds(2000)), (tools::Filling{2, 20}));
  EXPECT_EQ(tools::filling_of(0.0625, milliseconds(100), 20, milliseconds(250)), (tools::Filling{1, 4}));
  EXPECT_EQ(tools::filling_of(3.4, milliseconds(100), 20, milliseconds(6000)), (tools::Filling{1, 1}));
  EXPECT_EQ(tools::filling_of(3.4, milliseconds(100), 20, milliseconds(0)), (tools::Filling{1, 1}));
  const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "16M", "--reps", "20",
                           "--cap-s", "0.001", "-w", "0", "--no-check", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::ordered_json::parse(result.out)[0]["repetitions_us"].size(), 1U) << result.out;
  EXPECT_THAT(result.err, HasSubstr("16 MiB: 1 of 20 repetitions: a call takes"));
}

// Speed is not what is tested: the units, what is counted, and that the calls are what is timed, whatever the format.
TEST(PerfRun, TimesFitAnOutsideClock) {
  constexpr int calls = 150;
  for (const std::string format : {"json", "plain", "table"}) {
    const auto began = std::chrono::steady_clock::now();
    const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--in-place", "--no-check",
                             "--sizes", "8M", "-w", "0", "-i", std::to_string(calls), "--format", format});
    const std::chrono::duration<double> outside = std::chrono::steady_clock::now() - began;
    ASSERT_EQ(result.code, 0) << result.err;
    double us = 0;
    if (format == "json") {
      const auto row = nlohmann::ordered_json::parse(result.out)[0];
      us = row["time_us"];
      EXPECT_GT(row["p50_us"], us / 10) << row;
      EXPECT_LT(row["p50_us"], us * 10) << row;
    } else {
      for (const std::string& line : lines(result.out)) {
        std::string skipped;
        std::istringstream words(line);
        for (int i = 0; i < (format == "plain" ? 1 : 9); ++i) words >> skipped;  // a table's are out of place first
        if (line[0] != '#') words >> us;
      }
    }
    const double inside = us * 1e-6 * calls;
    EXPECT_LE(inside, outside.count()) << format;
    EXPECT_GE(inside, outside.count() * 0.1) << format;
  }
}

TEST(PerfRun, AModelIsMeasuredByTheWordsOfACollective) {
  const auto result = run({"perf", "allreduce", "--model", "4x1000", "-n", "2", "--transport", "tcp", "--in-place",
                           "--reps", "3", "--target-ms", "2", "--format", "plain"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = lines(result.out);
  ASSERT_EQ(rows.size(), 3U) << result.out;
  for (const std::string& row : rows) EXPECT_THAT(row, testing::MatchesRegex("16000 [0-9.]+ [0-9.]+ [0-9.]+"));
}

TEST(PerfRun, ASizeOfLessThanAnElementForEachRankIsMeasuredOnce) {
  const auto result =
      run({"perf", "all_gather", "-n", "2", "--transport", "tcp", "--sizes", "4,8,16", "-i", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(rows.size(), 2U) << result.out;
  EXPECT_EQ(rows[0]["bytes"], 8);
  EXPECT_EQ(rows[1]["bytes"], 16);
  EXPECT_THAT(result.err, HasSubstr("4 B is measured as 8 B, one element for each rank"));
}

// 1023 became 1020, and 12 of float64 8, without a word.
TEST(PerfRun, ASizeThatIsNotMeasuredAsItWasAskedForIsNamed) {
  const auto told = [](std::vector<std::string> words) {
    words.insert(words.begin(), "perf");
    words.insert(words.end(), {"--transport", "tcp", "-i", "1", "-w", "0", "--json"});
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    std::string bytes;
    for (const auto& row : nlohmann::ordered_json::parse(result.out)) bytes += row["bytes"].dump() + " ";
    return bytes + "| " + result.err;
  };
  EXPECT_THAT(told({"allreduce", "-n", "2", "--sizes", "1023,5,0,1"}),
              testing::AllOf(testing::StartsWith("1020 4 0 | "),
                             HasSubstr("1023 B is measured as 1020 B, whole elements of float32"),
                             HasSubstr("5 B is measured as 4 B, whole"),
                             HasSubstr("1 B is measured as 4 B, one element of float32")));
  EXPECT_THAT(told({"allreduce", "-n", "2", "-d", "float64", "--sizes", "12"}),
              testing::AllOf(testing::StartsWith("8 | "), HasSubstr("12 B is measured as 8 B")));
  EXPECT_THAT(told({"reduce_scatter", "-n", "3", "--sizes", "1,2,3,1000"}),
              testing::AllOf(testing::StartsWith("12 996 | "), HasSubstr("1 B is measured as 12 B, one element for"),
                             HasSubstr("3 B is measured as 12 B"), testing::Not(HasSubstr("4 B is measured")),
                             HasSubstr("1000 B is measured as 996 B, equal blocks of whole elements of float32")));
  EXPECT_THAT(told({"reduce_scatter", "-n", "3", "-b", "4", "-e", "64"}),
              testing::AllOf(HasSubstr("4 B is measured as 12 B, one element for each rank; 4 more sizes from -b"),
                             testing::Not(HasSubstr("8 B is measured")), testing::Not(HasSubstr("16 B is measured"))));
}

// Of what is measured by the words of the command line and by the environment alike.
TEST(PerfRun, WireTypeMemoryAndNodesAreInJson) {
  const auto row = [](std::vector<std::string> words, const std::map<std::string, std::string>& settings = {}) {
    words.insert(words.begin(), {"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "4K", "-i", "1"});
    words.insert(words.end(), {"-w", "0", "--json"});
    const auto result = run(words, settings);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::ordered_json::parse(result.out)[0];
  };
  EXPECT_EQ(row({"--wire-type", "bfloat16"})["wire_type"], "bfloat16");
  EXPECT_EQ(row({}, {{"FABRING_WIRE_TYPE", "float16"}})["wire_type"], "float16");
  auto apart = row({"--memory", "mapped", "--split-nodes", "2"});
  EXPECT_EQ(apart["memory"], "mapped");
  EXPECT_EQ(apart["nodes"], 2);
  EXPECT_EQ(apart["wire_type"], "float32");
}

// A script that measures all collectives gives all the same: it goes on, and --strict tells it.
TEST(PerfRun, WhatACollectiveHasNoUseForIsAWarning) {
  const auto warned = [](std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), "perf");
    words.insert(words.end(), {"-n", "2", "--transport", "tcp", "-i", "1", "-w", "0"});
    const auto result = run(words);
    EXPECT_EQ(result.code, code) << result.err;
    return result.err;
  };
  EXPECT_THAT(warned({"allreduce", "--sizes", "4", "--root", "1"}),
              HasSubstr("warning: -r does nothing: allreduce has no root"));
  EXPECT_THAT(warned({"broadcast", "--sizes", "4", "-o", "max"}),
              HasSubstr("-o does nothing: broadcast reduces nothing"));
  EXPECT_THAT(
      warned({"barrier", "--sizes", "4K", "-o", "max", "-d", "int8"}),
      testing::AllOf(HasSubstr("--sizes does nothing"), HasSubstr("-o does nothing"), HasSubstr("-d does nothing")));
  EXPECT_THAT(warned({"barrier", "-o", "max", "--strict"}, 1), HasSubstr("-o does nothing"));
  EXPECT_EQ(warned({"broadcast", "--sizes", "4", "-o", "sum", "-r", "0"}), "") << "as without them";
}

TEST(PerfRun, ASettingThatNoRankTakesIsToldOnce) {
  const auto told = [](std::vector<std::string> words) {
    const auto result = run(words, {{"FABRING_FOO", "1"}});
    EXPECT_NE(result.code, 0);
    return lines(result.err);
  };
  EXPECT_THAT(
      told({"perf", "allreduce", "-n", "16"}),
      testing::ElementsAre(testing::StartsWith("fabring perf: invalid_argument: FABRING_FOO is set in the env")));
  EXPECT_EQ(told({"perf", "allreduce", "-n", "4", "--transport", "inproc"}).size(), 1u);
  EXPECT_EQ(told({"doctor", "bench", "-n", "4"}).size(), 1u);
  EXPECT_EQ(told({"doctor", "net", "-n", "4"}).size(), 1u);
}

TEST(PerfRun, LanesAreThoseThatWereUsed) {
  const auto lanes = [](const char* transport, const std::map<std::string, std::string>& settings) {
    const auto result =
        run({"perf", "allreduce", "-n", "2", "--transport", transport, "--sizes", "4", "-i", "1", "-w", "0", "--json"},
            settings);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? nlohmann::ordered_json::parse(result.out)[0]["lanes"].get<int>() : -1;
  };
  const std::map<std::string, std::string> three{{"FABRING_SOCKETS_PER_PEER", "3"}};
  EXPECT_EQ(lanes("tcp", {}), 1);
  EXPECT_EQ(lanes("tcp", three), 3);
  if (run({"perf", "allreduce", "-n", "2", "--transport", "fabric", "--sizes", "4", "-i", "1"}).code == 0) {
    EXPECT_EQ(lanes("fabric", three), 1);  // the setting is not for it
  }
}

TEST(PerfRun, PlainRepetitionsAreAllThatIsPrinted) {
  // As peers are measured; the last of repeated options counts.
  const auto result = run({"perf",  "allreduce",   "-np",  "2",       "--in-place", "--transport", "tcp", "--format",
                           "plain", "--sizes",     "4,1K", "--reps",  "3",          "--target-ms", "80",  "--cap-s",
                           "4",     "--target-ms", "5",    "--cap-s", "0.5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = lines(result.out);
  ASSERT_EQ(rows.size(), 6U) << result.out;
  for (const std::string& row : rows) EXPECT_THAT(row, testing::MatchesRegex("(4|1024) [0-9.]+ [0-9.]+ [0-9.]+"));
}

TEST(PerfRun, RepetitionsAreInJsonToo) {
  const auto result = run({"perf", "broadcast", "-n", "2", "--transport", "tcp", "--json", "--sizes", "1K", "--reps",
                           "3", "--target-ms", "5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto row = nlohmann::ordered_json::parse(result.out)[0];
  auto each = row["repetitions_us"].get<std::vector<double>>();
  ASSERT_EQ(each.size(), 3U);
  std::sort(each.begin(), each.end());
  EXPECT_EQ(row["time_us"], each[1]);
  EXPECT_EQ(row["p50_us"], each[1]);
  EXPECT_EQ(row["p99_us"], each[2]);
  EXPECT_EQ(row["op"], "none");  // a broadcast reduces nothing
}

TEST(PerfRun, OptionsThatWouldDoNothingAreRefused) {
  for (const auto& [words, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"perf", "allreduce", "-n", "2", "--bucket", "1M"}, "--model"},
           {{"perf", "allreduce", "-n", "2", "--margin", "2"}, "--guard"},
           {{"perf", "allreduce", "-n", "2", "--plot", "a", "--output", "a"}, "the same file"},
           {{"perf", "allreduce", "-n", "2", "--reps", "2", "--target-ms", "5x"}, "a number of milliseconds"},
           {{"perf", "allreduce", "-n", "2", "--timeout", "soon"}, "--timeout: 'soon'"},
           {{"perf", "allreduce", "-n", "2", "--target-ms", "50"}, "--target-ms is for repetitions"},
           {{"perf", "allreduce", "-n", "2", "--cap-s", "1"}, "--cap-s is for repetitions"},
           {{"perf", "allreduce", "-n", "2", "--sizes", "4", "-b", "4"}, "-b would do nothing: --sizes names"},
           {{"perf", "allreduce", "-n", "2", "--sizes", "4", "--end", "8"}, "-e would do nothing: --sizes names"},
           {{"perf", "allreduce", "-n", "2", "--reps", "3", "-i", "4"}, "-i would do nothing"},
           {{"perf", "allreduce", "-n", "2", "--json", "--format", "csv"}, "--json is --format json"},
           {{"perf", "allreduce", "-n", "2", "--format", "csv", "--json"}, "--json is --format json"},
           {{"perf", "--guard", "-n", "2", "-e", "64M"}, "-e would do nothing: --sizes names"},
           {{"perf", "--guard", "-n", "2", "--sizes", "4,0"}, "--sizes: --guard compares"},
           {{"perf", "--guard", "-n", "2", "--begin", "1M"}, "-b would do nothing"},
           {{"perf", "--guard", "-n", "2", "-o", "max"}, "-o would do nothing"},
           {{"perf", "--guard", "-n", "2", "-r", "1"}, "-r would do nothing"},
           {{"perf", "--guard", "-n", "2", "-i", "50"}, "-i would do nothing"},
           {{"perf", "--guard", "-n", "2", "--in-place"}, "--in-place would do nothing"},
           {{"perf", "--guard", "-n", "2", "--no-check"}, "--no-check would do nothing"},
           {{"perf", "broadcast", "--model", "4x1000", "-n", "2"}, "leave out 'broadcast'"},
           {{"perf", "--model", "4x1000", "-n", "2", "--target-ms", "200"}, "give --reps"},
           {{"perf", "--model", "4x1000", "-n", "2", "--out-of-place"}, "--out-of-place would do nothing"},
           {{"perf", "--model", "4x1000", "-n", "2", "--sizes", "4"}, "--sizes would do nothing"},
           {{"perf", "--model", "4x1000", "-n", "2", "-e", "4"}, "-e would do nothing"},
           {{"perf", "--model", "4x1000", "-n", "2", "-r", "1"}, "-r would do nothing"},
           {{"perf", "--model", "4x1000", "-n", "2", "--algorithm", "chain"}, "chain"},
           {{"perf", "allreduce", "-n", "2", "--transport", "inproc,shm"}, "inproc goes alone"},
           {{"perf", "allreduce", "-n", "2", "--offset", "3"},
            "--offset 3 would do nothing: whole elements of float32"},
           {{"perf", "allreduce", "-n", "2", "--memory", "cuda", "--offset", "64"}, "--offset would do nothing"},
           {{"perf", "allreduce", "-n", "2", "--sizes", "0", "--plot", "a.svg"}, "0 bytes have no place on an axis"},
           {{"perf", "--model", "4x1000", "-n", "2", "--algorithm", "broadcast:chain"}, "broadcast:chain"},
       }) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(why));
  }
}

TEST(PerfRun, BuffersMayBeginAnywhereInAPage) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const char* memory : {"host", "mapped"}) {
      const auto result = run({"perf", "alltoall", "-n", "3", "--offset", "13", "--memory", memory, "--transport",
                               transport, "--sizes", "4,100000,1000000", "-i", "2", "-d", "int8", "--format", "json"});
      ASSERT_EQ(result.code, 0) << result.err;
      for (const auto& row : nlohmann::ordered_json::parse(result.out)) EXPECT_EQ(row["wrong"], 0) << row;
    }
  }
  const auto refused = run({"perf", "allreduce", "-n", "2", "--offset", "4096"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("--offset"), HasSubstr("4096"), HasSubstr("0 to 4095")));
}

TEST(PerfRun, WhatCannotRunSaysWhyAndReturns3) {
  const auto result = run({"perf", "allreduce", "-n", "2", "--transport", "fabric", "--sizes", "4"},
                          {{"FABRING_PROVIDER", "no-such-provider"}});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, testing::AnyOf(HasSubstr("no-such-provider"), HasSubstr("built without libfabric")));
  EXPECT_EQ(run({"perf", "allreduce", "-n", "2", "--output", "/no/such/folder/x"}).code, 3);
}

TEST(PerfRun, AModelsGradientsAreRightInBucketsOneByOneAndGrouped) {
  const auto result = run({"perf", "--model", "resnet50", "--bucket", "10M", "-n", "2", "--transport", "tcp", "-i", "1",
                           "-w", "0", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["bucket"], 10 << 20);
  EXPECT_EQ(rows[1]["kind"], "together");
  EXPECT_EQ(rows[1]["calls"], rows[1]["tensors"]);
  EXPECT_GT(rows[1]["calls"], rows[0]["calls"]);
  EXPECT_EQ(rows[2]["kind"], "in_turn");
  EXPECT_EQ(rows[2]["calls"], rows[2]["tensors"]);
  EXPECT_EQ(rows[3]["kind"], "grouped");
  EXPECT_EQ(rows[3]["calls"], 1);
  for (const auto& row : rows) {
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_EQ(row["bytes"], 4 * row["parameters"].get<std::uint64_t>());
    EXPECT_GE(row["wire_bytes_per_rank"], row["least_wire_bytes"]);
    EXPECT_LE(row["wire_bytes_per_rank"], 1.05 * row["least_wire_bytes"].get<double>());
  }
}

TEST(PerfRun, TheGuardComparesEveryCollective) {
  // Whether one is slow says nothing here, where the machine is shared: only that each has a verdict.
  const auto result = run({"perf", "--guard", "-n", "3", "--transport", "tcp", "--sizes", "4,10K", "--reps", "1",
                           "--target-ms", "1", "-w", "0", "--json"});
  const auto rows = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(rows.size(), 14U + 13U) << result.err;
  bool slow = false;
  for (const auto& row : rows) {
    slow = slow || row["slow"];
    EXPECT_EQ(row["attempts"] == 3 || !row["slow"], true) << row;
    EXPECT_EQ(row["slow"], row["time_us"].get<double>() > 1.25 * row["composed_us"].get<double>()) << row;
  }
  EXPECT_EQ(result.code, slow ? 1 : 0);
}

TEST(PerfRun, ThePictureIsRefusedBeforeRanksStartAndWrittenAtTheEnd) {
  const auto refused = run({"perf", "allreduce", "-n", "2", "--plot", "/no/such/folder/x.svg"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--plot /no/such/folder/x.svg: cannot write"));
  EXPECT_EQ(refused.out, "");
  const std::string path = testing::TempDir() + "fabring_perf_plot_" + std::to_string(::getpid()) + ".svg";
  const auto drawn = run({"perf", "allreduce", "-n", "2", "--transport", "tcp", "--sizes", "4,1K", "-i", "1", "--plot",
                          path, "--format", "plain"});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_EQ(lines(drawn.out).size(), 2U) << "one way of the two";
  std::ifstream file(path);
  const std::string picture{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(picture, HasSubstr("busbw (GB/s)"));
  EXPECT_THAT(picture, HasSubstr("out of place"));
  EXPECT_THAT(picture, HasSubstr("in place"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace fabring::tests
