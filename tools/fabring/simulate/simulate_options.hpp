#pragma once
// What `fabring simulate` was asked for: its options as they were written, and what they mean.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/node_layout.hpp"
#include "tools/fabring/simulate/forecast.hpp"
#include "tools/fabring/simulate/measured_times.hpp"

namespace fabring::tools {

inline constexpr int most_simulated_ranks = most_measured_ranks;

/// As they were written.
struct SimulateOptions : CommonOptions {
  std::string collective, nodes, machine = "100g", sizes = "1K,16K,256K,4M,64M", algorithm, scale, stragglers, plot,
                                 links, model, bucket = "25M", measured;
  int ranks_per_node = 0;  // 0: not given
  double compute_ms = 0;
  std::uint64_t seed = 1;
  bool show_machine = false;
};

/// What was asked for, understood.
struct SimulatedWorlds {
  ForecastOptions forecast;
  std::vector<std::uint64_t> sizes;
  std::vector<Algorithm> algorithms;
  NodeLayout world{1, 1};
  std::vector<NodeLayout> scale;  // of equal nodes; empty: `world` alone
  // What of `world` was given; a measurement says the rest itself.
  bool nodes_are_given = false, ranks_of_nodes_are_given = false;

  /// Of worlds of growing size: "nodes of 8 ranks"; of unequal nodes all of them.
  std::string nodes_text() const;
};

/// invalid_argument: an option that makes no sense, or a machine that nobody describes.
Result<SimulatedWorlds> understand(const SimulateOptions& options);

}  // namespace fabring::tools
