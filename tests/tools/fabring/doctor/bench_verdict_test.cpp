// Matrices made by hand: what is slow is named as a node, a link or a direction, and noise is not.

#include "tools/fabring/doctor/bench_verdict.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>

#include "tools/fabring/doctor/bench_picture.hpp"
#include "tools/fabring/doctor/resent_segments.hpp"
#include "tools/fabring/doctor/tournament.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;

BenchMatrix even(std::size_t players, double GBps = 1.0, double noise = 0.05) {
  BenchMatrix matrix;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> about(1 - noise, 1 + noise);
  matrix.GBps.assign(players, std::vector<double>(players));
  matrix.latency_us = matrix.GBps;
  for (std::size_t a = 0; a < players; ++a) {
    matrix.names.push_back("host" + std::to_string(a));
    for (std::size_t b = 0; b < players; ++b) {
      if (a == b) continue;
      matrix.GBps[a][b] = GBps * about(random);
      matrix.latency_us[a][b] = 30;
    }
  }
  return matrix;
}

std::vector<std::string> bad(const BenchMatrix& matrix) {
  std::vector<std::string> found;
  for (const Finding& finding : judge(matrix))
    if (finding.severity == Severity::warning || finding.severity == Severity::critical)
      found.push_back(finding.id + " " + finding.where);
  return found;
}

TEST(BenchVerdict, AHostThatIsFarFromAllOthersIsNamed) {
  BenchMatrix matrix = even(4);
  for (std::size_t i = 0; i < 4; ++i)
    if (i != 2) matrix.latency_us[2][i] = matrix.latency_us[i][2] = 10'000;
  EXPECT_EQ(bad(matrix), std::vector<std::string>{"bench.slow_latency host2"});
  EXPECT_THAT(judge(matrix)[0].what, testing::HasSubstr("10 ms away"));
  matrix.latency_us[0][2] = matrix.latency_us[2][0] = 30;  // then it is not the host
  for (const std::string& finding : bad(matrix)) EXPECT_NE(finding, "bench.slow_latency host2");
}

TEST(BenchVerdict, LostMessagesAreTheHostsAtWhichTheyMeet) {
  BenchMatrix matrix = even(4);
  matrix.messages.assign(4, std::vector<double>(4, 100));
  matrix.resent.assign(4, std::vector<double>(4, 0));
  matrix.resent[0][3] = 2;
  EXPECT_TRUE(bad(matrix).empty()) << "two are chance";
  matrix.resent[1][0] = matrix.resent[3][1] = matrix.resent[1][2] = 3;
  EXPECT_EQ(bad(matrix), std::vector<std::string>{"bench.loss host1"});
  EXPECT_THAT(judge(matrix)[0].what, testing::HasSubstr("9 of 600"));
  matrix.resent[2][3] = 9;
  EXPECT_EQ(bad(matrix), std::vector<std::string>{"bench.loss "}) << "everywhere";
  matrix.messages.assign(4, std::vector<double>(4, 1e6));
  EXPECT_TRUE(bad(matrix).empty());
}

TEST(ResentSegments, AreReadFromTheKernelsTable) {
  const auto folder = std::filesystem::temp_directory_path() / ("fabring-snmp-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "proc/self/net");
  std::ofstream(folder / "proc/self/net/snmp")
      << "Ip: A B\nIp: 1 2\nTcp: X RetransSegs Y\nTcp: 5 77 6\nUdp: Q\nUdp: 1\n";
  EXPECT_EQ(resent_segments(folder), 77u);
  std::ofstream(folder / "proc/self/net/snmp") << "Tcp: nonsense";
  EXPECT_FALSE(resent_segments(folder).has_value());
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(resent_segments(folder).has_value());
}

TEST(Tournament, EverybodyMeetsEverybodyOnceAndNobodyPlaysTwiceInARound) {
  for (int players = 0; players < 20; ++players)
    for (int at_once : {1, 2, 100}) {
      std::set<std::pair<int, int>> met;
      for (const Pairing& round : tournament(players, at_once)) {
        std::set<int> playing;
        EXPECT_LE(static_cast<int>(round.size()), at_once);
        for (const auto& [a, b] : round) {
          EXPECT_LT(a, b);
          EXPECT_TRUE(playing.insert(a).second && playing.insert(b).second);
          EXPECT_TRUE(met.insert({a, b}).second);
        }
      }
      EXPECT_EQ(static_cast<int>(met.size()), players * (players - 1) / 2);
    }
}

TEST(BenchVerdict, NoiseIsNoFinding) {
  for (std::size_t players : {2u, 3u, 4u, 8u, 16u})
    EXPECT_THAT(bad(even(players, 1.0, 0.12)), testing::IsEmpty()) << players;
}

TEST(BenchVerdict, OneSlowNodeOfFourIsNamedThoughHalfOfAllPairsAreSlow) {
  BenchMatrix matrix = even(4);
  for (std::size_t other = 0; other < 4; ++other)
    if (other != 2) matrix.GBps[2][other] = matrix.GBps[other][2] = 0.1;
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.slow_node host2"));
  EXPECT_EQ(judge(matrix)[0].severity, Severity::critical);
}

TEST(BenchVerdict, AVerySlowNodeIsNamedAlsoWhereTheOthersAreUneven) {
  BenchMatrix matrix = even(4);
  for (std::size_t other = 0; other < 4; ++other)
    if (other != 2) matrix.GBps[2][other] = matrix.GBps[other][2] = 0.1;
  matrix.GBps[0][1] = 0.6;
  matrix.GBps[3][1] = 0.7;
  const Findings findings = judge(matrix);
  EXPECT_EQ(findings[0].id, "bench.slow_node");
  EXPECT_EQ(findings[0].where, "host2");
}

TEST(BenchVerdict, TwoSlowNodesOfEightAreBothNamed) {
  BenchMatrix matrix = even(8);
  for (std::size_t slow : {1u, 6u})
    for (std::size_t other = 0; other < 8; ++other)
      if (other != slow) matrix.GBps[slow][other] = matrix.GBps[other][slow] = 0.3;
  EXPECT_THAT(bad(matrix), testing::UnorderedElementsAre("bench.slow_node host1", "bench.slow_node host6"));
}

TEST(BenchVerdict, ANodeThatOnlySendsSlowlyIsADirection) {
  BenchMatrix matrix = even(5);
  for (std::size_t other = 0; other < 5; ++other)
    if (other != 3) matrix.GBps[3][other] = 0.5;
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.slow_direction host3"));
  EXPECT_THAT(judge(matrix)[0].what, HasSubstr("when it sends"));
}

TEST(BenchVerdict, OneSlowLinkIsNamedWithBothEnds) {
  BenchMatrix matrix = even(6);
  matrix.GBps[1][4] = matrix.GBps[4][1] = 0.2;
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.slow_link host1 -> host4"));
}

TEST(BenchVerdict, OneSlowDirectionOfALink) {
  BenchMatrix matrix = even(6);
  matrix.GBps[4][1] = 0.2;
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.slow_direction host4 -> host1"));
  BenchMatrix pair = even(2);
  pair.GBps[1][0] = 0.2;
  EXPECT_THAT(bad(pair), testing::ElementsAre("bench.slow_direction host1 -> host0"));
  pair.one_host = true;
  EXPECT_THAT(judge(pair).front().fix, testing::HasSubstr("inside a host"));
}

TEST(BenchVerdict, LessThanExpectedIsSaid) {
  BenchMatrix matrix = even(2, 0.05);
  EXPECT_THAT(bad(matrix), testing::IsEmpty());
  matrix.expected_GBps = 0.125;
  matrix.expected_by = "--expect";
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.below_expected "));
}

TEST(BenchVerdict, ALongWayIsSaid) {
  BenchMatrix matrix = even(4);
  matrix.latency_us[0][3] = matrix.latency_us[3][0] = 400;
  EXPECT_EQ(judge(matrix)[0].severity, Severity::info);
  matrix.latency_us[0][3] = matrix.latency_us[3][0] = 1900;
  EXPECT_THAT(bad(matrix), testing::ElementsAre("bench.slow_latency host0 - host3"));
}

TEST(BenchVerdict, WhatLooksSlowIsDoubtfulAndTheWorstComesFirst) {
  BenchMatrix matrix = even(6);
  EXPECT_TRUE(doubtful(matrix, 12).empty());
  matrix.GBps[4][1] = 0.5;
  matrix.GBps[2][3] = 0.2;
  EXPECT_THAT(doubtful(matrix, 12), testing::ElementsAre(std::pair(2, 3), std::pair(1, 4)));
  EXPECT_EQ(doubtful(matrix, 1).size(), 1u);
  matrix.latency_us[0][5] = 900;
  EXPECT_EQ(doubtful(matrix, 12).size(), 3u);
}

TEST(BenchVerdict, WhatWasNotMeasuredIsNotFine) {
  BenchMatrix matrix = even(3);
  matrix.GBps[0][1] = 0;
  EXPECT_EQ(judge(matrix)[0].severity, Severity::not_checked);
  EXPECT_THAT(matrix_text(matrix), HasSubstr("?"));
  EXPECT_THAT(heat_map(matrix, "a title"), HasSubstr("a title"));
}

TEST(BenchPicture, SlowLinksHaveAColumnOfTheirOwnToo) {
  BenchMatrix matrix = even(3);
  matrix.GBps[0][1] = 0.0123;
  matrix.GBps[0][2] = 0.00456;
  EXPECT_THAT(matrix_text(matrix), HasSubstr(" 0.0123 0.00456 "));
}

// How green a cell with this text is, of 255: red ones are not.
int green_of(const std::string& svg, const std::string& text) {
  const std::size_t cell = svg.rfind("<rect", svg.find(">" + text + "<"));
  return std::stoi(svg.substr(svg.find("fill=\"#", cell) + 9, 2), nullptr, 16);
}

// 6 us beside 2 were red, and printed as if nothing were between whole ones.
TEST(BenchPicture, LatenciesAreRedWhereTheVerdictCallsThemSlow) {
  BenchMatrix matrix = even(4);
  for (auto& row : matrix.latency_us) row.assign(4, 2.17);
  const auto drawn = [&](double us) {
    matrix.latency_us[0][1] = matrix.latency_us[1][0] = us;
    return heat_map(matrix, "a title");
  };
  EXPECT_GT(green_of(drawn(6.44), "6.44"), 200);
  EXPECT_GT(green_of(drawn(6.44), "2.17"), 200);
  EXPECT_LT(green_of(drawn(1234), "1234"), 100);
  EXPECT_THAT(latency_text(matrix), testing::AllOf(HasSubstr("us one way"), HasSubstr("1234"), HasSubstr("2.17")));
}

TEST(BenchPicture, LongNamesStandBesideTheCellsWithBothEnds) {
  BenchMatrix matrix = even(4);
  for (std::string& name : matrix.names)
    name = "rank 3 (compute-node-" + std::string(80, 'x') + ".cluster-" + name + ".example.org)";
  const std::string svg = heat_map(matrix, "a title");
  const std::regex label("<text x=\"([0-9.]+)\"[^>]*text-anchor=\"end\"[^>]*>([^<]*)</text>");
  const std::regex cell("<rect x=\"([0-9.]+)\"[^>]*width=\"55.0\"");
  std::vector<double> cells;
  for (std::sregex_iterator each(svg.begin(), svg.end(), cell), end; each != end; ++each)
    cells.push_back(std::stod((*each)[1]));
  ASSERT_EQ(cells.size(), 32u);
  std::vector<std::string> names;
  for (std::sregex_iterator each(svg.begin(), svg.end(), label), end; each != end; ++each) {
    const double right = std::stod((*each)[1]);
    names.push_back((*each)[2]);
    const double left = right - 0.6 * 12 * static_cast<double>(names.back().size());
    EXPECT_GE(left, 0) << "it begins on the paper";
    for (const double x : cells) EXPECT_TRUE(right <= x || left >= x + 55) << "it is written over a cell";
  }
  ASSERT_EQ(names.size(), 8u);
  for (const std::string& name : names) {
    EXPECT_THAT(name, testing::StartsWith("rank 3 (compute-node-"));
    EXPECT_THAT(name, testing::EndsWith(".example.org)"));
  }
}

}  // namespace
}  // namespace fabring::tools
