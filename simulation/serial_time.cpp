#include "simulation/serial_time.hpp"

#include <algorithm>
#include <cstdio>

namespace fabring::simulation {
namespace {

/// Everything that a message passes, one after the other, and its grant.
double passing_ns(const Machine& machine, bool inside, std::uint64_t bytes) {
  const Tier& tier = machine.tier(inside);
  double ns = 2 * static_cast<double>(transfer_ns(bytes, tier.lane_bytes_per_second));
  ns += static_cast<double>(2 * tier.latency_ns + tier.launch_ns);
  if (inside) return ns + static_cast<double>(transfer_ns(bytes, machine.memory_bytes_per_second));
  const std::uint64_t uplinks = uplink_bytes_per_second(machine, machine.nodes_per_leaf);
  return ns + 2 * static_cast<double>(transfer_ns(bytes, machine.nic_bytes_per_second)) +
         2 * static_cast<double>(transfer_ns(bytes, uplinks));
}

double step_ns(const PricedStep& step, std::size_t cut, const Machine& machine) {
  // What comes before its step is ready is worked on twice.
  double ns = 2 * static_cast<double>(step.cost[cut] + machine.switch_ns);
  if (step.kind == StepKind::recv_reduce)
    ns += static_cast<double>(transfer_ns(step.bytes[cut], machine.reduce_bytes_per_second));
  if (step.kind == StepKind::send) ns += passing_ns(machine, step.inside, step.bytes[cut]);
  return ns;
}

}  // namespace

double serial_ns(const Schedule& schedule, const Machine& machine, const Job& job, const PricedSteps& priced,
                 std::uint32_t tiles, int ranks) {
  double of_tile = 0;
  for (std::size_t own = 0; own < schedule.classes.size(); ++own) {
    const auto steps = static_cast<StepId>(schedule.classes[own].plan.steps.size());
    for (StepId id = 0; id < steps; ++id) {
      const PricedStep& step = priced.at(static_cast<std::int32_t>(own), id);
      of_tile += std::max(step_ns(step, 0, machine), step_ns(step, 1, machine));
    }
  }
  const double units = static_cast<double>(ranks) / schedule.symmetry.unit;
  return static_cast<double>(machine.call_ns + job.stragglers.late_ns) + of_tile * units * tiles;
}

Status too_long(double ns) {
  constexpr double year = 365.25 * 86400e9;
  char years[32];
  std::snprintf(years, sizeof years, "%.3g", ns / year);
  return {ErrorCode::unsupported, std::string("too long to be simulated: it may take ") + years +
                                      " years; give fewer bytes, or a machine with higher rates"};
}

}  // namespace fabring::simulation
