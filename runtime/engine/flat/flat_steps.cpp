#include "runtime/engine/flat/flat_steps.hpp"

#include <functional>
#include <queue>

namespace fabring {
namespace {

std::vector<StepId> in_order(const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan;
  std::vector<StepId> order;
  std::vector<std::uint32_t> need = prepared.dependencies;
  // What may be taken next, by kind; of each the first in the plan.
  using FirstInPlan = std::priority_queue<StepId, std::vector<StepId>, std::greater<>>;
  FirstInPlan sends, local, incoming;
  const auto may_be_taken = [&](StepId id) {
    const StepKind kind = plan.steps[id].kind;
    (kind == StepKind::send ? sends : receives(kind) ? incoming : local).push(id);
  };
  for (const StepId id : prepared.first_steps) may_be_taken(id);
  while (true) {
    FirstInPlan& from = !sends.empty() ? sends : !local.empty() ? local : incoming;
    if (from.empty()) return order;
    const StepId id = from.top();
    from.pop();
    order.push_back(id);
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepId next = plan.successors[step.first_successor + i];
      if (--need[next] == 0) may_be_taken(next);
    }
  }
}

// Which operand of `reduce` is the area of scratch that `received` brings? None, too, if it reads it more than once.
std::uint32_t operand_that_is(const Plan& plan, const Step& reduce, const Block& received) {
  std::uint32_t found = FlatSteps::none;
  for (std::uint32_t i = 0; i < reduce.operand_count; ++i) {
    const Block& operand = plan.operands[reduce.first_operand + i];
    if (operand.space != Space::scratch || operand.scratch != received.scratch) continue;
    if (found != FlatSteps::none || operand.range != received.range) return FlatSteps::none;
    found = i;
  }
  return found;
}

}  // namespace

FlatSteps::FlatSteps(const PreparedPlan& plan) : order(in_order(plan)), operand_of_next(order.size(), none) {
  const std::vector<Step>& steps = plan.plan.steps;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const StepId id = order[i];
    if (!receives(steps[id].kind)) continue;
    stage_ends.push_back(i);
    if (i + 1 < order.size() && plan.only_reader[id] == order[i + 1])
      operand_of_next[i] = operand_that_is(plan.plan, steps[order[i + 1]], steps[id].to);
  }
  stage_ends.push_back(static_cast<std::uint32_t>(order.size()));
}

void FlatPlaces::look_up(const FlatSteps& steps, const Plan& plan, const Operands& operands,
                         const Placement& placement) {
  of.assign(steps.order.size(), {});
  sources.clear();
  for (std::size_t i = 0; i < of.size(); ++i) {
    const Step& step = plan.steps[steps.order[i]];
    Place& place = of[i];
    const auto measure = [&](const Block& block) {
      place.count = operands.count_of(placement, block);
      place.bytes = operands.bytes_of(placement, block);
    };
    if (step.kind == StepKind::send) {
      place.from = operands.at(placement, step.from).data();
      measure(step.from);
    } else if (receives(step.kind) || step.kind == StepKind::reduce) {
      place.to = operands.at(placement, step.to).data();
      measure(step.to);
    }
    if (step.kind == StepKind::recv_reduce) place.from = operands.at(placement, step.from).data();
    if (step.kind != StepKind::reduce) continue;
    place.first_source = static_cast<std::uint32_t>(sources.size());
    for (std::uint32_t operand = 0; operand < step.operand_count; ++operand)
      sources.push_back(operands.at(placement, plan.operands[step.first_operand + operand]).data());
  }
}

}  // namespace fabring
