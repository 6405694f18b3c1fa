#pragma once
// BenchRun: the measuring part of `fabring doctor bench`, on every rank: who takes part, round after round of disjoint
// pairs, latency and bandwidth of both directions, and the matrix at rank 0. On several hosts the first rank of each
// measures, so that no two measurements share a network interface.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "fabring/communicator.hpp"
#include "tools/fabring/doctor/bench_verdict.hpp"

namespace fabring::tools {

struct BenchRun {
  BenchMatrix matrix;  ///< complete at rank 0 only
  int hosts = 1;
  int rounds = 0;
  int rounds_done = 0;
  Status status;  ///< why it ended early; names the rank at fault where that is known
};

/// Hears what is under way, in words: often.
using BenchNews = std::function<void(const std::string&)>;

/// Collective: all ranks of the world. Rank 0 stops at the deadline; each direction is measured for about `measure`.
BenchRun measure_pairs(Communicator world, std::chrono::steady_clock::time_point deadline,
                       std::chrono::milliseconds measure, const BenchNews& news);

}  // namespace fabring::tools
