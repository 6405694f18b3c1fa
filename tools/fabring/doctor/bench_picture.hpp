#pragma once
// The matrices of `fabring doctor bench` for people: as a table and as heat maps. Pure.

#include <string>

#include "tools/fabring/doctor/bench_verdict.hpp"

namespace fabring::tools {

/// A table of GB/s for people; above `most` players, nothing.
std::string matrix_text(const BenchMatrix& matrix, std::size_t most = 12);
/// One of microseconds, likewise.
std::string latency_text(const BenchMatrix& matrix, std::size_t most = 12);

/// Two heat maps beside each other: bandwidth and latency. What was not measured is blank; red is slow, of
/// latencies what judge() calls so.
std::string heat_map(const BenchMatrix& matrix, const std::string& title);

}  // namespace fabring::tools
