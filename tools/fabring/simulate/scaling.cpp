#include "tools/fabring/simulate/scaling.hpp"

#include <utility>

#include "simulation/stragglers.hpp"

namespace fabring::tools {

std::vector<int> default_scale(int nodes, int ranks_per_node) {
  std::vector<int> scale;
  for (int some = 1; some < nodes; some *= 2) scale.push_back(some * ranks_per_node);
  scale.push_back(nodes * ranks_per_node);
  return scale;
}

std::vector<ScalingRow> scaling(const SimulatedWorlds& wanted, const Training& training,
                                std::function<void(const Forecast&)> begins) {
  ForecastOptions in_time = wanted.forecast;  // who is late is late once in a step, not in each bucket
  in_time.stragglers = {};
  Forecaster forecaster(in_time, std::move(begins));
  std::vector<ScalingRow> rows;
  for (const int ranks : wanted.scale.empty() ? default_scale(wanted.nodes, wanted.ranks_per_node) : wanted.scale) {
    ScalingRow row{ranks, simulation::lateness_of_all(wanted.forecast.stragglers, ranks), {}};
    for (const Algorithm each : wanted.algorithms)
      row.steps.push_back(training_step(forecaster, each, ranks / wanted.ranks_per_node, wanted.ranks_per_node,
                                        training.buckets, training.compute_ns(), row.late_ns));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace fabring::tools
