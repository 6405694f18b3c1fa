#include "tests/collectives/plan_mutations.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/describe.hpp"

namespace fabring::test {
namespace {

using Edges = std::vector<std::vector<StepId>>;  // successors by step

Edges edges_of(const Plan& plan) {
  Edges edges;
  for (const Step& step : plan.steps) {
    const auto* first = plan.successors.data() + step.first_successor;
    edges.emplace_back(first, first + step.successor_count);
  }
  return edges;
}

void set_edges(Plan& plan, const Edges& edges) {
  plan.successors.clear();
  for (Step& step : plan.steps) step.dependencies = 0;
  for (std::size_t id = 0; id < edges.size(); ++id) {
    plan.steps[id].first_successor = static_cast<std::uint32_t>(plan.successors.size());
    plan.steps[id].successor_count = static_cast<std::uint32_t>(edges[id].size());
    plan.successors.insert(plan.successors.end(), edges[id].begin(), edges[id].end());
    for (const StepId after : edges[id]) ++plan.steps[after].dependencies;
  }
}

bool is_message(const Step& step) { return step.peer >= 0; }

/// The operands a step really uses.
std::vector<Block*> blocks_of(Plan& plan, Step& step) {
  switch (step.kind) {
    case StepKind::send:
      return {&step.from};
    case StepKind::recv:
    case StepKind::finish:
      return {&step.to};
    case StepKind::recv_reduce:
    case StepKind::copy:
      return {&step.to, &step.from};
    case StepKind::reduce:
      break;
  }
  std::vector<Block*> blocks{&step.to};
  for (std::uint32_t i = 0; i < step.operand_count; ++i) blocks.push_back(&plan.operands[step.first_operand + i]);
  return blocks;
}

void drop_step(Plan& plan, StepId gone) {
  Edges edges = edges_of(plan);
  for (auto& after : edges) {
    const auto found = std::find(after.begin(), after.end(), gone);
    if (found == after.end()) continue;
    after.erase(found);
    for (const StepId next : edges[gone]) {
      if (std::find(after.begin(), after.end(), next) == after.end()) after.push_back(next);
    }
  }
  edges.erase(edges.begin() + gone);
  plan.steps.erase(plan.steps.begin() + gone);
  for (auto& after : edges) {
    for (StepId& id : after) id -= id > gone ? 1 : 0;
  }
  set_edges(plan, edges);
}

bool change_kind(Plan& plan, Step& step) {
  switch (step.kind) {
    case StepKind::recv_reduce:
      step.kind = StepKind::recv;
      return true;
    case StepKind::recv:
      step.kind = StepKind::recv_reduce;
      step.from = step.to;
      return true;
    case StepKind::reduce:
      step.kind = StepKind::copy;
      step.from = plan.operands[step.first_operand];
      return true;
    case StepKind::finish:
      step.kind = StepKind::copy;
      step.from = step.to;
      return true;
    case StepKind::send:
    case StepKind::copy:
      break;
  }
  return false;
}

bool apply(Plan& plan, StepId id, Fault fault, std::mt19937_64& random) {
  Step& step = plan.steps[id];
  const std::vector<Block*> blocks = blocks_of(plan, step);
  Block& block = *blocks[random() % blocks.size()];
  switch (fault) {
    case Fault::drop_dependency: {
      Edges edges = edges_of(plan);
      if (edges[id].empty()) return false;
      edges[id].erase(edges[id].begin() + static_cast<std::ptrdiff_t>(random() % edges[id].size()));
      set_edges(plan, edges);
      return true;
    }
    case Fault::change_range: {
      const auto other = static_cast<RangeId>(random() % plan.ranges.size());
      return std::exchange(block.range, other) != other;
    }
    case Fault::shift_range: {
      Range& range = plan.ranges[block.range];
      if (block.range == 0) return false;
      const bool up = range.last < range.parts && (range.first == 0 || random() % 2 == 0);
      range.first += up ? 1 : -1;
      range.last += up ? 1 : -1;
      return true;
    }
    case Fault::wrong_peer: {
      const auto peer = static_cast<Rank>(random() % static_cast<std::uint64_t>(plan.size));
      return is_message(step) && std::exchange(step.peer, peer) != peer;
    }
    case Fault::wrong_message: {
      const auto message = static_cast<std::uint32_t>(random() % (step.message + 3));
      return is_message(step) && std::exchange(step.message, message) != message;
    }
    case Fault::change_kind:
      return change_kind(plan, step);
    case Fault::flip_operands: {
      if (step.kind == StepKind::recv_reduce) return step.incoming_first = !step.incoming_first, true;
      if (step.kind != StepKind::reduce || step.operand_count < 2) return false;
      const std::size_t at = step.first_operand + random() % (step.operand_count - 1);
      std::swap(plan.operands[at], plan.operands[at + 1]);
      return true;
    }
    case Fault::drop_step:
      drop_step(plan, id);
      return true;
    case Fault::swap_space:
      if (block.space == Space::scratch) return false;
      block.space = block.space == Space::input ? Space::output : Space::input;
      return true;
    case Fault::wrong_scratch: {
      if (block.space != Space::scratch) return false;
      const auto other = static_cast<std::uint32_t>(random() % (plan.scratch.size() + 1));
      return std::exchange(block.scratch, other) != other;
    }
    case Fault::repeat_operand: {
      if (step.kind != StepKind::reduce || step.operand_count < 2) return false;
      const std::size_t at = step.first_operand + random() % (step.operand_count - 1);
      plan.operands[at] = plan.operands[at + 1];
      return true;
    }
  }
  return false;
}

}  // namespace

std::string_view name(Fault fault) {
  constexpr std::string_view names[] = {"drop_dependency", "change_range",  "shift_range",   "wrong_peer",
                                        "wrong_message",   "change_kind",   "flip_operands", "drop_step",
                                        "swap_space",      "wrong_scratch", "repeat_operand"};
  return names[static_cast<std::size_t>(fault)];
}

std::optional<Mutation> mutate(Plan& plan, Fault fault, std::mt19937_64& random) {
  if (plan.steps.empty()) return std::nullopt;
  for (int tries = 0; tries < 50; ++tries) {
    const auto id = static_cast<StepId>(random() % plan.steps.size());
    const std::string before = step_text(plan, plan.steps[id]);
    Plan changed = plan;
    if (!apply(changed, id, fault, random)) continue;
    plan = std::move(changed);
    return Mutation{fault, std::string(name(fault)) + " at rank " + std::to_string(plan.rank) + ", step " +
                               std::to_string(id) + " (" + before + ")"};
  }
  return std::nullopt;
}

bool orders_at_least(const Plan& plan, const Plan& original) {
  const Edges edges = edges_of(plan);
  const Edges wanted = edges_of(original);
  for (StepId from = 0; from < wanted.size(); ++from) {
    std::vector<bool> reached(edges.size());
    std::vector<StepId> open{from};
    while (!open.empty()) {
      const StepId id = open.back();
      open.pop_back();
      for (const StepId after : edges[id]) {
        if (!reached[after]) open.push_back(after);
        reached[after] = true;
      }
    }
    for (const StepId after : wanted[from]) {
      if (!reached[after]) return false;
    }
  }
  return true;
}

}  // namespace fabring::test
