#include "tools/fabring/simulate/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::string measured_world(const MeasuredTime& measured) {
  return fmt::format("{}{}", counted(measured.ranks, "rank"),
                     measured.nodes == 0 ? "" : " on " + counted(measured.nodes, "node"));
}

/// Where the ranks of each node were given: the world must be that one.
Result<NodeLayout> given_world(const MeasuredTime& measured, const NodeLayout& given) {
  const bool other_nodes = measured.nodes != 0 && measured.nodes != static_cast<std::uint64_t>(given.nodes());
  const bool others = !measured.ranks_of_nodes.empty() && measured.ranks_of_nodes != given.ranks_of_nodes();
  if (other_nodes || others || measured.ranks != static_cast<std::uint64_t>(given.ranks()))
    return wrong_argument(
        fmt::format("measured with {}{}, and --nodes says {}: leave out --nodes, or compare files "
                    "of that world alone",
                    measured_world(measured),
                    others ? fmt::format(" ({})", fmt::join(measured.ranks_of_nodes, ",")) : "", given.text()));
  return given;
}

/// In which world it is predicted. Errors: what was measured has no forecast.
Result<NodeLayout> world_of(const MeasuredTime& measured, const SimulatedWorlds& wanted) {
  if (!measured.wire_type.empty())
    return wrong_argument(
        fmt::format("{} bytes travelled as {}, and forecasts are of elements as they are: measure without --wire-type "
                    "and FABRING_WIRE_TYPE",
                    measured.bytes, measured.wire_type));
  if (measured.mapped)
    return wrong_argument(
        fmt::format("{} bytes were in mapped memory, which has no price: measure with --memory host", measured.bytes));
  if (wanted.ranks_of_nodes_are_given) return given_world(measured, wanted.world);
  const auto given = static_cast<std::uint64_t>(wanted.world.nodes());
  if (wanted.nodes_are_given && measured.nodes != 0 && measured.nodes != given)
    return wrong_argument(fmt::format("measured on {}, and --nodes says {}: leave out --nodes",
                                      counted(static_cast<std::size_t>(measured.nodes), "node"), given));
  const std::uint64_t nodes = measured.nodes != 0 ? measured.nodes : given;
  if (!measured.ranks_of_nodes.empty()) return NodeLayout(measured.ranks_of_nodes);
  if (measured.ranks % nodes != 0)
    return wrong_argument(
        fmt::format("{} on {}: the file does not say how many are on each; --nodes can, as in "
                    "--nodes 8,8,1",
                    counted(measured.ranks, "rank"), counted(nodes, "node")));
  return NodeLayout(static_cast<int>(nodes), static_cast<int>(measured.ranks / nodes));
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
    const auto world = world_of(each, wanted);
    if (!world) return world.error();
    rows.push_back({each, forecaster.one(*each.algorithm, *world, each.bytes)});
  }
  if (rows.empty() && unknown != nullptr)
    return wrong_argument(fmt::format("its measurements of {} are by '{}', an algorithm that is not known here",
                                      name(wanted.forecast.collective), unknown->algorithm_name));
  if (rows.empty()) return wrong_argument(fmt::format("no measurement of {}", name(wanted.forecast.collective)));
  return rows;
}

}  // namespace fabring::tools
