#pragma once
// What a matrix of measured bandwidths and latencies says: which player is slow with everybody, which link or which one
// direction of it stands out, and what falls short of what was expected. Pure.

#include <string>
#include <utility>
#include <vector>

#include "tools/fabring/doctor/finding.hpp"

namespace fabring::tools {

using Rates = std::vector<std::vector<double>>;  ///< [from][to] in GB/s; 0: not measured

/// So many times every pair is measured, at times apart: what disturbs once seldom does so again.
inline constexpr std::size_t bench_rounds = 3;

struct BenchMatrix {
  std::vector<std::string> names;               ///< of the players: "host0 (rank 0)"
  Rates GBps;                                   ///< the best of all rounds
  std::vector<Rates> rounds;                    ///< those of all pairs, then those of doubtful ones; empty: not kept
  std::vector<std::vector<double>> latency_us;  ///< [a][b], half a round trip, symmetric; 0: not measured
  std::vector<std::vector<double>> messages;    ///< [from][to] small ones, one at a time; empty: not counted
  std::vector<std::vector<double>> resent;      ///< [from][to] segments that were sent again meanwhile
  double expected_GBps = 0;                     ///< of a link; 0: not known
  std::string expected_by;                      ///< "--expect" or the interface; for the finding
  Severity worst = Severity::critical;          ///< what stands out is called no worse than this
  bool one_host = false;                        ///< all players: what is slow is no cable
};

Findings judge(const BenchMatrix& matrix);

/// How much the latency of each pair stands out from what is usual: 0 where it does not, from 1 on it is worth a
/// finding. Of few pairs nothing is usual.
Rates latency_excess(const BenchMatrix& matrix);

/// A further round: kept, and what is better than before counts.
void add_round(BenchMatrix& matrix, Rates round);

/// The least of all rounds.
double worst_round(const BenchMatrix& matrix, std::size_t from, std::size_t to);

/// Pairs that would stand out, or nearly, the worst first and at most `most`: worth another look before they are named,
/// because what else runs on a host looks like a slow link. Without those that another look has confirmed.
std::vector<std::pair<int, int>> doubtful(const BenchMatrix& matrix, std::size_t most);

}  // namespace fabring::tools
