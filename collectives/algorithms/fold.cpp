// Fold: ((x_0 op x_1) op ...) op x_{n-1}, as one rank alone would compute it, in runs of ranks: neighbours by number
// that are on one node. The first run folds its ranks' inputs and hands the result on; each further run folds its own
// onto what comes. The ranks of a run share the work, each with its part of the vector. So a node sends the vector once
// up, and what is made of it once down again; bits do not depend on where ranks are. docs/algorithms.md has the
// picture.

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/lane_view.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// The run of each rank, from 0 in the order of the ranks: as `node_of`, with a node that others' ranks interrupt in
/// several pieces.
std::vector<int> runs_of(std::span<const int> node_of) {
  std::vector<int> run_of(node_of.size());
  for (std::size_t rank = 1; rank < node_of.size(); ++rank)
    run_of[rank] = run_of[rank - 1] + (node_of[rank] != node_of[rank - 1] ? 1 : 0);
  return run_of;
}

/// The runs of a reduce_scatter, and which rank of each carries a block.
class Runs {
 public:
  explicit Runs(std::span<const int> node_of) : run_of_(runs_of(node_of)) {
    for (std::size_t rank = 0; rank < run_of_.size(); ++rank)
      if (rank == 0 || run_of_[rank] != run_of_[rank - 1]) first_.push_back(static_cast<Rank>(rank));
    first_.push_back(static_cast<Rank>(run_of_.size()));
  }

  int count() const { return static_cast<int>(first_.size()) - 1; }
  int of(Rank rank) const { return run_of_[at(rank)]; }
  /// Its lowest rank; of run count(), the number of ranks.
  Rank first(int run) const { return first_[at(run)]; }
  /// The rank of `run` that carries the block of `rank`: in turn by their numbers, so that each carries as many as the
  /// others, or one less, however unequal runs are. A rank carries its own in its own run; in runs of one length, it is
  /// those of its place in all of them.
  Rank carrier(int run, Rank rank) const { return first(run) + modulo(rank - first(run), first(run + 1) - first(run)); }

 private:
  std::vector<int> run_of_;
  std::vector<Rank> first_;
};

Block part_of(const PlanBuilder& plan, Block operand, RangeId range) {
  return operand.space == Space::scratch ? PlanBuilder::in(operand, range) : plan.input(range);
}

/// What the ranks of a run have of this one's share, in their order: each gets what it is responsible for.
std::vector<Block> exchange_inside(PlanBuilder& plan, const LaneView& view) {
  const Group& run = view.node();
  std::vector<Block> operands(at(run.size()));
  for (int k = 1; k < run.size(); ++k) {
    const int to = (run.index() + k) % run.size();
    const int from = modulo(run.index() - k, run.size());
    if (!plan.empty(view.shares()[at(to)])) plan.send(run.at(to), plan.input(view.shares()[at(to)]));
    if (plan.empty(view.mine())) continue;
    operands[at(from)] = plan.scratch(view.mine());
    plan.recv(run.at(from), operands[at(from)]);
  }
  operands[at(run.index())] = plan.input(view.mine());
  return operands;
}

/// Folds a lane's operands of this run onto what the run before hands over, if there is one, in `to`. Returns where the
/// result is: of one rank without a run before it, that is its input.
Block fold_lane(PlanBuilder& plan, const Group& rail, RangeId range, std::span<const Block> operands, Block to) {
  std::vector<Block> all;
  for (const Block& operand : operands) all.push_back(part_of(plan, operand, range));
  if (rail.index() > 0) {
    if (all.size() == 1) {
      plan.recv_reduce(rail.previous(), to, all[0], /*incoming_first=*/true);
      return to;
    }
    const Block before = plan.scratch(range);
    plan.recv(rail.previous(), before);
    all.insert(all.begin(), before);
  }
  if (all.size() == 1) return all[0];
  plan.reduce(to, all);
  return to;
}

bool is_last(const Group& rail) { return rail.index() + 1 == rail.size(); }

}  // namespace

void allreduce_by_fold(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, runs_of(request.node_of));
  view.bound_messages(view.lane_length());
  const auto operands = exchange_inside(plan, view);
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const Group rail = view.rail(lane, 0);
    const RangeId range = view.range(lane);
    const Block sum = fold_lane(plan, rail, range, operands, plan.output(range));
    if (is_last(rail)) {
      finish_if_avg(plan, request.op, sum);
    } else {
      plan.send(rail.next(), sum);
    }
  }
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const Group rail = view.rail(lane, 0);
    if (!is_last(rail)) plan.recv(rail.next(), view.range(lane));
    if (rail.index() > 0) plan.send(rail.previous(), view.range(lane));
  }
  direct_all_gather(plan, view.node(), view.shares());
}

// The last run has all of it; its ranks hand it to the root.
void reduce_by_fold(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, runs_of(request.node_of));
  view.bound_messages(view.lane_length());
  const auto operands = exchange_inside(plan, view);
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const Group rail = view.rail(lane, 0);
    const RangeId range = view.range(lane);
    const bool stays = is_last(rail) && plan.is_root();
    const Block sum = fold_lane(plan, rail, range, operands, stays ? plan.output(range) : plan.scratch(range));
    if (!is_last(rail)) {
      plan.send(rail.next(), sum);
      continue;
    }
    finish_if_avg(plan, request.op, sum);
    if (!stays) plan.send(plan.root(), sum);
  }
  for (int lane = 0; lane < view.lanes() && plan.is_root(); ++lane) {
    const Rank owner = view.owner_on_last_node(lane);
    if (owner != plan.rank()) plan.recv(owner, view.range(lane));
  }
}

// Each block is folded run by run, by one rank of each, and handed to its rank by the last one.
void reduce_scatter_by_fold(PlanBuilder& plan, const PlanRequest& request) {
  const Runs runs(request.node_of);
  const int own = runs.of(plan.rank());
  const int last = runs.count() - 1;
  std::vector<std::vector<Block>> operands(at(plan.size()));  // of the blocks that this rank carries
  for (Rank rank = 0; rank < plan.size(); ++rank) {
    const RangeId block = plan.block(rank);
    const Rank carrier = runs.carrier(own, rank);
    if (carrier != plan.rank()) {
      plan.send(carrier, plan.input(block));
      continue;
    }
    for (Rank local = runs.first(own); local < runs.first(own + 1); ++local) {
      operands[at(rank)].push_back(local == plan.rank() ? plan.input(block) : plan.scratch(block));
      if (local != plan.rank()) plan.recv(local, operands[at(rank)].back());
    }
  }
  for (Rank rank = 0; rank < plan.size(); ++rank) {
    if (runs.carrier(own, rank) != plan.rank()) continue;
    const RangeId block = plan.block(rank);
    auto& all = operands[at(rank)];
    const bool stays = own == last && rank == plan.rank();
    Block sum = all[0];
    if (own > 0) {
      const Rank previous = runs.carrier(own - 1, rank);
      const Block before = all.size() == 1 && stays ? plan.output(block) : plan.scratch(block);
      if (all.size() == 1) {
        plan.recv_reduce(previous, before, all[0], /*incoming_first=*/true);
        all[0] = before;
      } else {
        plan.recv(previous, before);
        all.insert(all.begin(), before);
      }
      sum = before;
    }
    if (all.size() > 1) {
      // Where an operand was, in scratch: a rank that carries many blocks needs no more for their sums.
      const auto area = std::ranges::find(all, Space::scratch, &Block::space);
      sum = stays ? plan.output(block) : *area;
      plan.reduce(sum, all);
    }
    if (own < last) {
      plan.send(runs.carrier(own + 1, rank), sum);
      continue;
    }
    finish_if_avg(plan, request.op, sum);
    if (!stays) plan.send(rank, sum);
  }
  const Rank giver = runs.carrier(last, plan.rank());
  if (giver != plan.rank()) plan.recv(giver, plan.block(plan.rank()));
}

}  // namespace fabring
