// `fabring doctor bench` without a network: links whose rates are made up, on hosts where other programs take processor
// time now and then, measured round by round as the command does it. From seeds.

#include <gmock/gmock.h>

#include <random>

#include "tools/fabring/doctor/bench_verdict.hpp"

namespace fabring::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr unsigned seeds = 200;

class MadeUpLinks {
 public:
  /// `busy`: how many of 1 measurements meet another program, which takes up to 70% of them.
  MadeUpLinks(std::size_t players, double busy, unsigned seed)
      : rates_(players, std::vector<double>(players, 1.0)), busy_(busy), random_(seed) {}

  void set(std::size_t from, std::size_t to, double rate) { rates_[from][to] = rate; }

  BenchMatrix measured() {
    const std::size_t players = rates_.size();
    BenchMatrix matrix;
    for (std::size_t i = 0; i < players; ++i) matrix.names.push_back("host" + std::to_string(i));
    matrix.GBps = matrix.latency_us = nothing();
    for (std::size_t round = 0; round < bench_rounds; ++round) {
      Rates rates = nothing();
      for (std::size_t a = 0; a < players; ++a)
        for (std::size_t b = a + 1; b < players; ++b) measure(rates, a, b);
      add_round(matrix, std::move(rates));
    }
    for (int look = 0; look < 3; ++look) {
      Rates rates = nothing();
      for (const auto& [a, b] : doubtful(matrix, 2 * players))
        measure(rates, static_cast<std::size_t>(a), static_cast<std::size_t>(b));
      add_round(matrix, std::move(rates));
    }
    return matrix;
  }

 private:
  Rates nothing() const { return Rates(rates_.size(), std::vector<double>(rates_.size())); }

  void measure(Rates& rates, std::size_t a, std::size_t b) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const bool met = std::uniform_real_distribution(0.0, 1.0)(random_) < busy_;
      const double taken = std::uniform_real_distribution(0.0, met ? 0.7 : 0.05)(random_);
      rates[from][to] = rates_[from][to] * (1 - taken);
    }
  }

  Rates rates_;
  const double busy_;
  std::mt19937 random_;
};

std::vector<std::string> named(const BenchMatrix& matrix) {
  std::vector<std::string> found;
  for (const Finding& finding : judge(matrix))
    if (finding.severity >= Severity::warning) found.push_back(finding.id + " " + finding.where);
  return found;
}

TEST(BenchNoise, ABusyProcessorIsNoSlowLink) {
  for (std::size_t players : {2u, 3u, 4u, 8u})
    for (double busy : {0.0, 0.3, 0.6, 1.0})
      for (unsigned seed = 0; seed < seeds; ++seed)
        EXPECT_THAT(named(MadeUpLinks(players, busy, seed).measured()), IsEmpty())
            << players << " players, busy " << busy << ", seed " << seed;
}

TEST(BenchNoise, ASlowDirectionIsNamedWhateverElseRuns) {
  for (std::size_t players : {2u, 4u, 8u})
    for (double busy : {0.0, 0.3, 0.6})
      for (unsigned seed = 0; seed < seeds; ++seed) {
        MadeUpLinks links(players, busy, seed);
        links.set(1, 0, 0.1);
        EXPECT_THAT(named(links.measured()), ElementsAre("bench.slow_direction host1 -> host0"))
            << players << " players, busy " << busy << ", seed " << seed;
      }
}

TEST(BenchNoise, ADirectionOfHalfTheSpeedIsNamedOnAQuietHost) {
  for (std::size_t players : {2u, 4u, 8u})
    for (unsigned seed = 0; seed < seeds; ++seed) {
      MadeUpLinks links(players, 0, seed);
      links.set(1, 0, 0.5);
      EXPECT_THAT(named(links.measured()), ElementsAre("bench.slow_direction host1 -> host0"))
          << players << " players, seed " << seed;
    }
}

TEST(BenchNoise, WhatWasSlowInAllRoundsButOneIsNotNamed) {
  BenchMatrix matrix{{"a", "b"}, {{0, 0}, {0, 0}}, {}, {{0, 0}, {0, 0}}, {}, {}, 0, {}, Severity::critical};
  add_round(matrix, {{0, 1.0}, {0.58, 0}});
  add_round(matrix, {{0, 0.98}, {0.59, 0}});
  EXPECT_THAT(named(matrix), ElementsAre("bench.slow_direction b -> a"));
  add_round(matrix, {{0, 0.6}, {0.57, 0}});  // the other way is no faster then
  EXPECT_THAT(named(matrix), IsEmpty());
  add_round(matrix, {{0, 1.0}, {0.2, 0}});
  EXPECT_THAT(named(matrix), IsEmpty());
}

TEST(BenchNoise, WhatIsFarSlowerIsLookedAtTwiceMoreAndWhatIsSlowEveryTime) {
  for (const bool far : {true, false}) {
    BenchMatrix matrix{{"a", "b"}, {{0, 0}, {0, 0}}, {}, {{0, 0}, {0, 0}}, {}, {}, 0, {}, Severity::critical};
    const Rates rates{{0, 1.0}, {far ? 0.1 : 0.6, 0}};
    for (std::size_t round = 0; round < bench_rounds; ++round) add_round(matrix, rates);
    add_round(matrix, rates);
    EXPECT_EQ(doubtful(matrix, 4).size(), 1u);
    add_round(matrix, rates);
    EXPECT_EQ(doubtful(matrix, 4).size(), far ? 0u : 1u);
  }
}

}  // namespace
}  // namespace fabring::tools
