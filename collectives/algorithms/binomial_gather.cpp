// Gather and scatter over a binomial tree of the ranks from the root on: an index sends up, or gets from above, the
// blocks of its whole subtree, neighbours in that order, as one message; as two where they go past the last rank.
// ceil(log2 n) rounds; the root moves (n-1) blocks, others those of their subtree. Inner indices keep their subtree's
// blocks in scratch, where they lie together.

#include <algorithm>
#include <utility>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// The ranks that an index stands for.
std::vector<Run> ranks_below(const Group& group, int index) {
  return runs_around(group.at(index), BinomialTree::subtree(index, group.size()), group.size());
}

/// The blocks of these ranks, packed in scratch.
class PackedRuns {
 public:
  PackedRuns(PlanBuilder& plan, std::vector<Run> runs) : plan_(plan), runs_(std::move(runs)) {
    for (const Run& run : runs_) areas_.push_back(plan.scratch(plan.blocks(run.first, run.last)));
  }
  const std::vector<Run>& runs() const { return runs_; }
  /// What lies in one of the runs.
  Block block(Run wanted) const {
    std::size_t i = 0;
    while (wanted.first < runs_[i].first || runs_[i].last < wanted.last) ++i;
    return PlanBuilder::in(areas_[i], plan_.blocks(wanted.first, wanted.last));
  }

 private:
  PlanBuilder& plan_;
  std::vector<Run> runs_;
  std::vector<Block> areas_;
};

/// The largest subtree below the root.
void bound_messages(PlanBuilder& plan) {
  int longest = 1;
  for (const int child : BinomialTree(0, plan.size()).children) {
    longest = std::max(longest, BinomialTree::subtree(child, plan.size()));
  }
  plan.bound_messages(static_cast<std::uint64_t>(longest) * message_unit);
}

}  // namespace

void gather_by_binomial(PlanBuilder& plan, const PlanRequest&) {
  const Group group = rotated(plan, plan.root());
  const BinomialTree tree(group.index(), group.size());
  const RangeId mine = plan.block(plan.rank());
  bound_messages(plan);
  if (tree.children.empty()) return plan.send(group.at(tree.parent), mine);

  const PackedRuns own(plan, ranks_below(group, group.index()));
  if (!plan.is_root()) plan.copy(own.block({plan.rank(), plan.rank() + 1}), plan.input(mine));
  for (const int child : tree.children) {
    for (const Run run : ranks_below(group, child)) {
      const RangeId blocks = plan.blocks(run.first, run.last);
      if (plan.is_root() && run.last - run.first == 1) {
        plan.recv(group.at(child), blocks);
        continue;
      }
      plan.recv(group.at(child), own.block(run));
      if (plan.is_root()) plan.copy(plan.output(blocks), own.block(run));
    }
  }
  if (plan.is_root()) return;
  for (const Run run : own.runs()) plan.send(group.at(tree.parent), own.block(run));
}

void scatter_by_binomial(PlanBuilder& plan, const PlanRequest&) {
  const Group group = rotated(plan, plan.root());
  const BinomialTree tree(group.index(), group.size());
  const RangeId mine = plan.block(plan.rank());
  bound_messages(plan);
  if (tree.children.empty()) return plan.recv(group.at(tree.parent), mine);

  const PackedRuns own(plan, ranks_below(group, group.index()));
  if (!plan.is_root()) {
    for (const Run run : own.runs()) plan.recv(group.at(tree.parent), own.block(run));
  }
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    for (const Run run : ranks_below(group, *child)) {
      const RangeId blocks = plan.blocks(run.first, run.last);
      if (plan.is_root() && run.last - run.first == 1) {
        plan.send(group.at(*child), blocks);
        continue;
      }
      if (plan.is_root()) plan.copy(own.block(run), plan.input(blocks));
      plan.send(group.at(*child), own.block(run));
    }
  }
  if (!plan.is_root()) plan.copy(plan.output(mine), own.block({plan.rank(), plan.rank() + 1}));
}

}  // namespace fabring
