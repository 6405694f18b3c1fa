#include "tools/fabring/simulate/comparison.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "collectives/cost/fit.hpp"
#include "collectives/describe.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {

bool Comparison::known() const {
  const auto time = forecast.time();
  return time && *time < longest_time;
}

double Comparison::predicted_us() const { return microseconds(forecast.time().value_or(longest_time)); }

bool Comparison::within_20_percent() const { return known() && fabring::within_20_percent(ratio()); }

namespace {

/// On how many nodes it is predicted. Errors: what was measured has no forecast.
Result<int> nodes_of(const MeasuredTime& measured, const SimulatedWorlds& wanted) {
  if (!measured.wire_type.empty())
    return wrong_argument(
        fmt::format("{} bytes travelled as {}, and forecasts are of elements as they are: measure without --wire-type "
                    "and FABRING_WIRE_TYPE",
                    measured.bytes, measured.wire_type));
  if (measured.mapped)
    return wrong_argument(
        fmt::format("{} bytes were in mapped memory, which has no price: measure with --memory host", measured.bytes));
  const auto given = static_cast<std::uint64_t>(wanted.nodes);
  if (wanted.nodes_are_given && measured.nodes != 0 && measured.nodes != given)
    return wrong_argument(fmt::format("measured on {}, and --nodes says {}: leave out --nodes",
                                      counted(static_cast<std::size_t>(measured.nodes), "node"), given));
  const std::uint64_t nodes = measured.nodes != 0 ? measured.nodes : given;
  if (measured.ranks % nodes != 0)
    return wrong_argument(fmt::format("{} ranks on {}: only nodes of equally many ranks can be compared",
                                      measured.ranks, counted(static_cast<std::size_t>(nodes), "node")));
  return static_cast<int>(nodes);
}

}  // namespace

Result<std::vector<Comparison>> compare(const std::vector<MeasuredTime>& times, const SimulatedWorlds& wanted,
                                        std::function<void(const Forecast&)> begins) {
  Forecaster forecaster(wanted.forecast, std::move(begins));
  std::vector<Comparison> rows;
  const MeasuredTime* unknown = nullptr;
  for (const MeasuredTime& each : times) {
    if (each.collective != wanted.forecast.collective) continue;
    if (!each.algorithm) {
      unknown = &each;
      continue;
    }
    const auto nodes = nodes_of(each, wanted);
    if (!nodes) return nodes.error();
    rows.push_back({each, forecaster.one(*each.algorithm, *nodes, static_cast<int>(each.ranks) / *nodes, each.bytes)});
  }
  if (rows.empty() && unknown != nullptr)
    return wrong_argument(fmt::format("its measurements of {} are by '{}', an algorithm that is not known here",
                                      name(wanted.forecast.collective), unknown->algorithm_name));
  if (rows.empty()) return wrong_argument(fmt::format("no measurement of {}", name(wanted.forecast.collective)));
  return rows;
}

}  // namespace fabring::tools
