#include "tools/fabring/simulate/comparison.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "collectives/cost/fit.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {

bool Comparison::known() const {
  const auto time = forecast.time();
  return time && *time < longest_time;
}

double Comparison::predicted_us() const { return microseconds(forecast.time().value_or(longest_time)); }

bool Comparison::within_20_percent() const { return known() && fabring::within_20_percent(ratio()); }

Result<std::vector<Comparison>> compare(const std::vector<MeasuredTime>& times, const SimulatedWorlds& wanted,
                                        std::function<void(const Forecast&)> begins) {
  Forecaster forecaster(wanted.forecast, std::move(begins));
  std::vector<Comparison> rows;
  for (const MeasuredTime& each : times) {
    if (each.collective != wanted.forecast.collective) continue;
    const auto nodes = static_cast<std::uint64_t>(wanted.nodes);
    if (each.ranks % nodes != 0) return wrong_argument(fmt::format("{} ranks on --nodes {}", each.ranks, nodes));
    rows.push_back(
        {each, forecaster.one(each.algorithm, wanted.nodes, static_cast<int>(each.ranks / nodes), each.bytes)});
  }
  if (rows.empty()) return wrong_argument(fmt::format("no measurement of {}", name(wanted.forecast.collective)));
  return rows;
}

}  // namespace fabring::tools
