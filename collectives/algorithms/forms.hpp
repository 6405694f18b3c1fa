#pragma once
// Every collective by every algorithm it has: for more than one rank, the steps of plan.rank(). What stays with its
// rank (settle_own) is copied by make_plan(). Internal to collectives/; docs/algorithms.md has rounds and bytes.

#include "collectives/algorithms.hpp"
#include "collectives/builder.hpp"

namespace fabring {

using Form = void(PlanBuilder& plan, const PlanRequest& request);

Form allreduce_by_ring;
Form reduce_by_ring;
Form reduce_scatter_by_ring;
Form all_gather_by_ring;
Form broadcast_by_ring;

Form allreduce_by_direct_one_shot;
Form allreduce_by_direct_two_shot;
Form reduce_by_direct;
Form reduce_by_direct_two_shot;
Form reduce_scatter_by_direct;
Form all_gather_by_direct;
Form broadcast_by_direct;
Form broadcast_by_direct_two_shot;
Form gather_by_direct;
Form scatter_by_direct;
Form alltoall_by_direct;
Form barrier_by_direct;

Form allreduce_by_star;

Form allreduce_by_recursive_doubling;
Form all_gather_by_recursive_doubling;
Form allreduce_by_halving_doubling;
Form reduce_scatter_by_halving_doubling;

Form allreduce_by_circulant;
Form reduce_scatter_by_circulant;
Form all_gather_by_circulant;
Form all_gather_by_bruck;
Form alltoall_by_bruck;

Form allreduce_by_double_tree;
Form broadcast_by_double_tree;

Form allreduce_by_hierarchical;
Form reduce_by_hierarchical;
Form reduce_scatter_by_hierarchical;
Form all_gather_by_hierarchical;
Form broadcast_by_hierarchical;
Form gather_by_hierarchical;
Form scatter_by_hierarchical;
Form alltoall_by_hierarchical;

Form allreduce_by_binomial;
Form reduce_by_binomial;
Form broadcast_by_binomial;
Form gather_by_binomial;
Form scatter_by_binomial;
Form barrier_by_binomial;

Form reduce_by_chain;
Form broadcast_by_chain;

Form allreduce_by_fold;
Form reduce_by_fold;
Form reduce_scatter_by_fold;

Form alltoall_by_pairwise;
Form barrier_by_dissemination;

}  // namespace fabring
