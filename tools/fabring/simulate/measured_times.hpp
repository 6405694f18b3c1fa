#pragma once
// What `fabring perf --format json` measured, as `fabring simulate --measured` reads it. The file may be anybody's:
// every entry is checked.

#include <cstdint>
#include <optional>
#include <string>
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
  std::optional<Algorithm> algorithm;  ///< none: the collective has none of that name in this version
  std::string algorithm_name;          ///< as a terminal may print it
  std::uint64_t bytes = 0;
  std::uint64_t ranks = 1;
  double time_us = 0;
  // What older versions did not write:
  std::uint64_t nodes = 0;               ///< 0: it does not say
  std::vector<int> ranks_of_nodes = {};  ///< empty: equal, or it does not say
  std::string wire_type;                 ///< as what elements travelled, if not as their type
  bool mapped = false;                   ///< in memory that the ranks of a host read and write directly
};

/// In the order of the file, without collectives that this version does not know. Errors: invalid_argument, a sentence
/// to go behind the file's name.
Result<std::vector<MeasuredTime>> measured_times(std::string_view json);

}  // namespace fabring::tools
