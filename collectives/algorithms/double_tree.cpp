// Double binary trees (Sanders, Speck, Traeff): each half of the vector has a tree of its own, and a rank that is
// inside one tree is a leaf of the other, so that everybody sends and receives about as much. About 2 log2 n rounds up
// and down (log2 n for a broadcast), and with tiles a pipeline; 2 S bytes for an allreduce, S for a broadcast.
//
//   tree 1 of 8          4              The second is the same with the ranks mirrored, or, where n is odd, shifted by
//   below rank 0     2       6          one: mirroring would leave the same ranks the leaves.
//                  1   3   5   7

#include <bit>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/node_order.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// In-order binary tree over positions 0 to n-1, with 0 above the rest: a position with lowest bit b stands between b/2
/// before and b/2 after it. Odd positions are leaves.
struct BinaryTree {
  int parent = -1;
  std::vector<int> children;

  BinaryTree(int position, int size) {
    const auto lowest_bit = [](int number) { return number & -number; };
    if (position == 0) {
      if (size > 1) children.push_back(static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1))));
      return;
    }
    const int bit = lowest_bit(position);
    parent = (position - bit) | (2 * bit);
    if (parent >= size) parent = position - bit;
    if (bit > 1) children.push_back(position - bit / 2);
    for (int step = bit / 2; step > 0; step /= 2) {
      if (position + step >= size) continue;
      children.push_back(position + step);
      break;
    }
  }
};

/// One of the two trees, seen from an index of a group.
class Tree {
 public:
  Tree(const Group& group, int which) : group_(group), which_(which), tree_(position(group.index()), group.size()) {}

  bool has_parent() const { return tree_.parent >= 0; }
  Rank parent() const { return rank_at(tree_.parent); }
  Rank root() const { return rank_at(0); }
  std::vector<Rank> children() const {
    std::vector<Rank> ranks;
    for (const int child : tree_.children) ranks.push_back(rank_at(child));
    return ranks;
  }

 private:
  bool mirrored() const { return group_.size() % 2 == 0; }
  int position(int index) const {
    if (which_ == 0) return index;
    return mirrored() ? group_.size() - 1 - index : modulo(index - 1, group_.size());
  }
  Rank rank_at(int position) const {
    if (which_ == 0) return group_.at(position);
    return group_.at(mirrored() ? group_.size() - 1 - position : position + 1);
  }

  const Group& group_;
  int which_;
  BinaryTree tree_;
};

void broadcast_down(PlanBuilder& plan, const Tree& tree, RangeId range) {
  if (tree.has_parent()) plan.recv(tree.parent(), range);
  for (const Rank child : tree.children()) plan.send(child, range);
}

}  // namespace

void allreduce_by_double_tree(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = in_node_order(plan, request.node_of);
  const Tree trees[] = {Tree(all, 0), Tree(all, 1)};
  const RangeId halves[] = {plan.part(plan.whole(), 0, 2), plan.part(plan.whole(), 1, 2)};
  for (const int i : {0, 1}) {
    for (const Rank child : trees[i].children()) plan.recv_reduce(child, halves[i], child < plan.rank());
    if (trees[i].has_parent()) {
      plan.send(trees[i].parent(), halves[i]);
    } else {
      finish_if_avg(plan, request.op, halves[i]);
    }
  }
  for (const int i : {0, 1}) broadcast_down(plan, trees[i], halves[i]);
}

// The trees are over all but the root, which hands each half to the top of its tree.
void broadcast_by_double_tree(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = from_root(plan, request.node_of);
  std::vector<Rank> ranks;
  for (int i = 1; i < all.size(); ++i) ranks.push_back(all.at(i));
  const Group group(ranks, plan.is_root() ? ranks.front() : plan.rank());
  for (const int i : {0, 1}) {
    const RangeId half = plan.part(plan.whole(), i, 2);
    const Tree tree(group, i);
    if (plan.is_root()) {
      plan.send(tree.root(), half);
      continue;
    }
    if (plan.rank() == tree.root()) plan.recv(plan.root(), half);
    broadcast_down(plan, tree, half);
  }
}

}  // namespace fabring
