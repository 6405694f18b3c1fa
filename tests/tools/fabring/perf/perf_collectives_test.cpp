// Every collective through `fabring perf`: processes, a real transport, pretended nodes, sizes around the edges; every
// element checked out of place and in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/parse_value.hpp"
#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

// libfabric's psm providers calibrate a clock by sleeping.
const std::map<std::string, std::string> quick_start{{"FI_PROVIDER", "^psm,psm2,psm3"}};

void expect_all_right(const std::string& collective, const std::string& transport, std::vector<std::string> more,
                      std::map<std::string, std::string> settings = {}) {
  settings.insert(quick_start.begin(), quick_start.end());
  std::vector<std::string> arguments{"perf", collective, "--transport", transport, "-i", "2", "-w", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = run(arguments, settings);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("# Out of bounds values : 0 OK")) << collective;
}

struct Case {
  std::string collective, transport;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  const auto transports = parse_list(FABRING_TEST_TRANSPORTS);
  for (const std::string& transport : *transports)
    for (const char* collective : {"allreduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "gather",
                                   "scatter", "alltoall", "barrier"})
      list.push_back({collective, transport});
  return list;
}

class PerfCollectives : public testing::TestWithParam<Case> {};

TEST_P(PerfCollectives, AreRightOnTwoNodesOfTwoRanks) {
  expect_all_right(GetParam().collective, GetParam().transport,
                   {"-n", "4", "--split-nodes", "2", "--sizes", "0,4,1000,70K,3M"});
}

INSTANTIATE_TEST_SUITE_P(All, PerfCollectives, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.collective + "_" + one.param.transport; });

TEST(PerfCollectives, AreRightWhenReproducible) {
  for (const char* collective : {"allreduce", "reduce_scatter"})
    expect_all_right(collective, "tcp", {"-n", "4", "--split-nodes", "2", "--sizes", "4,1000,70K,1M"},
                     {{"FABRING_REPRODUCIBLE", "1"}});
}

TEST(PerfCollectives, MeasureABroadcastWithItsOneBufferUnlessToldOtherwise) {
  const auto shown = [](const std::string& collective, std::vector<std::string> more) {
    std::vector<std::string> arguments{"perf", collective, "-n", "2", "--transport", "tcp", "--sizes", "1K", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = run(arguments, quick_start);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  };
  const auto in_place = testing::HasSubstr("\"in_place\":true"), apart = testing::HasSubstr("\"in_place\":false");
  EXPECT_THAT(shown("broadcast", {}), in_place);
  EXPECT_THAT(shown("broadcast", {"--out-of-place"}), apart);
  EXPECT_THAT(shown("reduce", {}), apart);
  EXPECT_THAT(shown("reduce", {"--in-place"}), in_place);
  const auto both = run({"perf", "broadcast", "-n", "2", "--in-place", "--out-of-place"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, testing::HasSubstr("--in-place and --out-of-place: take one"));
}

// --explain names the way behind each measurement.
TEST(PerfCollectives, MeasureABroadcastTheSameWayBesideAPicture) {
  const std::string picture = testing::TempDir() + "fabring-broadcast-" + std::to_string(::getpid()) + ".svg";
  for (const char* format : {"plain", "osu"}) {
    const auto shown = run({"perf", "broadcast", "-n", "2", "--transport", "tcp", "--sizes", "1K", "--format", format,
                            "--reps", "1", "--target-ms", "1", "--explain", "--plot", picture});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.err, testing::HasSubstr("1 KiB in place: ")) << format;
  }
  ::unlink(picture.c_str());
}

TEST(PerfCollectives, AreRightOnThreeRanksWithTheLastAsRoot) {
  for (const char* collective : {"allreduce", "reduce", "scatter"})
    expect_all_right(collective, "tcp", {"-n", "3", "-r", "2", "--sizes", "4,1000,1M", "-d", "bfloat16"});
}

}  // namespace
}  // namespace fabring::tests
