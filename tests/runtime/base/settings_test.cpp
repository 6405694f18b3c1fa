#include "runtime/base/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(ParseValue, DurationsTakeUnitsAndMeanSecondsWithoutOne) {
  const std::pair<const char*, int> good[] = {{"30", 30'000}, {"30s", 30'000},      {"500ms", 500},    {"5m", 300'000},
                                              {"1.5s", 1500}, {" 2 min ", 120'000}, {"1h", 3'600'000}, {"0.001", 1}};
  for (const auto& [text, expected] : good) {
    auto value = parse_duration(text);
    ASSERT_TRUE(value) << text << ": " << value.error().message();
    EXPECT_EQ(*value, milliseconds(expected)) << text;
  }
  for (const char* text :
       {"", "s", "-1", "+5", "0", "1x", "5 s s", "1e3", "inf", "nan", "0x10", "1.2.3", "999999d", "1,5"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(ParseValue, SizesTakeBinaryUnits) {
  const std::pair<const char*, std::uint64_t> good[] = {{"0", 0},           {"4096", 4096},      {"64K", 65536},
                                                        {"512KiB", 524288}, {"1M", 1 << 20},     {"1.5m", 3 << 19},
                                                        {"2G", 2ULL << 30}, {"5GB", 5ULL << 30}, {"7 B", 7}};
  for (const auto& [text, expected] : good) {
    auto value = parse_size(text);
    ASSERT_TRUE(value) << text << ": " << value.error().message();
    EXPECT_EQ(*value, expected) << text;
  }
  for (const char* text : {"", "K", "-1", "1.5", "0.3K", "12Q", "1 K K", "99999999999T"})
    EXPECT_FALSE(parse_size(text)) << text;
}

TEST(ParseValue, IntegersAreWholeAndInRange) {
  EXPECT_EQ(*parse_integer("7", 0, 7), 7);
  for (const char* text : {"8", "-1", "", "7x", "7.0", "99999999999999999999", "0x7"})
    EXPECT_FALSE(parse_integer(text, 0, 7)) << text;
  EXPECT_THAT(parse_integer("8", 0, 7).error().message(), HasSubstr("0 to 7"));
}

TEST(ParseValue, ListsAndFlags) {
  EXPECT_THAT(*parse_list("a, b,c"), testing::ElementsAre("a", "b", "c"));
  for (const char* text : {"", "a,,b", "a,", ","}) EXPECT_FALSE(parse_list(text)) << text;
  EXPECT_TRUE(*parse_flag("yes"));
  EXPECT_FALSE(*parse_flag("0"));
  EXPECT_FALSE(parse_flag("maybe"));
}

TEST(ParseValue, TextsOfValuesCanBeReadBack) {
  for (std::int64_t ms : {1LL, 500LL, 30'000LL, 90'000LL, 300'000LL, 3'600'000LL})
    EXPECT_EQ(*parse_duration(duration_text(milliseconds(ms))), milliseconds(ms));
  for (std::uint64_t bytes : {0ULL, 3ULL, 65536ULL, 65537ULL, 1ULL << 30})
    EXPECT_EQ(*parse_size(size_text(bytes)), bytes);
}

TEST(NearestName, CountsInsertionsRemovalsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("ring", "ring"), 0U);
  EXPECT_EQ(edit_distance("ring", "RING"), 0U);
  EXPECT_EQ(edit_distance("rnig", "ring"), 1U);
  EXPECT_EQ(edit_distance("rin", "ring"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
}

TEST(NearestName, IsSilentWhenNothingIsNear) {
  const std::string_view known[] = {"ring", "hierarchical"};
  EXPECT_EQ(nearest_name("rinf", known), "ring");
  EXPECT_EQ(nearest_name("butterfly", known), "");
  EXPECT_EQ(did_you_mean("rinf", known), "; did you mean 'ring'?");
  EXPECT_EQ(did_you_mean("butterfly", known), "");
}

// What all of them begin with says nothing of which one was meant.
TEST(NearestName, GoesByWhatNamesDoNotShare) {
  const std::string_view known[] = {"FABRING_RANK", "FABRING_WORLD_SIZE", "FABRING_TRANSPORT"};
  EXPECT_EQ(nearest_name("FABRING_SIZE", known), "FABRING_WORLD_SIZE") << "a word is missing";
  EXPECT_EQ(nearest_name("fabring_world_sice", known), "FABRING_WORLD_SIZE");
  EXPECT_EQ(nearest_name("FABRING_TRANSPROT", known), "FABRING_TRANSPORT");
  EXPECT_EQ(nearest_name("FABRIN_RANK", known), "FABRING_RANK");
  EXPECT_EQ(nearest_name("FABRING_HOST", known), "");
  const std::string_view short_ones[] = {"FABRING_LOG", "-h"};
  EXPECT_EQ(nearest_name("FABRING_LGO", short_ones), "FABRING_LOG");
  EXPECT_EQ(nearest_name("FABRING_FOO", short_ones), "") << "two of three letters differ";
  EXPECT_EQ(nearest_name("-n", short_ones), "");
  const std::string_view fields[] = {"latency_ns", "lanes"};
  EXPECT_EQ(nearest_name("latency_n", fields), "latency_ns");
  EXPECT_EQ(nearest_name("FABRING_", known), "");
}

TEST(Settings, EveryRowSetsItsOwnFieldAndShowsIt) {
  const std::map<std::string_view, std::string> samples{
      {"integer", "3"}, {"duration", "7s"}, {"size", "128K"}, {"flag", "yes"}};
  std::set<std::string> shown;
  for (const Setting& row : settings()) {
    std::string text = "sample";
    if (const auto sample = samples.find(row.type); sample != samples.end()) text = sample->second;
    if (!row.choices.empty()) text = row.choices.substr(row.choices.rfind(',') + 1);
    Config config;
    const std::string before = row.show(config);
    if (row.type == "flag" && before == "yes") text = "no";
    const Status status = apply_setting(row, text, config);
    ASSERT_TRUE(status.ok()) << row.name << ": " << status.message();
    EXPECT_NE(row.show(config), before) << row.name;
    // Only this row's field moved: every other row shows its default still.
    const Config untouched;
    for (const Setting& other : settings()) {
      if (other.name != row.name) {
        EXPECT_EQ(other.show(config), other.show(untouched)) << row.name << " / " << other.name;
      }
    }
    EXPECT_FALSE(default_text(row).empty()) << row.name;
    EXPECT_TRUE(row.name.starts_with("FABRING_")) << row.name;
    EXPECT_GT(row.paragraph.size(), 20U) << row.name;
  }
}

TEST(Settings, AnEnvironmentFillsTheConfig) {
  Config config;
  const Status status = apply_settings({{"FABRING_RANK", "2"},
                                        {"FABRING_TIMEOUT", "5m"},
                                        {"FABRING_SEGMENT_BYTES", "512KiB"},
                                        {"FABRING_TRANSPORT", "fabric, tcp"},
                                        {"FABRING_EXPLAIN", "1"},
                                        {"FABRING_DEPTH", ""},
                                        {"HOME", "/root"},
                                        {"FABRIC", "x"}},
                                       config);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(config.rank, 2);
  EXPECT_EQ(config.timeout, milliseconds(300'000));
  EXPECT_EQ(config.segment_bytes, 512U * 1024);
  EXPECT_EQ(config.transport, "fabric,tcp");
  EXPECT_TRUE(config.explain);
  EXPECT_EQ(config.depth, 0);
}

TEST(Settings, AnUnknownNameIsRefusedWithTheNearestOne) {
  Config config;
  const Status status = apply_settings({{"FABRING_WORLDSIZE", "4"}}, config);
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("FABRING_WORLDSIZE"));
  EXPECT_THAT(status.message(), HasSubstr("did you mean 'FABRING_WORLD_SIZE'?"));
}

TEST(Settings, ABadValueIsRefusedWithItsNameAndWhatIsAllowed) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"FABRING_RANK", "-1", "out of range"},
      {"FABRING_RANK", "two", "not a whole number"},
      {"FABRING_WORLD_SIZE", "0", "out of range"},
      {"FABRING_SILENCE_TIMEOUT", "1s", "less than 2 s"},
      {"FABRING_SOCKETS_PER_PEER", "17", "1 to 16"},
      {"FABRING_WORLD_SIZE", "2000000000", "out of range"},
      {"FABRING_MASTER_PORT", "65536", "1 to 65535"},
      {"FABRING_LOG", "verbose", "none, error, warning, info, debug"},
      {"FABRING_LOG", "debgu", "did you mean 'debug'?"},
      {"FABRING_MACHINE", "efa-40", "did you mean 'efa-400'?"},
      {"FABRING_MACHINE", "mine.json", "a file is written with a slash: ./mine.json"},
      {"FABRING_TRANSPORT", "tcp,fabrik", "did you mean 'fabric'?"},
      {"FABRING_TRANSPORT", "auto,tcp", "auto stands alone"},
      {"FABRING_TIMEOUT", "soon", "not a duration"},
      {"FABRING_SCRATCH_BYTES", "1", "less than 4 KiB"},
      {"FABRING_SCRATCH_BYTES", "32T", "more than 4 TiB"},
      {"FABRING_MAPPED_BYTES", "8000T", "more than 32 TiB"},
      {"FABRING_STAGING_BYTES", "5T", "more than 4 TiB"},
      {"FABRING_EXPLAIN", "perhaps", "neither yes"},
      {"FABRING_JOB_ID", "a\nb", "control character"},
      {"FABRING_HOST_ID", "a\x1b[31mb", "FABRING_HOST_ID=a\\x1b[31mb: it holds"},
      {"FABRING_DEPTH", "\n7", "FABRING_DEPTH=\\x0a7: "},
  };
  for (const auto& [name, value, expected] : cases) {
    Config config;
    const Status status = apply_settings({{name, value}}, config);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << name;
    EXPECT_THAT(status.message(), HasSubstr(std::string(name) + "="));
    EXPECT_THAT(status.message(), HasSubstr(expected)) << name << "=" << value;
  }
}

TEST(Settings, WithoutANameIsNone) {
  Config config;
  EXPECT_THAT(apply_setting("", "7", config).message(), HasSubstr("'' is not a setting"));
}

// What Kubernetes sets in every container where a Service fabring-master, fabring or fabring-b has ports 29431 and 53.
TEST(Settings, VariablesOfServicesArePassedOver) {
  Config config;
  const Environment environment{{"FABRING_MASTER_SERVICE_HOST", "10.96.0.7"},
                                {"FABRING_MASTER_SERVICE_PORT", "29431"},
                                {"FABRING_MASTER_SERVICE_PORT_MEET", "29431"},
                                {"FABRING_MASTER_PORT_29431_TCP", "tcp://10.96.0.7:29431"},
                                {"FABRING_MASTER_PORT_29431_TCP_PROTO", "tcp"},
                                {"FABRING_MASTER_PORT_29431_TCP_PORT", "29431"},
                                {"FABRING_MASTER_PORT_29431_TCP_ADDR", "10.96.0.7"},
                                {"FABRING_B_PORT", "udp://10.96.0.8:53"},
                                {"FABRING_B_PORT_53_UDP", "udp://10.96.0.8:53"},
                                {"FABRING_PORT", "tcp://10.96.0.9:29431"},
                                {"FABRING_SERVICE_HOST", "10.96.0.9"},
                                {"FABRING_SERVICE_PORT", "29431"},
                                {"FABRING_PORT_29431_TCP", "tcp://10.96.0.9:29431"},
                                {"FABRING_DEPTH", "3"}};
  const Status status = apply_settings(environment, config);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(config.depth, 3);
  for (const auto& [name, value] : environment) EXPECT_TRUE(apply_setting(name, value, config).ok()) << name;
}

TEST(Settings, WhatOnlyLooksLikeAServiceIsRefusedStill) {
  for (const auto& [name, value] : Environment{{"FABRING_MASTERPORT", "29431"},
                                               {"FABRING_MASTER_PORTS", "tcp://10.96.0.7:29431"},
                                               {"FABRING_PORT", "29431"},
                                               {"FABRING_PORT_TCP", "29431"},
                                               {"FABRING_PORT_1_TCPS", "29431"}}) {
    Config config;
    EXPECT_EQ(apply_settings({{name, value}}, config).code(), ErrorCode::invalid_argument) << name;
    EXPECT_EQ(apply_setting(name, value, config).code(), ErrorCode::invalid_argument) << name;
  }
}

TEST(Settings, APortThatAServiceHidesSaysSo) {
  Config config;
  const Status status = apply_settings({{"FABRING_MASTER_PORT", "tcp://10.96.0.7:29431"}}, config);
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("FABRING_MASTER_PORT=tcp://10.96.0.7:29431: "));
  EXPECT_THAT(status.message(), HasSubstr("Service named 'fabring-master'"));
  EXPECT_THAT(status.message(), HasSubstr("enableServiceLinks: false"));
}

TEST(Settings, TheMarkdownTableHasARowForEach) {
  const std::string table = settings_markdown();
  for (const Setting& row : settings()) EXPECT_THAT(table, HasSubstr("| `" + std::string(row.name) + "` |"));
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')), settings().size() + 2);
}

}  // namespace
}  // namespace fabring
