#include "collectives/describe.hpp"

#include <algorithm>
#include <vector>

namespace fabring {
namespace {

std::string_view space_name(Space space) {
  switch (space) {
    case Space::input:
      return "input";
    case Space::output:
      return "output";
    case Space::scratch:
      return "scratch";
  }
  return "unknown";
}

/// "input" or "scratch 2".
std::string place_text(const Block& block) {
  std::string text(space_name(block.space));
  if (block.space == Space::scratch) text += " " + std::to_string(block.scratch);
  return text;
}

/// "[2/4] of input -> output", or with both ranges where they differ.
std::string move_text(const Plan& plan, const Block& from, const Block& to) {
  const bool same = from.range == to.range;
  return block_text(plan, from) + " -> " + (same ? place_text(to) : block_text(plan, to));
}

std::string operands_text(const Plan& plan, const Step& step) {
  if (std::size_t{step.first_operand} + step.operand_count > plan.operands.size()) return "operands that do not exist";
  std::string text;
  for (std::uint32_t i = 0; i < step.operand_count; ++i) {
    const Block& operand = plan.operands[step.first_operand + i];
    if (i > 0) text += ", ";
    text += operand.range == step.to.range ? place_text(operand) : block_text(plan, operand);
  }
  return text;
}

}  // namespace

std::string counted(std::size_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

std::string range_text(const Plan& plan, RangeId range) {
  if (range == 0) return "all";
  std::string text;
  while (range != 0) {
    if (range >= plan.ranges.size()) return "range " + std::to_string(range) + "?" + text;
    const Range& r = plan.ranges[range];
    std::string part = "[" + std::to_string(r.first);
    if (r.first >= r.last) part = "[none";
    if (r.last > r.first + 1) part += "-" + std::to_string(r.last - 1);
    text = part + "/" + std::to_string(r.parts) + "]" + text;
    if (r.parent >= range) return "range " + std::to_string(r.parent) + "?" + text;
    range = r.parent;
  }
  return text;
}

std::string block_text(const Plan& plan, const Block& block) {
  return range_text(plan, block.range) + " of " + place_text(block);
}

std::string step_text(const Plan& plan, const Step& step) {
  const std::string peer = std::to_string(step.peer);
  std::string kind(name(step.kind));
  switch (step.kind) {
    case StepKind::send:
      return kind + " to rank " + peer + ": " + block_text(plan, step.from);
    case StepKind::recv:
      return kind + " from rank " + peer + ": " + block_text(plan, step.to);
    case StepKind::recv_reduce:
      return kind + " from rank " + peer + ": " + move_text(plan, step.from, step.to) +
             (step.incoming_first ? ", incoming first" : "");
    case StepKind::reduce:
      return kind + ": " + range_text(plan, step.to.range) + " of " + operands_text(plan, step) + " -> " +
             place_text(step.to);
    case StepKind::copy:
      return kind + ": " + move_text(plan, step.from, step.to);
    case StepKind::finish:
      return kind + ": " + block_text(plan, step.to);
  }
  return kind;
}

std::string describe_steps(const Plan& plan) {
  std::vector<std::string> after(plan.steps.size());
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      std::string& list = after[plan.successors[step.first_successor + i]];
      list += list.empty() ? "  after " : ", ";
      list += std::to_string(id);
    }
  }
  std::string text = plan.algorithm + ", rank " + std::to_string(plan.rank) + " of " + std::to_string(plan.size) +
                     ": " + counted(plan.steps.size(), "step") + "\n";
  const std::size_t width = std::to_string(plan.steps.size()).size() + 2;
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const std::string number = std::to_string(id);
    text.append(width - std::min(width, number.size()), ' ');
    text += number + "  " + step_text(plan, plan.steps[id]) + after[id] + "\n";
  }
  return text;
}

}  // namespace fabring
