#pragma once
// TrainingStep: how long a step takes on many ranks whose gradients travel while the backward pass goes on.

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"
#include "fabring/status.hpp"
#include "tools/fabring/simulate/forecast.hpp"

namespace fabring::tools {

/// A training step in which each bucket of gradients is reduced as soon as the backward pass has produced it.
struct TrainingStep {
  Nanoseconds compute_ns = 0;        ///< forward and backward on one rank
  Nanoseconds late_ns = 0;           ///< of whoever begins last
  Nanoseconds communication_ns = 0;  ///< of all buckets, one after the other
  Nanoseconds step_ns = 0;
  bool extrapolated = false;  ///< a bucket was
  std::string priced;         ///< a bucket was, not simulated; why
  double efficiency() const {
    return step_ns == 0 ? 1 : static_cast<double>(compute_ns) / static_cast<double>(step_ns);
  }
};
/// `buckets`: bytes, first produced first. The backward pass is two thirds of the computation and produces bytes
/// evenly. Some rank begins `late_ns` after the others: no bucket is summed before it has its part, so the step takes
/// that much longer, once; `forecaster` knows of no stragglers. Error: unsupported, a bucket has no forecast, or all
/// take longer than longest_time.
Result<TrainingStep> training_step(Forecaster& forecaster, Algorithm algorithm, const NodeLayout& world,
                                   const std::vector<std::uint64_t>& buckets, Nanoseconds compute_ns,
                                   Nanoseconds late_ns = 0);

}  // namespace fabring::tools
