// Direct: everybody exchanges with everybody, or with the root, in one round. Reductions have all operands at once and
// reduce them in the order of the ranks in one step. Peers are taken from the next one on, so that not everybody turns
// to index 0 first.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// A share of the vector for each rank but the root, which has the most to receive, or to send, without one.
std::vector<RangeId> shares_beside_root(PlanBuilder& plan, const Group& group) {
  std::vector<RangeId> shares;
  shares.reserve(at(group.size()));
  int dealt = 0;
  for (int i = 0; i < group.size(); ++i)
    shares.push_back(group.at(i) == plan.root() ? plan.nothing() : plan.part(plan.whole(), dealt++, group.size() - 1));
  return shares;
}

}  // namespace

void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  direct_reduce_scatter(plan, group, shares, plan.output(shares[at(group.index())]));
}

void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, Block result) {
  const int n = group.size();
  const RangeId mine = shares[at(group.index())];
  std::vector<Block> operands(at(n));
  for (int k = 1; k < n; ++k) {
    const int to = (group.index() + k) % n;
    const int from = modulo(group.index() - k, n);
    if (!plan.empty(shares[at(to)])) plan.send(group.at(to), shares[at(to)]);
    if (plan.empty(mine)) continue;
    operands[at(from)] = plan.scratch(mine);
    plan.recv(group.at(from), operands[at(from)]);
  }
  if (n == 1 || plan.empty(mine)) return;
  operands[at(group.index())] = plan.value(mine);
  plan.reduce(result, operands);
}

void direct_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, int holder) {
  const int n = group.size();
  const RangeId mine = shares[at(group.index())];
  for (int k = 1; k < n; ++k) {
    const int to = (group.index() + k) % n;
    const int from = modulo(group.index() - k, n);
    if (to != holder && !plan.empty(mine)) plan.send(group.at(to), mine);
    if (group.index() != holder && !plan.empty(shares[at(from)])) plan.recv(group.at(from), shares[at(from)]);
  }
}

void direct_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  const RangeId mine = shares[at(group.index())];
  if (group.index() != 0 && !plan.empty(mine)) plan.recv(group.at(0), mine);
  for (int i = 1; i < group.size() && group.index() == 0; ++i) {
    if (!plan.empty(shares[at(i)])) plan.send(group.at(i), shares[at(i)]);
  }
}

void direct_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  if (group.index() != 0) return plan.send(group.at(0), shares[at(group.index())]);
  for (int i = 1; i < group.size(); ++i) plan.recv(group.at(i), shares[at(i)]);
}

void direct_reduce(PlanBuilder& plan, Rank root) {
  if (plan.rank() != root) return plan.send(root, plan.whole());
  std::vector<Block> operands(at(plan.size()), plan.input(plan.whole()));
  for (int k = 1; k < plan.size(); ++k) {
    const Rank peer = (plan.rank() + k) % plan.size();
    operands[at(peer)] = plan.scratch(plan.whole());
    plan.recv(peer, operands[at(peer)]);
  }
  plan.reduce(plan.output(plan.whole()), operands);
}

// Everybody is responsible for everything.
void allreduce_by_direct_one_shot(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  direct_reduce_scatter(plan, all, std::vector<RangeId>(at(all.size()), plan.whole()));
  finish_if_avg(plan, request.op, plan.whole());
}

void allreduce_by_direct_two_shot(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  const auto shares = cut(plan, plan.whole(), all.size());
  direct_reduce_scatter(plan, all, shares);
  finish_if_avg(plan, request.op, shares[at(all.index())]);
  direct_all_gather(plan, all, shares);
}

// The root alone is responsible, for everything.
void reduce_by_direct(PlanBuilder& plan, const PlanRequest& request) {
  direct_reduce(plan, plan.root());
  if (plan.is_root()) finish_if_avg(plan, request.op, plan.whole());
}

// A reduce-scatter among all but the root; then each hands its share to the root, which receives the vector once.
void reduce_by_direct_two_shot(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  const auto shares = shares_beside_root(plan, all);
  const RangeId mine = shares[at(all.index())];
  const Block result = plan.is_root() ? plan.output(mine) : plan.scratch(mine);
  direct_reduce_scatter(plan, all, shares, result);
  if (!plan.is_root()) {
    finish_if_avg(plan, request.op, result);
    return plan.send(plan.root(), result);
  }
  for (int k = 1; k < all.size(); ++k) plan.recv(all.at(all.index() + k), shares[at((all.index() + k) % all.size())]);
}

void reduce_scatter_by_direct(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  direct_reduce_scatter(plan, all, blocks_of_ranks(plan, all));
  finish_if_avg(plan, request.op, plan.block(plan.rank()));
}

void all_gather_by_direct(PlanBuilder& plan, const PlanRequest&) {
  const Group all = Group::all(plan.rank(), plan.size());
  direct_all_gather(plan, all, blocks_of_ranks(plan, all));
}

void broadcast_by_direct(PlanBuilder& plan, const PlanRequest&) {
  direct_scatter(plan, rotated(plan, plan.root()), std::vector<RangeId>(at(plan.size()), plan.whole()));
}

// The root hands out a share to each, and sends no more; then the others have an all-gather.
void broadcast_by_direct_two_shot(PlanBuilder& plan, const PlanRequest&) {
  const Group group = rotated(plan, plan.root());
  const auto shares = shares_beside_root(plan, group);
  direct_scatter(plan, group, shares);
  direct_all_gather(plan, group, shares, /*holder=*/0);
}

void gather_by_direct(PlanBuilder& plan, const PlanRequest&) {
  std::vector<RangeId> shares;
  shares.reserve(at(plan.size()));
  for (int i = 0; i < plan.size(); ++i) shares.push_back(plan.block((plan.root() + i) % plan.size()));
  direct_gather(plan, rotated(plan, plan.root()), shares);
}

void scatter_by_direct(PlanBuilder& plan, const PlanRequest&) {
  std::vector<RangeId> shares;
  shares.reserve(at(plan.size()));
  for (int i = 0; i < plan.size(); ++i) shares.push_back(plan.block((plan.root() + i) % plan.size()));
  direct_scatter(plan, rotated(plan, plan.root()), shares);
}

void alltoall_by_direct(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  for (int k = 1; k < n; ++k) {
    const Rank to = (plan.rank() + k) % n;
    const Rank from = modulo(plan.rank() - k, n);
    plan.send(to, plan.input(plan.block(to)));
    plan.recv(from, plan.output(plan.block(n + from)));
  }
}

void barrier_by_direct(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  for (int k = 1; k < n; ++k) {
    plan.send((plan.rank() + k) % n, plan.nothing());
    plan.recv(modulo(plan.rank() - k, n), plan.nothing());
  }
}

}  // namespace fabring
