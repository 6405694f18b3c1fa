#include "collectives/algorithms/pieces.hpp"

namespace fabring {

RangeId ring_part(PlanBuilder& plan, const Group& group, RangeId range, int index) {
  const int n = group.size();
  return plan.part(range, ((index % n) + n) % n, n);
}

// Round k: index i passes part i-k on and adds its own to part i-k-1. Part c starts at c+1 and ends, complete, at c.
RangeId ring_reduce_scatter(PlanBuilder& plan, const Group& group, RangeId range) {
  const int i = group.index();
  for (int k = 1; k < group.size(); ++k) {
    plan.send(group.next(), ring_part(plan, group, range, i - k));
    plan.recv_reduce(group.previous(), ring_part(plan, group, range, i - k - 1), /*incoming_first=*/true);
  }
  return ring_part(plan, group, range, i);
}

void ring_all_gather(PlanBuilder& plan, const Group& group, RangeId range) {
  const int i = group.index();
  for (int k = 0; k + 1 < group.size(); ++k) {
    plan.send(group.next(), ring_part(plan, group, range, i - k));
    plan.recv(group.previous(), ring_part(plan, group, range, i - k - 1));
  }
}

void ring(PlanBuilder& plan, ReduceOp op) {
  const Group all = Group::all(plan.rank(), plan.size());
  const RangeId mine = ring_reduce_scatter(plan, all, plan.whole());
  finish_if_avg(plan, op, mine);
  ring_all_gather(plan, all, plan.whole());
}

}  // namespace fabring
