#pragma once
// What `fabring perf --format json` measured, as `fabring simulate --measured` reads it. The file may be anybody's:
// every entry is checked.

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "fabring/status.hpp"

namespace fabring::tools {

inline constexpr std::uint64_t most_measured_ranks = 1 << 17;
inline constexpr std::uint64_t most_measured_bytes = 9'000'000'000'000'000;  ///< as parse_size()
inline constexpr double longest_measured_us = 1e12;

struct MeasuredTime {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
  std::uint64_t bytes = 0;
  std::uint64_t ranks = 1;
  double time_us = 0;
};

/// In the order of the file, without what this version does not know: other collectives and algorithms, times that are
/// none. Errors: invalid_argument, a sentence to go behind the file's name.
Result<std::vector<MeasuredTime>> measured_times(std::string_view json);

}  // namespace fabring::tools
