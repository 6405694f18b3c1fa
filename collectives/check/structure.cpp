#include <algorithm>
#include <string>

#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"

namespace fabring::check {
namespace {

std::string text(std::size_t number) { return std::to_string(number); }

Status broken_plan(const Plan& plan, const std::string& what) {
  return {ErrorCode::internal, "plan of rank " + std::to_string(plan.rank) + " (" + plan.algorithm + "): " + what};
}

Status check_ranges(const Plan& plan) {
  if (plan.ranges.empty()) return broken_plan(plan, "has no ranges; range 0 is the whole");
  for (std::size_t id = 0; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    const bool bounds = range.first <= range.last && range.last <= range.parts && range.parts > 0;
    if (!bounds ||
        (id == 0 ? range.parent != 0 || range.first != 0 || range.last != range.parts : range.parent >= id)) {
      return broken_plan(plan, "range " + text(id) + " is parts " + text(range.first) + " to " + text(range.last) +
                                   " of " + text(range.parts) + " of range " + text(range.parent) +
                                   ", which cannot be");
    }
  }
  for (std::size_t i = 0; i < plan.scratch.size(); ++i) {
    if (plan.scratch[i] >= plan.ranges.size()) {
      return broken_plan(plan, "scratch " + text(i) + " is as long as range " + text(plan.scratch[i]) + " of " +
                                   text(plan.ranges.size()));
    }
  }
  return {};
}

Status check_block(const Plan& plan, StepId id, const Block& block) {
  if (block.range >= plan.ranges.size()) return broken(plan, id, "there is no range " + text(block.range));
  if (block.space != Space::scratch) return {};
  if (block.scratch >= plan.scratch.size()) return broken(plan, id, "there is no scratch " + text(block.scratch));
  if (plan.scratch[block.scratch] != block.range) {
    return broken(plan, id,
                  "scratch " + text(block.scratch) + " holds " + range_text(plan, plan.scratch[block.scratch]) +
                      ", not " + range_text(plan, block.range));
  }
  return {};
}

Status check_step(const Plan& plan, StepId id, std::span<const Extent> extents, ReduceOp op) {
  const Step& step = plan.steps[id];
  if (step.kind > StepKind::finish) return broken(plan, id, "there is no such kind of step");
  if (sends(step) || receives(step)) {
    if (step.peer < 0 || step.peer >= plan.size) return broken(plan, id, "there is no such peer");
    if (step.peer == plan.rank) return broken(plan, id, "a rank sends no messages to itself");
  }
  if (step.kind == StepKind::reduce) {
    const std::size_t end = std::size_t{step.first_operand} + step.operand_count;
    if (step.operand_count == 0 || end > plan.operands.size()) return broken(plan, id, "its operands do not exist");
  }
  if (step.kind == StepKind::finish && op != ReduceOp::avg) return broken(plan, id, "only avg is finished");
  for (const Block& block : writes(step)) {
    FABRING_TRY(check_block(plan, id, block));
    if (block.space == Space::input) return broken(plan, id, "the input belongs to the caller and is never written");
  }
  for (const Block& block : reads(plan, step)) {
    FABRING_TRY(check_block(plan, id, block));
    for (const Block& to : writes(step)) {
      if (extents[block.range].count != extents[to.range].count) {
        return broken(plan, id,
                      block_text(plan, block) + " has " + text(extents[block.range].count) + " elements, " +
                          block_text(plan, to) + " has " + text(extents[to.range].count));
      }
    }
  }
  return {};
}

Status check_dependencies(const Plan& plan) {
  std::vector<std::uint32_t> found(plan.steps.size());
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    if (std::size_t{step.first_successor} + step.successor_count > plan.successors.size()) {
      return broken(plan, id, "its successors do not exist");
    }
    const std::span<const StepId> after(plan.successors.data() + step.first_successor, step.successor_count);
    for (const StepId successor : after) {
      if (successor <= id || successor >= plan.steps.size()) {
        return broken(plan, id,
                      "step " + text(successor) + " cannot wait for it; steps come after those they wait for");
      }
      if (std::count(after.begin(), after.end(), successor) != 1) {
        return broken(plan, id, "step " + text(successor) + " waits for it twice");
      }
      ++found[successor];
    }
  }
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    if (found[id] != plan.steps[id].dependencies) {
      return broken(plan, id,
                    "says it waits for " + text(plan.steps[id].dependencies) + " steps, but " + text(found[id]) +
                        " steps name it as successor");
    }
  }
  return {};
}

}  // namespace

Status broken(const Plan& plan, StepId step, const std::string& what) {
  return broken_plan(plan, "step " + text(step) + " (" + step_text(plan, plan.steps[step]) + "): " + what);
}

std::span<const Block> reads(const Plan& plan, const Step& step) {
  switch (step.kind) {
    case StepKind::send:
    case StepKind::recv_reduce:
    case StepKind::copy:
      return {&step.from, 1};
    case StepKind::reduce:
      return {plan.operands.data() + step.first_operand, step.operand_count};
    case StepKind::finish:
      return {&step.to, 1};
    case StepKind::recv:
      break;
  }
  return {};
}

std::span<const Block> writes(const Step& step) {
  if (step.kind == StepKind::send) return {};
  return {&step.to, 1};
}

Result<World> bind_world(std::span<const Plan> plans, std::size_t count, ReduceOp op) {
  World world{plans, count, {}};
  if (plans.empty()) return Status(ErrorCode::invalid_argument, "no plans to check; pass those of all ranks");
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    if (plan.rank != static_cast<Rank>(rank) || plan.size != static_cast<int>(plans.size())) {
      return broken_plan(plan, "says rank " + std::to_string(plan.rank) + " of " + std::to_string(plan.size) +
                                   ", but is number " + text(rank) + " of " + text(plans.size()));
    }
    if (Status status = check_ranges(plan); !status.ok()) return status;
    std::vector<Extent>& extents = world.extents.emplace_back(plan.ranges.size());
    bind(plan, count, extents);
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      if (Status status = check_step(plan, id, extents, op); !status.ok()) return status;
    }
    if (Status status = check_dependencies(plan); !status.ok()) return status;
  }
  return world;
}

}  // namespace fabring::check
