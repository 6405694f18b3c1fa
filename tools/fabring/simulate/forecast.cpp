#include "tools/fabring/simulate/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collectives/cost/predict.hpp"
#include "collectives/ownership.hpp"
#include "tools/fabring/call_sizes.hpp"

namespace fabring::tools {

std::vector<int> equal_nodes(int nodes, int ranks_per_node) {
  std::vector<int> node_of;
  for (int node = 0; node < nodes; ++node)
    node_of.insert(node_of.end(), static_cast<std::size_t>(ranks_per_node), node);
  return node_of;
}

namespace {

std::uint64_t blocks_of(Collective collective, int ranks) {
  return block_count(collective, ranks) == 0 ? 1 : static_cast<std::uint64_t>(ranks);
}

}  // namespace

std::uint64_t call_bytes(const ForecastOptions& options, int ranks, std::uint64_t bytes) {
  if (options.collective == Collective::barrier) return 0;
  return bytes_of_call(bytes, options.element_bytes, blocks_of(options.collective, ranks));
}

std::string changed_call(const ForecastOptions& options, int ranks, std::uint64_t bytes) {
  return changed_size(bytes, call_bytes(options, ranks, bytes), blocks_of(options.collective, ranks), "simulated",
                      fmt::format("{} bytes", options.element_bytes));
}

Result<const simulation::Schedule*> Forecaster::schedule(Algorithm algorithm, int nodes, int ranks_per_node) {
  if (world_ != std::pair(nodes, ranks_per_node)) schedules_.clear();
  world_ = {nodes, ranks_per_node};
  auto found = schedules_.find(algorithm);
  if (found == schedules_.end()) {
    constexpr std::uint64_t most_kept_steps = simulation::most_world_steps / 4;
    std::uint64_t kept = 0;
    for (const auto& [of, made] : schedules_) kept += made ? made->steps() : 0;
    if (kept > most_kept_steps) schedules_.clear();
    PlanRequest request;
    request.algorithm = algorithm;
    request.collective = options_.collective;
    request.node_of = equal_nodes(nodes, ranks_per_node);
    found = schedules_.emplace(algorithm, make_schedule(request, simulation::options_for(options_.machine))).first;
  }
  if (!found->second) return found->second.error();
  return &*found->second;
}

Forecast Forecaster::one(Algorithm algorithm, int nodes, int ranks_per_node, std::uint64_t bytes) {
  bytes = call_bytes(options_, nodes * ranks_per_node, bytes);
  Forecast forecast{algorithm, nodes, nodes * ranks_per_node, bytes, {}, {}, {}};
  forecast.late = options_.stragglers.probability > 0;
  if (begins_) begins_(forecast);
  const WorldShape shape{nodes * ranks_per_node, nodes, ranks_per_node, ranks_per_node};
  forecast.predicted = predict(options_.collective, algorithm, bytes, shape, options_.machine);
  const auto plans = schedule(algorithm, nodes, ranks_per_node);
  if (!plans) {
    forecast.note = plans.error().message();
    return forecast;
  }
  simulation::Job job;
  job.bytes = bytes;
  job.element_bytes = options_.element_bytes;
  job.stragglers = options_.stragglers;
  auto outcome = simulate(**plans, options_.machine, job);
  if (outcome) {
    forecast.outcome = std::move(*outcome);
  } else {
    forecast.note = outcome.error().message();
  }
  return forecast;
}

std::vector<Forecast> Forecaster::all(const std::vector<Algorithm>& algorithms, int nodes, int ranks_per_node,
                                      std::uint64_t bytes) {
  bytes = call_bytes(options_, nodes * ranks_per_node, bytes);
  const WorldShape shape{nodes * ranks_per_node, nodes, ranks_per_node, ranks_per_node};
  Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
  for (const Algorithm each : algorithms)
    best = std::min(best, predict(options_.collective, each, bytes, shape, options_.machine).value_or(best));
  std::vector<Forecast> forecasts;
  for (const Algorithm each : algorithms) {
    const auto price = predict(options_.collective, each, bytes, shape, options_.machine);
    if (price && static_cast<double>(*price) > options_.simulate_up_to * static_cast<double>(best)) {
      const bool late = options_.stragglers.probability > 0;
      forecasts.push_back(
          {each, nodes, shape.ranks, bytes, price, {}, late ? far_behind_without_stragglers : far_behind, late});
    } else {
      forecasts.push_back(one(each, nodes, ranks_per_node, bytes));
    }
  }
  return forecasts;
}

}  // namespace fabring::tools
