// Binomial trees: index i hangs below i without its lowest bit, so that it stands for the indices [i, i + 2^k).
// ceil(log2 n) rounds of the whole vector.
//
//        0                 A reduce runs up the tree, nearest child first; a broadcast down, farthest first.
//    4   2   1             Values are joined with their neighbours only, so the operands stay in the order of
//  6 5   3                 the group.
//  7

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/node_order.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

BinomialTree::BinomialTree(int index, int size) {
  for (int mask = 1; mask < size; mask *= 2) {
    if ((index & mask) != 0) {
      parent = index - mask;
      return;
    }
    if (index + mask < size) children.push_back(index + mask);
  }
}

int BinomialTree::subtree(int index, int size) {
  int indices = 1;
  while (indices < size && (index & indices) == 0) indices *= 2;
  return std::min(indices, size - index);
}

void binomial_broadcast(PlanBuilder& plan, const Group& group, RangeId range) {
  const BinomialTree tree(group.index(), group.size());
  if (tree.parent >= 0) plan.recv(group.at(tree.parent), range);
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    plan.send(group.at(*child), range);
  }
}

namespace {

/// Reduces what the children of this index hold to `own`, in `to`, and returns where the result is.
Block reduce_children(PlanBuilder& plan, const Group& group, Block own, Block to, bool children_first) {
  for (const int child : BinomialTree(group.index(), group.size()).children) {
    plan.recv_reduce(group.at(child), to, own, children_first);
    own = to;
  }
  return own;
}

/// Ranks first, first + step, ... last.
Group line(Rank first, Rank last, int step, Rank self) {
  std::vector<Rank> ranks;
  for (Rank rank = first; rank != last + step; rank += step) ranks.push_back(rank);
  return {std::move(ranks), self};
}

}  // namespace

void allreduce_by_binomial(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  const BinomialTree tree(plan.rank(), plan.size());
  const RangeId whole = plan.whole();
  const Block sum = reduce_children(plan, all, plan.input(whole), plan.output(whole), false);
  if (tree.parent >= 0) {
    plan.send(tree.parent, sum);
  } else {
    finish_if_avg(plan, request.op, whole);
  }
  binomial_broadcast(plan, all, whole);
}

// Two trees, over the ranks from the root up and over those below it, so that the order is that of the ranks whatever
// the root. The lower tree's root is the rank below.
void reduce_by_binomial(PlanBuilder& plan, const PlanRequest& request) {
  const Rank root = plan.root();
  const RangeId whole = plan.whole();
  const bool below = plan.rank() < root;
  const Group group = below ? line(root - 1, 0, -1, plan.rank()) : line(root, plan.size() - 1, 1, plan.rank());
  const BinomialTree tree(group.index(), group.size());
  Block to;
  if (plan.is_root()) {
    to = plan.output(whole);
  } else if (!tree.children.empty()) {
    to = plan.scratch(whole);
  }
  Block sum = reduce_children(plan, group, plan.input(whole), to, below);
  if (!plan.is_root()) return plan.send(tree.parent >= 0 ? group.at(tree.parent) : root, sum);
  if (root > 0) plan.recv_reduce(root - 1, to, sum, /*incoming_first=*/true);
  finish_if_avg(plan, request.op, to);
}

void broadcast_by_binomial(PlanBuilder& plan, const PlanRequest& request) {
  binomial_broadcast(plan, from_root(plan, request.node_of), plan.whole());
}

// The first rank hears of everybody, and tells everybody.
void barrier_by_binomial(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = in_node_order(plan, request.node_of);
  const BinomialTree tree(all.index(), all.size());
  const RangeId nothing = plan.nothing();
  for (const int child : tree.children) plan.recv(all.at(child), nothing);
  plan.fence();
  if (tree.parent >= 0) {
    plan.send(all.at(tree.parent), nothing);
    plan.recv(all.at(tree.parent), nothing);
    plan.fence();
  }
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) plan.send(all.at(*child), nothing);
}

}  // namespace fabring
