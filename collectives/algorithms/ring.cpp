// Ring: a rank sends to the next and receives from the previous, never to or from another. n - 1 rounds of one share
// for a reduce-scatter or an all-gather; the fewest bytes there can be.
//
// Reduce-scatter, round k: index i passes share i-k on and adds its own to share i-k-1. Share c starts at c+1 and ends,
// complete, at c. All-gather, round k: index i passes share i-k on, from its own to that of the next.

#include <optional>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/node_order.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

RangeId share_of(std::span<const RangeId> shares, int index) {
  return shares[at(modulo(index, static_cast<int>(shares.size())))];
}

}  // namespace

std::vector<Exchange> ring_rounds(int index, int n) {
  std::vector<Exchange> rounds;
  for (int k = 1; k < n; ++k) {
    rounds.push_back({(index + 1) % n, modulo(index - 1, n), {index - k, 1}, {index - k - 1, 1}});
  }
  return rounds;
}

void ring_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares) {
  const int i = group.index();
  for (int k = 1; k < group.size(); ++k) {
    const RangeId passed = share_of(shares, i - k);
    const RangeId next = share_of(shares, i - k - 1);
    if (!plan.empty(passed)) plan.send(group.next(), passed);
    if (!plan.empty(next)) plan.recv_reduce(group.previous(), next, /*incoming_first=*/true);
  }
}

// Two areas in turn: one takes the next partial result while the one before it is sent.
void ring_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, Block result) {
  const int i = group.index();
  const int n = group.size();
  std::optional<Block> areas[2];
  for (int k = 1; k < n; ++k) {
    const RangeId passed = share_of(shares, i - k);
    const RangeId next = share_of(shares, i - k - 1);
    if (!plan.empty(passed))
      plan.send(group.next(), k == 1 ? plan.input(passed) : PlanBuilder::in(*areas[k % 2], passed));
    if (plan.empty(next)) continue;
    std::optional<Block>& area = areas[(k + 1) % 2];
    if (!area && k + 1 < n) area = plan.scratch(next);
    plan.recv_reduce(group.previous(), k + 1 == n ? result : PlanBuilder::in(*area, next), plan.input(next),
                     /*incoming_first=*/true);
  }
}

void ring_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, int holder) {
  const int i = group.index();
  const int n = group.size();
  for (int k = 0; k + 1 < n; ++k) {
    const RangeId passed = share_of(shares, i - k);
    const RangeId next = share_of(shares, i - k - 1);
    if ((i + 1) % n != holder && !plan.empty(passed)) plan.send(group.next(), passed);
    if (i != holder && !plan.empty(next)) plan.recv(group.previous(), next);
  }
}

void allreduce_by_ring(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = in_node_order(plan, request.node_of);
  const auto shares = cut(plan, plan.whole(), plan.size());
  ring_reduce_scatter(plan, all, shares);
  finish_if_avg(plan, request.op, shares[at(all.index())]);
  ring_all_gather(plan, all, shares);
}

// A reduce-scatter; then each hands its share to the root.
void reduce_by_ring(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = in_node_order(plan, request.node_of);
  const auto shares = cut(plan, plan.whole(), plan.size());
  const RangeId mine = shares[at(all.index())];
  const Block result = plan.is_root() ? plan.output(mine) : plan.scratch(mine);
  ring_reduce_scatter(plan, all, shares, result);
  finish_if_avg(plan, request.op, result);
  if (!plan.is_root()) return plan.send(plan.root(), result);
  for (int k = 1; k < plan.size(); ++k) plan.recv(all.at(all.index() + k), share_of(shares, all.index() + k));
}

void reduce_scatter_by_ring(PlanBuilder& plan, const PlanRequest& request) {
  const Block result = plan.output(plan.block(plan.rank()));
  const Group all = in_node_order(plan, request.node_of);
  ring_reduce_scatter(plan, all, blocks_of_ranks(plan, all), result);
  finish_if_avg(plan, request.op, result);
}

void all_gather_by_ring(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = in_node_order(plan, request.node_of);
  ring_all_gather(plan, all, blocks_of_ranks(plan, all));
}

// The root hands out a share to each; then an all-gather.
void broadcast_by_ring(PlanBuilder& plan, const PlanRequest& request) {
  const Group group = from_root(plan, request.node_of);
  const auto shares = cut(plan, plan.whole(), plan.size());
  direct_scatter(plan, group, shares);
  ring_all_gather(plan, group, shares, /*holder=*/0);
}

}  // namespace fabring
