#include "simulation/simulate.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "simulation/run.hpp"

namespace fabring::simulation {

Result<Outcome> simulate(const Schedule& schedule, const Machine& machine, const Job& job) {
  if (Status status = check_machine(machine); !status) return status;
  if (job.element_bytes == 0 || schedule.ranks() == 0)
    return Status(ErrorCode::invalid_argument, "a simulation needs an element size and at least one rank");
  const bool all = job.every_rank || job.stragglers.probability > 0;
  std::map<int, int> ranks_of;
  for (const int node : schedule.node_of) ++ranks_of[node];
  int most = 1;
  for (const auto& [node, ranks] : ranks_of) most = std::max(most, ranks);
  const Machine sized = at_size(machine, job.bytes, most);
  const int simulated = all ? schedule.ranks() : schedule.symmetry.unit;
  const std::uint64_t steps = schedule.steps() * static_cast<std::uint64_t>(simulated / schedule.symmetry.unit);
  if (steps > most_world_steps)
    return Status(ErrorCode::unsupported, std::to_string(simulated) + " ranks have " + std::to_string(steps) +
                                              " steps together, and at most " + std::to_string(most_world_steps) +
                                              " are simulated; simulate fewer ranks, or no stragglers");
  return Run(schedule, sized, job, Cutting(schedule, machine, job), simulated).run();
}

ScheduleOptions options_for(const Machine& machine) {
  ScheduleOptions options;
  if (machine.nodes_per_leaf > 0 && machine.oversubscription_percent > 100)
    options.nodes_per_unit = static_cast<int>(machine.nodes_per_leaf);
  return options;
}

}  // namespace fabring::simulation
