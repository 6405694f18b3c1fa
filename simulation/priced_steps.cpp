#include "simulation/priced_steps.hpp"

#include <algorithm>
#include <cstddef>

#include "collectives/tiling.hpp"

namespace fabring::simulation {
namespace {

Nanoseconds message_cost(const Step& step, std::uint64_t bytes, bool needs_grant, const Tier& tier) {
  const Nanoseconds moved = (needs_grant ? tier.grant_ns : 0) + transfer_ns(bytes, tier.copy_bytes_per_second);
  if (step.kind == StepKind::send) return tier.send_ns + moved;
  const bool placed = step.kind == StepKind::recv && step.to.space == Space::output;
  return tier.receive_ns + moved + (placed ? transfer_ns(bytes, tier.place_bytes_per_second) : 0);
}

Nanoseconds computing_cost(const Step& step, std::uint64_t bytes, const Machine& machine) {
  const Nanoseconds once = transfer_ns(bytes, machine.reduce_bytes_per_second);
  if (step.kind != StepKind::reduce) return once;
  const Nanoseconds folds = std::max<Nanoseconds>(1, Nanoseconds{step.operand_count} - 1);
  return once > longest_time / folds ? longest_time : once * folds;
}

}  // namespace

PricedSteps::PricedSteps(const Schedule& schedule, const Machine& machine, const Cutting& cutting,
                         std::uint32_t element_bytes, bool every_rank)
    : classes_(schedule.classes.size()), untouched_(schedule.classes.size()) {
  const std::uint64_t eager = longest_eager(machine.tiling, cutting.tiles());
  for (std::size_t own = 0; own < classes_.size(); ++own) {
    const ClassPlan& plan = schedule.classes[own];
    std::array<std::vector<Extent>, 2> extents;
    for (std::size_t cut = 0; cut < extents.size(); ++cut) {
      extents[cut].resize(plan.plan.ranges.size());
      bind(plan.plan, cutting.length(cut), extents[cut]);
    }
    classes_[own].reserve(plan.plan.steps.size());
    untouched_[own].reserve(plan.plan.steps.size());
    for (StepId id = 0; id < plan.plan.steps.size(); ++id) {
      const Step& step = plan.plan.steps[id];
      PricedStep& priced = classes_[own].emplace_back();
      priced.first_successor = step.first_successor;
      priced.successor_count = step.successor_count;
      priced.kind = step.kind;
      priced.waits_for_many = step.dependencies > StepState::most;
      const std::uint32_t counted = std::min(step.dependencies, StepState::most);
      untouched_[own].push_back({static_cast<std::uint8_t>(counted & StepState::most), 0});
      if (is_message(step.kind)) {
        // A unit has whole nodes, so what is inside one in the first unit is so in all.
        priced.inside = schedule.node_of[own] == schedule.node_of[static_cast<std::size_t>(step.peer)];
        priced.peer_position = schedule.symmetry.class_of(step.peer);
        priced.peer = every_rank ? step.peer : priced.peer_position;
        priced.partner = plan.partner[id];
      }
      for (std::size_t cut = 0; cut < extents.size(); ++cut) {
        const RangeId range = step.kind == StepKind::send ? step.from.range : step.to.range;
        const std::uint64_t bytes = std::uint64_t{extents[cut][range].count} * element_bytes;
        priced.bytes[cut] = bytes;
        priced.cost[cut] = is_message(step.kind) ? message_cost(step, bytes, bytes > eager, machine.tier(priced.inside))
                                                 : computing_cost(step, bytes, machine);
      }
    }
  }
}

}  // namespace fabring::simulation
