#pragma once
// What training gains by more ranks: a step of a model in worlds of growing size, by each algorithm. `fabring simulate
// --model` shows it (scaling_report.hpp).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/cost/machine.hpp"
#include "fabring/status.hpp"
#include "tools/fabring/simulate/forecast.hpp"
#include "tools/fabring/simulate/simulate_options.hpp"
#include "tools/fabring/simulate/training_step.hpp"

namespace fabring::tools {

/// What is trained.
struct Training {
  std::string model;
  std::uint64_t parameters = 0;
  std::vector<std::uint64_t> buckets;  ///< of gradients: bytes, first produced first
  double compute_ms = 0;               ///< of a step on one rank
  Nanoseconds compute_ns() const { return static_cast<Nanoseconds>(compute_ms * 1e6); }
};

/// One world.
struct ScalingRow {
  NodeLayout world;
  Nanoseconds late_ns = 0;                  ///< of whoever begins last
  std::vector<Result<TrainingStep>> steps;  ///< by each algorithm that was asked for, in that order
};

/// The first 1, 2, 4, ... nodes, and all of them.
std::vector<NodeLayout> default_scale(const NodeLayout& all);

/// Of the worlds of --scale, or else of default_scale(). `begins` hears of each forecast before it is made.
std::vector<ScalingRow> scaling(const SimulatedWorlds& wanted, const Training& training,
                                std::function<void(const Forecast&)> begins = {});

}  // namespace fabring::tools
