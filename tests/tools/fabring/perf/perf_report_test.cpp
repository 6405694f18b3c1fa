#include "tools/fabring/perf/perf_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "tests/tools/fabring/program.hpp"
#include "tools/fabring/bandwidth.hpp"
#include "tools/fabring/perf/model_report.hpp"

namespace fabring::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Measurement sample(bool in_place = false) {
  Measurement m;
  m.bytes = 4'000'000;
  m.count = 1'000'000;
  m.in_place = in_place;
  m.time_us = 2000;
  m.repetitions_us = {2000, 2500};
  m.p50_us = 1900;
  m.p99_us = 2400;
  m.wire_bytes_per_rank = 6'000'100;
  m.algorithm = "ring";
  return m;
}

std::string report(Format format, const std::vector<std::vector<Measurement>>& sizes) {
  PerfOptions options;
  options.format = format;
  PerfReport report(options, {4, 2, "tcp", 2, {"transport tcp 127.0.0.1"}});
  std::string text = report.header();
  for (const auto& measurements : sizes) text += report.size_done(measurements);
  return text + report.footer();
}

TEST(PerfReport, BandwidthsFollowTheDefinitions) {
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(4'000'000, 2000), 2.0);
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(0, 0), 0.0);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::allreduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::allreduce, 1), 0.0);
}

TEST(PerfReport, WhatReducesNothingHasNoOperation) {
  for (const Collective collective : {Collective::broadcast, Collective::allreduce}) {
    PerfOptions options;
    options.collective = collective;
    for (const auto& [format, before, after] :
         {std::tuple{Format::json, R"("op":")", R"(")"}, std::tuple{Format::csv, ",float32,", ","},
          std::tuple{Format::osu, "float32, ", "\n"}}) {
      options.format = format;
      PerfReport report(options, {4, 2, "tcp", 2, {}});
      const std::string text = report.header() + report.size_done({sample()}) + report.footer();
      EXPECT_THAT(text, HasSubstr(before + std::string(collective == Collective::broadcast ? "none" : "sum") + after));
    }
  }
}

TEST(PerfReport, PlainIsOneLinePerRepetitionAndNothingElse) {
  EXPECT_EQ(report(Format::plain, {{sample()}}),
            "4000000 2000.000 2.000000 3.000000\n4000000 2500.000 1.600000 2.400000\n");
}

TEST(PerfReport, JsonIsAnArrayWithEverything) {
  const auto list = nlohmann::ordered_json::parse(report(Format::json, {{sample()}, {sample(true)}}));
  ASSERT_EQ(list.size(), 2U);
  std::vector<std::string> names;
  const auto ordered = nlohmann::ordered_json::parse(report(Format::json, {{sample()}}));
  for (const auto& [name, value] : ordered[0].items()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("collective", "ranks", "bytes", "count", "dtype", "op", "in_place", "transport",
                                 "algorithm", "lanes", "time_us", "p50_us", "p99_us", "algbw_GBps", "busbw_GBps",
                                 "wrong", "wire_bytes_per_rank", "wire_type", "memory", "nodes"));
  EXPECT_EQ(list[0]["busbw_GBps"], 3.0);
  EXPECT_EQ(list[0]["wire_type"], "float32");
  EXPECT_EQ(list[0]["memory"], "host");
  EXPECT_EQ(list[0]["nodes"], 2);
  EXPECT_EQ(list[0]["in_place"], false);
  EXPECT_EQ(list[1]["in_place"], true);
  EXPECT_EQ(list[0]["wire_bytes_per_rank"], 6'000'100);
  EXPECT_EQ(nlohmann::ordered_json::parse(report(Format::json, {})).size(), 0U);
}

// A run with bfloat16 on the wire, or in mapped memory, was like any other.
TEST(PerfReport, SaysUnderWhichConditionsItWasMeasured) {
  PerfOptions options;
  options.mapped = true;
  JobFacts facts{4, 2, "tcp", 1, {}};
  facts.wire_type = DataType::bfloat16;
  for (const auto& [format, text] : {std::pair{Format::json, R"("wire_type":"bfloat16","memory":"mapped","nodes":2)"},
                                     {Format::csv, ",bfloat16,mapped,2\n"}}) {
    options.format = format;
    EXPECT_THAT(PerfReport(options, facts).size_done({sample()}), HasSubstr(text));
  }
}

TEST(PerfReport, CsvHasAHeaderAndARowPerSize) {
  const auto rows = tests::lines(report(Format::csv, {{sample()}, {sample(true)}}));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0],
            "collective,ranks,bytes,count,dtype,op,in_place,transport,algorithm,lanes,time_us,p50_us,p99_us,algbw_GBps,"
            "busbw_GBps,"
            "wrong,wire_bytes_per_rank,wire_type,memory,nodes");
  EXPECT_EQ(rows[1],
            "allreduce,4,4000000,1000000,float32,sum,false,tcp,ring,2,2000.000,1900.000,2400.000,2.000000,3.000000,0,"
            "6000100,float32,host,2");
}

TEST(PerfReport, TableHasTheColumnsOfNcclTests) {
  Measurement wrong = sample(true);
  wrong.wrong = 3;
  const std::string text = report(Format::table, {{sample(), sample(true)}});
  EXPECT_THAT(text, testing::ContainsRegex("size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw "
                                           "+busbw +#wrong +p50 +p99 +p50 +p99\n"));
  EXPECT_THAT(
      text,
      testing::ContainsRegex(
          " 4000000 +1000000 +float32 +sum +-1 +2000.0 +2.00 +3.00 +0 +2000.0 +2.00 +3.00 +0 +1900.0 +2400.0 +1900.0 "
          "+2400.0\n"));
  EXPECT_THAT(text, HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3\n"));
  EXPECT_THAT(text, HasSubstr("4 ranks on 2 nodes, transport tcp"));
  EXPECT_THAT(report(Format::table, {{sample(), wrong}}), HasSubstr("# Out of bounds values : 3 FAILED"));
  EXPECT_THAT(report(Format::table, {{sample(true)}}),
              testing::ContainsRegex("-1 +- +- +- +- +2000.0.* - +- +1900.0 +2400.0\n"));
}

TEST(PerfReport, OsuHasSizeAndLatency) {
  EXPECT_THAT(report(Format::osu, {{sample()}}), testing::ContainsRegex("\n4000000 +2000.00\n$"));
}

Choice choice_of(double predicted_us) { return {"ring", "", {{"star", 1, ""}, {"ring", predicted_us, ""}}}; }

TEST(PerfExplain, PredictedStandsBesideMeasured) {
  PredictionLines lines;
  EXPECT_EQ(lines.summary(), "nothing was predicted");
  EXPECT_EQ(lines.add(choice_of(1000), sample()), "4000000 B: ring predicted 1000.0 us, measured 2000.0 us (0.50x)");
  EXPECT_EQ(lines.add(choice_of(4000), sample(true)),
            "4000000 B in place: ring predicted 4000.0 us, measured 2000.0 us (2.00x)");
  EXPECT_EQ(lines.add({"ring", "", {{"ring", 0, "left out"}}}, sample()),
            "4000000 B: ring measured 2000.0 us, no prediction");
  (void)lines.add(choice_of(2400), sample());
  (void)lines.add(choice_of(2401), sample());
  (void)lines.add(choice_of(1600), sample());
  EXPECT_EQ(lines.summary(),
            "2 of 5 predictions within 20% of what was measured; farthest off: 4000000 B: ring (0.50x)");
}

// "(0.00x)" of what was predicted far too low did not say by how much.
TEST(PerfExplain, ARatioHasTwoDigitsHoweverSmall) {
  PredictionLines lines;
  EXPECT_THAT(lines.add(choice_of(8.4), sample()), HasSubstr("predicted 8.40 us, measured 2000.0 us (0.0042x)"));
  EXPECT_THAT(lines.summary(), HasSubstr("farthest off: 4000000 B: ring (0.0042x)"));
}

TEST(PerfExplain, WhatIsPredictedForOrdinaryMemoryIsNotComparedWithMapped) {
  PredictionLines lines(true);
  EXPECT_EQ(lines.add(choice_of(4000), sample()),
            "4000000 B: ring predicted 4000.0 us in ordinary memory, measured 2000.0 us in mapped");
  EXPECT_THAT(lines.summary(), testing::StartsWith("predictions are for ordinary memory"));
}

TEST(PerfPlot, HasACurveForEachWayAndLeavesOutWhatHasNoPlace) {
  Measurement nothing;
  const Chart chart = bandwidth_chart({}, {4, 2, "tcp", 1, {}}, {nothing, sample(), sample(true)});
  EXPECT_EQ(chart.title, "fabring allreduce: 4 ranks on 2 nodes, transport tcp, float32");
  ASSERT_EQ(chart.curves.size(), 2U);
  EXPECT_EQ(chart.curves[0].name, "out of place");
  EXPECT_EQ(chart.curves[1].name, "in place");
  for (const Curve& curve : chart.curves) EXPECT_THAT(curve.points, ElementsAre(std::pair(4e6, 3.0)));  // bytes, busbw
  EXPECT_THAT(draw(bandwidth_chart({}, {1, 1, "tcp", 1, {}}, {sample()})), HasSubstr("</svg>"));        // busbw 0
}

std::string model_report(Format format) {
  PerfOptions options;
  options.format = format;
  options.model = "resnet50";
  const JobFacts facts{4, 1, "tcp", 1, {}};
  const ModelReport report(options, facts, {161, 25'557'032});
  Measurement measured = sample(true);
  measured.wire_bytes_per_rank = 6'060'000;
  const ModelStep buckets{Calls::buckets, 25U << 20, 5, 3, measured};
  ModelStep tensors = buckets;
  tensors.kind = Calls::together;
  tensors.bucket = 0;
  tensors.calls = 161;
  return report.header() + report.row(buckets, true) + report.row(tensors, false) + report.footer();
}

TEST(ModelReport, TheLeastIsOfWhatTravels) {
  PerfOptions options;
  options.format = Format::json;
  JobFacts facts{4, 1, "tcp", 1, {}};
  facts.wire_type = DataType::bfloat16;
  const ModelReport report(options, facts, {161, 25'557'032});
  const std::string row = report.row({Calls::buckets, 25U << 20, 5, 3, sample(true)}, true);
  EXPECT_EQ(nlohmann::ordered_json::parse(row)["least_wire_bytes"], 3'000'000);
}

TEST(PerfReport, ANameWithACommaStaysOneFieldOfCsv) {
  Measurement named = sample();
  named.algorithm = "mine, \"the best\"";
  EXPECT_THAT(report(Format::csv, {{named}}), HasSubstr(",\"mine, \"\"the best\"\"\","));
}

// Where the numbers stand on the axis.
std::vector<std::string> labels_below(const std::string& svg) {
  std::vector<std::string> found;
  const std::regex label("<text x=\"([0-9.]+)\" y=\"418.0\"[^>]*>([^<]*)</text>");
  for (std::sregex_iterator each(svg.begin(), svg.end(), label), end; each != end; ++each)
    found.push_back((*each)[1].str() + " " + (*each)[2].str());
  return found;
}

TEST(PerfPlot, HasNumbersOnItsAxisWhereNoPowerOfFourIs) {
  const auto at = [](std::size_t bytes) {
    Measurement one = sample();
    one.bytes = bytes;
    return one;
  };
  const auto drawn = [](const std::vector<Measurement>& all) {
    return labels_below(draw(bandwidth_chart({}, {4, 1, "tcp", 1, {}}, all)));
  };
  EXPECT_THAT(drawn({at(5 << 20)}), ElementsAre("359.0 5M"));
  EXPECT_THAT(drawn({at(5 << 20), at(10 << 20)}), ElementsAre("78.0 5M", "640.0 10M"));
  EXPECT_THAT(drawn({at(1 << 20), at(16 << 20)}), ElementsAre("78.0 1M", "359.0 4M", "640.0 16M"));
}

TEST(ModelReport, ShowsBucketsBesideOneCallForEachTensor) {
  const std::string table = model_report(Format::table);
  EXPECT_THAT(table, HasSubstr("161 tensors, 25557032 parameters, 97.5 MiB of float32"));
  EXPECT_THAT(table, testing::ContainsRegex(
                         "25 MiB +5 +2000.0 +1900.0 +2400.0 +3 +2.00 +3.00 +6060000 +1.010 +0\n +one tensor +161 "));
  const auto rows = nlohmann::ordered_json::parse(model_report(Format::json));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["bucket"], 25 << 20);
  EXPECT_EQ(rows[1]["calls"], 161);
  EXPECT_EQ(rows[0]["least_wire_bytes"], 6'000'000);
  for (const char* key :
       {"collective", "ranks", "bytes", "count", "dtype", "op", "in_place", "transport", "algorithm", "lanes",
        "time_us", "p50_us", "p99_us", "algbw_GBps", "busbw_GBps", "wrong", "wire_bytes_per_rank"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  EXPECT_EQ(rows[0]["collective"], "allreduce");
  // Lines of one way only, as of a collective.
  EXPECT_EQ(model_report(Format::plain), "4000000 2000.000 2.000000 3.000000\n4000000 2500.000 1.600000 2.400000\n");
  EXPECT_THAT(tests::lines(model_report(Format::osu)), testing::SizeIs(3));
  const auto csv = tests::lines(model_report(Format::csv));
  ASSERT_EQ(csv.size(), 3U);
  EXPECT_EQ(std::count(csv[0].begin(), csv[0].end(), ','), std::count(csv[1].begin(), csv[1].end(), ','));
}

TEST(PerfSizes, StepsAndLists) {
  EXPECT_THAT(*size_steps("4", "64", 2), ElementsAre(4U, 8U, 16U, 32U, 64U));
  EXPECT_THAT(*size_steps("1K", "4K", 1.5), ElementsAre(1024U, 1536U, 2304U, 3456U));
  EXPECT_THAT(*size_steps("0", "4", 2), ElementsAre(0U, 2U, 4U));
  EXPECT_THAT(*size_steps("8", "8", 2), ElementsAre(8U));
  EXPECT_FALSE(size_steps("8", "4", 2));
  EXPECT_FALSE(size_steps("4", "8", 1));
  EXPECT_FALSE(size_steps("four", "8", 2));
  EXPECT_THAT(*parse_sizes("4,1K,3M"), ElementsAre(4U, 1024U, 3U << 20));
  EXPECT_FALSE(parse_sizes("4,,5"));
  EXPECT_THAT(whole_elements({0, 1, 4, 7, 9}, DataType::float32), ElementsAre(0U, 4U, 8U));
}

TEST(Perf, SaysWhatIsWrongWithItsUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"perf"}, "collective"},
      {{"perf", "allredcue"}, "did you mean 'allreduce'?"},
      {{"perf", "alltoall", "--root", "-1"}, "--root"},
      {{"perf", "reduce", "-d", "bool", "-o", "avg"}, "bool has no such operation"},
      {{"perf", "reduce", "-o", "user"}, "a function of a program's own"},
      {{"perf", "allreduce", "--algorithm", "allreduce:1M-2K:ring"}, "--algorithm"},
      {{"perf", "send"}, "'send' is not a collective"},
      {{"perf", "allreduce", "-n", "2", "-r", "2"}, "--root 2: ranks are 0 to 1"},
      {{"perf", "--model", "resnet5"}, "did you mean 'resnet50'?"},
      {{"perf", "broadcast", "--model", "resnet50"}, "leave out 'broadcast'"},
      {{"perf", "--guard", "--format", "osu"}, "--guard has table and json"},
      {{"perf", "--model", "gpt2", "--bucket", "lots"}, "--bucket: "},
      {{"perf", "--model", "gpt2", "--plot", "x.svg"}, "--plot draws a collective"},
      {{"perf", "--guard", "--model", "gpt2"}, "take one"},
      {{"perf", "--guard", "-n", "1"}, "--guard needs 2 ranks"},
      {{"perf", "--guard", "--margin", "0.5"}, "--margin"},
      {{"perf", "barrier", "--plot", "x.svg"}, "no bandwidth"},
      {{"perf", "allreduce", "-d", "flaot32"}, "did you mean 'float32'?"},
      {{"perf", "allreduce", "-o", "summ"}, "did you mean 'sum'?"},
      {{"perf", "allreduce", "--transport", "fabrik"}, "did you mean 'fabric'?"},
      {{"perf", "allreduce", "--algorithm", "rnig"}, "did you mean 'ring'?"},
      {{"perf", "broadcast", "--algorithm", "recursive_doubling"}, "is not one that broadcast has: auto, ring"},
      {{"perf", "allreduce", "--algorithm", "broadcast:chain"}, "is not one that allreduce has"},
      {{"perf", "allreduce", "--format", "xml"}, "xml"},
      {{"perf", "allreduce", "-b", "1M", "-e", "4"}, "-e 4 is less than -b 1M"},
      {{"perf", "allreduce", "--sizes", "1X"}, "--sizes: "},
      {{"perf", "allreduce", "--no-chekc"}, "did you mean '--no-check'?"},
      {{"perf", "allreduce", "--memory", "gpu"}, "--memory"},
      {{"perf", "allreduce", "--split-nodes", "2"}, "--split-nodes 2 needs -n"},
      {{"perf", "allreduce", "--", "x"}, "--"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = tests::run(arguments);
    EXPECT_EQ(result.code, 2) << expected << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

TEST(Perf, WithoutALauncherItSaysHowToStartRanks) {
  const auto result = tests::run({"perf", "allreduce"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no rank"));
  EXPECT_THAT(result.err, HasSubstr("-n N"));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace fabring::tools
