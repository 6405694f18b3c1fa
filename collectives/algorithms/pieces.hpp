#pragma once
// The pieces allreduces are made of. Each adds its steps for one rank of a group to a plan; every rank of the group
// must add the same piece over the same range. Internal to collectives/. Terms: x_i is the value of group index i, n
// the size of the group; rounds and bytes are in docs/algorithms.md.

#include <span>

#include "collectives/algorithms.hpp"
#include "collectives/builder.hpp"

namespace fabring {

/// Part `index` of `range`, cut as a ring over `group` cuts it.
RangeId ring_part(PlanBuilder& plan, const Group& group, RangeId range, int index);

/// Afterwards index i holds part i, reduced: ((x_{i+1} op x_{i+2}) op ...) op x_i. Returns the own part.
RangeId ring_reduce_scatter(PlanBuilder& plan, const Group& group, RangeId range);
/// Index i holds part i; afterwards all hold all.
void ring_all_gather(PlanBuilder& plan, const Group& group, RangeId range);

/// shares[i] is what index i is responsible for; ranges without parts are skipped. Afterwards index i holds shares[i],
/// reduced in one step in the order of the group: x_0 op x_1 op ... op x_{n-1}, rounded once.
void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);
/// Index i holds shares[i]; afterwards all hold all shares.
void direct_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);

/// Whole allreduces over all ranks. The last step of each is left to make_plan().
void ring(PlanBuilder& plan, ReduceOp op);
void recursive_doubling(PlanBuilder& plan, ReduceOp op);
void direct_one_shot(PlanBuilder& plan, ReduceOp op);
void direct_two_shot(PlanBuilder& plan, ReduceOp op);
void hierarchical(PlanBuilder& plan, ReduceOp op, std::span<const int> node_of);

/// avg: divides what this rank has just reduced, before anybody else gets it.
inline void finish_if_avg(PlanBuilder& plan, ReduceOp op, RangeId range) {
  if (op == ReduceOp::avg) plan.finish(range);
}

}  // namespace fabring
