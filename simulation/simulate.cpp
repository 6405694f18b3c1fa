#include "simulation/simulate.hpp"

#include <algorithm>
#include <map>

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
  return Run(schedule, sized, job, Cutting(schedule, machine, job), simulated).run();
}

ScheduleOptions options_for(const Machine& machine) {
  ScheduleOptions options;
  if (machine.nodes_per_leaf > 0 && machine.oversubscription_percent > 100)
    options.nodes_per_unit = static_cast<int>(machine.nodes_per_leaf);
  return options;
}

}  // namespace fabring::simulation
