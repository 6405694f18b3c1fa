#include "tools/fabring/simulate/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collectives/cost/predict.hpp"
#include "collectives/ownership.hpp"
#include "tools/fabring/call_sizes.hpp"

namespace fabring::tools {

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

Result<const simulation::Schedule*> Forecaster::schedule(Algorithm algorithm, const NodeLayout& world) {
  if (world_ != world) schedules_.clear();
  world_ = world;
  auto found = schedules_.find(algorithm);
  if (found == schedules_.end()) {
    constexpr std::uint64_t most_kept_steps = simulation::most_world_steps / 4;
    std::uint64_t kept = 0;
    for (const auto& [of, made] : schedules_) kept += made ? made->steps() : 0;
    if (kept > most_kept_steps) schedules_.clear();
    PlanRequest request;
    request.algorithm = algorithm;
    request.collective = options_.collective;
    request.node_of = world.node_of();
    found = schedules_.emplace(algorithm, make_schedule(request, simulation::options_for(options_.machine))).first;
  }
  if (!found->second) return found->second.error();
  return &*found->second;
}

Forecast Forecaster::priced(Algorithm algorithm, const NodeLayout& world, std::uint64_t bytes) const {
  Forecast forecast{algorithm, world.nodes(), world.ranks(), bytes, {}, {}, {}};
  forecast.predicted = predict(options_.collective, algorithm, bytes, shape_of(world.node_of()), options_.machine);
  forecast.late = options_.stragglers.probability > 0;
  if (!world.equal_nodes()) forecast.ranks_of_nodes = world.ranks_of_nodes();
  return forecast;
}

Forecast Forecaster::one(Algorithm algorithm, const NodeLayout& world, std::uint64_t bytes) {
  Forecast forecast = priced(algorithm, world, call_bytes(options_, world.ranks(), bytes));
  if (begins_) begins_(forecast);
  const auto plans = schedule(algorithm, world);
  if (!plans) {
    forecast.note = plans.error().message();
    return forecast;
  }
  simulation::Job job;
  job.bytes = forecast.bytes;
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

std::vector<Forecast> Forecaster::all(const std::vector<Algorithm>& algorithms, const NodeLayout& world,
                                      std::uint64_t bytes) {
  std::vector<Forecast> forecasts;
  Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
  for (const Algorithm each : algorithms) {
    forecasts.push_back(priced(each, world, call_bytes(options_, world.ranks(), bytes)));
    best = std::min(best, forecasts.back().predicted.value_or(best));
  }
  for (Forecast& each : forecasts) {
    if (each.predicted && static_cast<double>(*each.predicted) > options_.simulate_up_to * static_cast<double>(best))
      each.note = each.late ? far_behind_without_stragglers : far_behind;
    else
      each = one(each.algorithm, world, bytes);
  }
  return forecasts;
}

}  // namespace fabring::tools
