#include "tools/fabring/simulate/scaling.hpp"

#include <utility>

#include "simulation/stragglers.hpp"

namespace fabring::tools {

std::vector<NodeLayout> default_scale(const NodeLayout& all) {
  std::vector<NodeLayout> scale;
  for (int some = 1; some < all.nodes(); some *= 2) scale.push_back(all.first(some));
  scale.push_back(all);
  return scale;
}

std::vector<ScalingRow> scaling(const SimulatedWorlds& wanted, const Training& training,
                                std::function<void(const Forecast&)> begins) {
  ForecastOptions in_time = wanted.forecast;  // who is late is late once in a step, not in each bucket
  in_time.stragglers = {};
  Forecaster forecaster(in_time, std::move(begins));
  std::vector<ScalingRow> rows;
  for (const NodeLayout& world : wanted.scale.empty() ? default_scale(wanted.world) : wanted.scale) {
    ScalingRow row{world, simulation::lateness_of_all(wanted.forecast.stragglers, world.ranks()), {}};
    for (const Algorithm each : wanted.algorithms)
      row.steps.push_back(training_step(forecaster, each, world, training.buckets, training.compute_ns(), row.late_ns));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace fabring::tools
