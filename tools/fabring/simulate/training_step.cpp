#include "tools/fabring/simulate/training_step.hpp"

#include <algorithm>
#include <map>

namespace fabring::tools {

Result<TrainingStep> training_step(Forecaster& forecaster, Algorithm algorithm, const NodeLayout& world,
                                   const std::vector<std::uint64_t>& buckets, Nanoseconds compute_ns,
                                   Nanoseconds late_ns) {
  TrainingStep step;
  step.compute_ns = compute_ns;
  step.late_ns = late_ns;
  const Nanoseconds forward = compute_ns / 3;
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : buckets) total += bytes;
  std::map<std::uint64_t, Nanoseconds> times;  // by size: few sizes occur often
  Nanoseconds network_free = 0;
  std::uint64_t produced = 0;
  for (const std::uint64_t bytes : buckets) {
    auto known = times.find(bytes);
    if (known == times.end()) {
      const Forecast forecast = forecaster.one(algorithm, world, bytes);
      const auto time = forecast.time();
      if (!time) return Status(ErrorCode::unsupported, forecast.note);
      step.extrapolated |= forecast.extrapolated();
      if (forecast.priced()) step.priced = forecast.note;
      known = times.emplace(bytes, world.ranks() > 1 ? *time : 0).first;
    }
    produced += bytes;
    const auto backward = static_cast<Nanoseconds>(static_cast<double>(compute_ns - forward) *
                                                   static_cast<double>(produced) / static_cast<double>(total));
    const Nanoseconds ready = late_ns + forward + backward;
    network_free = std::max(network_free, ready) + known->second;
    if (network_free >= longest_time)
      return Status(ErrorCode::unsupported, "the buckets of a step take too long to be counted");
    step.communication_ns += known->second;
  }
  step.step_ns = std::max(late_ns + compute_ns, network_free);
  return step;
}

}  // namespace fabring::tools
