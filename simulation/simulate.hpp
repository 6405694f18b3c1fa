#pragma once
// The simulation of one call: the plans of a world run on a described machine, event by event. Deterministic: the same
// arguments give the same nanoseconds everywhere.
//
// What is modelled: the processor time of every message and reduction, ranks that share cores, the engine's tiles,
// slots and grants, its order of work (what has come in first, then the most recently ready), network cards, node
// memory and leaf switches as queues. What is not: loss and congestion control, noise other than stragglers, caches.

#include <cstdint>
#include <vector>

#include "collectives/cost/machine.hpp"
#include "fabring/status.hpp"
#include "simulation/schedule.hpp"
#include "simulation/stragglers.hpp"

namespace fabring::simulation {

struct Job {
  std::uint64_t bytes = 0;  ///< of the whole vector; with blocks of all n, also of an alltoall
  std::uint32_t element_bytes = 4;
  Stragglers stragglers = {};  ///< they enter the call late
  bool every_rank = false;     ///< also of a symmetric world
  /// Above, only the first tiles are simulated and the rest is added at their pace once all ranks are busy.
  std::uint64_t most_messages = 4'000'000;
};

struct Outcome {
  Nanoseconds time_ns = 0;               ///< until the last rank has its result
  std::vector<Nanoseconds> finished_ns;  ///< of each simulated rank (where tiles were left out: without those)
  std::uint32_t tiles = 1;               ///< into which the call is cut
  std::uint32_t depth = 1;               ///< of them under way at once
  std::uint32_t tiles_simulated = 0;     ///< fewer than `tiles`: the rest was extrapolated
  std::uint64_t messages = 0;            ///< simulated
  std::uint64_t bytes_between = 0;       ///< sent from node to node by the simulated ranks
  std::uint64_t bytes_inside = 0;
  Nanoseconds busiest_card_ns = 0;  ///< time the busiest network card was sending
  Nanoseconds busiest_rank_ns = 0;  ///< processor time of the busiest rank
  bool extrapolated() const { return tiles_simulated < tiles; }
};

/// Errors: invalid_argument (machine, element size); unsupported (more than most_world_steps; may take
/// longer than longest_time); internal (a plan that never finishes).
Result<Outcome> simulate(const Schedule& schedule, const Machine& machine, const Job& job);

/// The options with which make_schedule() keeps together what shares resources on this machine.
ScheduleOptions options_for(const Machine& machine);

}  // namespace fabring::simulation
