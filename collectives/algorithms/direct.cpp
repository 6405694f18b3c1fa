#include <vector>

#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// Peers are taken from the next one on, so that not everybody turns to index 0 first.
void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  const int n = group.size();
  const RangeId mine = shares[at(group.index())];
  std::vector<Block> operands(at(n));
  for (int k = 1; k < n; ++k) {
    const int to = (group.index() + k) % n;
    const int from = (group.index() - k + n) % n;
    if (!plan.empty(shares[at(to)])) plan.send(group.at(to), shares[at(to)]);
    if (plan.empty(mine)) continue;
    operands[at(from)] = plan.scratch(mine);
    plan.recv(group.at(from), operands[at(from)]);
  }
  if (n == 1 || plan.empty(mine)) return;
  operands[at(group.index())] = plan.value(mine);
  plan.reduce(plan.output(mine), operands);
}

void direct_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  const int n = group.size();
  const RangeId mine = shares[at(group.index())];
  for (int k = 1; k < n; ++k) {
    const int to = (group.index() + k) % n;
    const int from = (group.index() - k + n) % n;
    if (!plan.empty(mine)) plan.send(group.at(to), mine);
    if (!plan.empty(shares[at(from)])) plan.recv(group.at(from), shares[at(from)]);
  }
}

void direct_one_shot(PlanBuilder& plan, ReduceOp op) {
  // Everybody is responsible for everything.
  const Group all = Group::all(plan.rank(), plan.size());
  direct_reduce_scatter(plan, all, std::vector<RangeId>(at(all.size()), plan.whole()));
  finish_if_avg(plan, op, plan.whole());
}

void direct_two_shot(PlanBuilder& plan, ReduceOp op) {
  const Group all = Group::all(plan.rank(), plan.size());
  std::vector<RangeId> shares;
  for (int i = 0; i < all.size(); ++i) shares.push_back(plan.part(plan.whole(), i, all.size()));
  direct_reduce_scatter(plan, all, shares);
  finish_if_avg(plan, op, shares[at(all.index())]);
  direct_all_gather(plan, all, shares);
}

}  // namespace fabring
