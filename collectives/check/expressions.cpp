#include "collectives/check/expressions.hpp"

#include <algorithm>
#include <utility>

namespace fabring::check {

Expressions::Expressions(int ranks) : ranks_(ranks), nodes_(static_cast<std::size_t>(ranks) + 1) {}

ExpressionId Expressions::intern(Node node) {
  const auto id = static_cast<ExpressionId>(nodes_.size());
  const auto [at, added] = known_.try_emplace(node, id);
  if (added) nodes_.push_back(std::move(node));
  return at->second;
}

ExpressionId Expressions::reduced(std::span<const ExpressionId> operands) {
  if (std::find(operands.begin(), operands.end(), undefined) != operands.end()) return undefined;
  if (operands.size() == 1) return operands[0];
  return intern({false, {operands.begin(), operands.end()}});
}

ExpressionId Expressions::finished(ExpressionId value) {
  return value == undefined ? undefined : intern({true, {value}});
}

std::string Expressions::read_inputs(ExpressionId value, std::vector<Rank>& inputs) const {
  // Not recursive (a ring's expression is as deep as the ring is long), and bounded: a broken plan may double its
  // inputs at every step.
  std::vector<ExpressionId> open{value};
  std::size_t visits = 0;
  while (!open.empty()) {
    const ExpressionId id = open.back();
    open.pop_back();
    const Node& node = nodes_[id];
    if (node.finish) return "is finished before it is complete, or twice";
    if (id <= static_cast<ExpressionId>(ranks_)) inputs.push_back(static_cast<Rank>(id) - 1);
    if (++visits > 4 * static_cast<std::size_t>(ranks_)) return "has far too many operands";
    open.insert(open.end(), node.operands.rbegin(), node.operands.rend());
  }
  return {};
}

// Of inputs in their order: all but the first operand of every step are inputs.
bool Expressions::is_fold(ExpressionId value) const {
  const auto is_input = [&](ExpressionId id) { return nodes_[id].operands.empty(); };
  while (!is_input(value)) {
    const std::vector<ExpressionId>& operands = nodes_[value].operands;
    if (!std::all_of(operands.begin() + 1, operands.end(), is_input)) return false;
    value = operands[0];
  }
  return true;
}

std::string Expressions::look_at(ExpressionId value, Wanted wanted) const {
  if (value == undefined) return "was never written, or is made of what was not, or of different elements";
  if (nodes_[value].finish != wanted.finished) {
    return wanted.finished ? "is not finished" : "is finished, though nothing asks for it";
  }
  const ExpressionId sum = wanted.finished ? nodes_[value].operands[0] : value;
  std::vector<Rank> inputs;
  if (std::string wrong = read_inputs(sum, inputs); !wrong.empty()) return wrong;
  std::vector<int> times(static_cast<std::size_t>(ranks_));
  for (const Rank rank : inputs) ++times[static_cast<std::size_t>(rank)];
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    if (times[rank] == 1) continue;
    return "has rank " + std::to_string(rank) + "'s input " + std::to_string(times[rank]) + " times, not once";
  }
  if (wanted.order != Order::any && !std::is_sorted(inputs.begin(), inputs.end())) {
    return "does not have the inputs in the order of the ranks";
  }
  if (wanted.order == Order::folded && !is_fold(sum)) return "is not one fold from the left";
  const std::size_t operands = nodes_[sum].operands.size();
  if (wanted.order == Order::in_one_step && operands != 0 && operands != times.size()) {
    return "is not reduced in one step";
  }
  return {};
}

std::string Expressions::complaint(ExpressionId value, Wanted wanted) {
  const auto [at, added] = complaints_.try_emplace({value, wanted});
  if (added) at->second = look_at(value, wanted);
  return at->second;
}

std::string Expressions::text(ExpressionId value) const {
  int budget = 60;  // a broken plan's expression may have more terms than there is memory
  return text(value, budget);
}

std::string Expressions::text(ExpressionId value, int& budget) const {
  if (value == undefined) return "undefined";
  if (--budget < 0) return "...";
  const Node& node = nodes_[value];
  if (node.operands.empty()) return "x" + std::to_string(value - 1);
  if (node.finish) return text(node.operands[0], budget) + "/n";
  std::string all = "(";
  for (const ExpressionId operand : node.operands) {
    if (all.size() > 1) all += "+";
    all += text(operand, budget);
    if (budget < 0) break;
  }
  return all + ")";
}

}  // namespace fabring::check
