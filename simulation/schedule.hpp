#pragma once
// Schedule: the plans of a whole world, ready to be simulated: who receives what each step sends. Where the world is
// symmetric (symmetry.hpp), only the plans of one unit are kept.

#include <cstdint>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/plan.hpp"
#include "fabring/status.hpp"
#include "simulation/symmetry.hpp"

namespace fabring::simulation {

inline constexpr StepId no_step = ~StepId{0};

/// The plan of the ranks of one class, and what its steps mean to others.
struct ClassPlan {
  Plan plan;
  std::vector<StepId> partner;  ///< by step: the other end of its message, a step of the plan of the peer's class
  std::vector<StepId> first_steps;
  std::vector<StepId> slot_receives;  ///< recv_reduce steps in plan order
};

struct Schedule {
  Symmetry symmetry;
  std::vector<int> node_of;
  std::vector<ClassPlan> classes;  ///< symmetry.unit of them
  std::uint64_t largest_message = 0;
  std::uint32_t blocks = 0;

  int ranks() const { return static_cast<int>(node_of.size()); }
  std::uint64_t steps() const;  ///< of all classes
  const ClassPlan& of(Rank rank) const { return classes[static_cast<std::size_t>(symmetry.class_of(rank))]; }
};

/// Of all ranks whose plans are held, or which are simulated: 2 GB.
inline constexpr std::uint64_t most_world_steps = std::uint64_t{16} << 20;

/// Of the plans that are compared before a symmetry is believed (same_plans.hpp): all of 1024 ranks that have some tens
/// of steps each, all of 512 in a ring; a tenth of a second or two, but for the hierarchical alltoall of thousands of
/// ranks, where making one plan takes a tenth.
inline constexpr std::uint64_t most_compared_steps = std::uint64_t{1} << 21;

struct ScheduleOptions {
  bool use_symmetry = true;
  int nodes_per_unit = 1;  ///< what shares a switch must lie in one unit
  std::uint64_t most_steps = most_world_steps;
  std::uint64_t most_compared = most_compared_steps;
};

/// `request.rank` is ignored. Errors: as make_plan(); unsupported, if the plans have more than `most_steps` steps.
Result<Schedule> make_schedule(PlanRequest request, const ScheduleOptions& options = {});

}  // namespace fabring::simulation
