#pragma once
// What a simulated call would take if nothing of it overlapped. At any moment before its end something is under way,
// and each is so once, so no time of the simulation is later: what fits by this is simulated without a look at every
// sum.

#include "simulation/cutting.hpp"
#include "simulation/priced_steps.hpp"
#include "simulation/schedule.hpp"
#include "simulation/simulate.hpp"

namespace fabring::simulation {

/// Nanoseconds of `tiles` of all `ranks` that are simulated, at most.
double serial_ns(const Schedule& schedule, const Machine& machine, const Job& job, const PricedSteps& priced,
                 std::uint32_t tiles, int ranks);

/// Of a call that may take longer than longest_time, `ns`.
Status too_long(double ns);

}  // namespace fabring::simulation
