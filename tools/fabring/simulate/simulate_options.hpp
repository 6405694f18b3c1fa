#pragma once
// What `fabring simulate` was asked for: its options as they were written, and what they mean.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/simulate/forecast.hpp"
#include "tools/fabring/simulate/measured_times.hpp"

namespace fabring::tools {

inline constexpr int most_simulated_ranks = most_measured_ranks;

/// As they were written.
struct SimulateOptions : CommonOptions {
  std::string collective, machine = "100g", sizes = "1K,16K,256K,4M,64M", algorithm, scale, stragglers, plot, links,
                          model, bucket = "25M", measured;
  int nodes = 0, ranks_per_node = 0;  // 0: not given
  double compute_ms = 0;
  std::uint64_t seed = 1;
  bool show_machine = false;
};

/// What was asked for, understood.
struct SimulatedWorlds {
  ForecastOptions forecast;
  std::vector<std::uint64_t> sizes;
  std::vector<Algorithm> algorithms;
  std::vector<int> scale;  // ranks; empty: one world
  int nodes = 1, ranks_per_node = 1;
  bool nodes_are_given = false;  // else a measurement says itself on how many it was
};

/// invalid_argument: an option that makes no sense, or a machine that nobody describes.
Result<SimulatedWorlds> understand(const SimulateOptions& options);

}  // namespace fabring::tools
