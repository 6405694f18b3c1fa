#include <array>
#include <string>
#include <utility>

#include "collectives/algorithms.hpp"
#include "collectives/check/expressions.hpp"
#include "collectives/check/memory.hpp"
#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"

namespace fabring::check {
namespace {

/// What every buffer holds while the steps happen in their order.
class SymbolicRun {
 public:
  SymbolicRun(const World& world, ReduceOp op, bool in_place)
      : world_(world), in_place_(in_place), expressions_(static_cast<int>(world.plans.size())) {
    const Plan& plan = world.plans[0];
    wanted_.finished = op == ReduceOp::avg && world.plans.size() > 1;
    if (const auto algorithm = parse_algorithm(plan.algorithm, plan.collective)) {
      if (keeps_order(plan.collective, *algorithm)) wanted_.order = Order::of_ranks;
      if (is_reproducible(plan.collective, *algorithm)) wanted_.order = Order::folded;
      if (rounds_once(plan.collective, *algorithm)) wanted_.order = Order::in_one_step;
    }
    for (Rank rank = 0; rank < plan.size; ++rank) fill(rank);
  }

  Status run(StepRef ref, StepRef partner) {
    const Step& step = world_.step(ref);
    const Bounds to = world_.bounds(ref.rank, step.to);
    std::vector<std::vector<Piece>> operands;
    pieces_read_ = 0;
    if (receives(step)) {
      FABRING_TRY(load(partner, world_.step(partner).from, to, operands));
      if (step.kind == StepKind::recv_reduce) {
        FABRING_TRY(load(ref, step.from, to, operands));
        if (!step.incoming_first) std::swap(operands[0], operands[1]);
      }
    } else {
      for (const Block& block : reads(world_.plan(ref.rank), step)) FABRING_TRY(load(ref, block, to, operands));
    }
    if (step.kind == StepKind::finish) {
      for (Piece& piece : operands[0]) piece.value = expressions_.finished(piece.value);
    }
    // Each piece of the result but the last ends one of an operand, and is an expression of all.
    if (operands.size() > 1 && to.count() > 0)
      FABRING_TRY(world_.take(4 * operands.size() * (pieces_read_ - operands.size() + 1)));
    auto pieces =
        operands.size() == 1 ? std::move(operands[0]) : reduce_pieces(expressions_, to, operands, world_.path);
    Memory& memory = buffer(ref.rank, step.to);
    FABRING_TRY(world_.take(2 * pieces.size() + memory.size() / 4));
    if (is_new_start(ref.rank, step.to))
      memory.replace(to, std::move(pieces), world_.path);
    else
      memory.write(to, pieces, world_.path);
    return {};
  }

  Status verdict(CheckReport& report) {
    for (const Plan& plan : world_.plans) {
      const BlockSpan blocks = output_blocks(plan);
      for (std::uint32_t block = blocks.first; block < blocks.last; ++block) {
        FABRING_TRY(reduces(plan.collective) ? judge_reduction(plan, block, report) : judge_moved(plan, block));
      }
    }
    return {};
  }

 private:
  /// Does another part than before begin to use a scratch area, to forget what lies behind it?
  bool is_new_start(Rank rank, const Block& to) const {
    if (world_.scratch_reuse == ScratchReuse::keeps || to.space != Space::scratch) return false;
    const Plan& plan = world_.plan(rank);
    return to.range == plan.scratch[to.scratch] || !lies_in_place(plan, to);
  }

  using Buffers = std::vector<Memory>;  // input, output, scratch...

  void fill(Rank rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Bounds all{0, world_.blocks[at].back().end};
    Buffers& own = buffers_.emplace_back();
    own.emplace_back(all, Expressions::undefined, world_.path);
    own.emplace_back(all, Expressions::undefined, world_.path);
    const BlockSpan blocks = input_blocks(world_.plan(rank));
    for (std::uint32_t block = blocks.first; block < blocks.last; ++block) {
      const Bounds& bounds = world_.blocks[at][block];
      own[0].write(bounds, std::array{Piece{bounds.begin, bounds.end, expressions_.input_of(rank), 0}}, world_.path);
    }
    for (std::size_t area = 0; area < world_.scratch[at].size(); ++area) {
      const FormId form = world_.path == nullptr ? zero_form : world_.scratch_form[at][area];
      own.emplace_back(Bounds{0, {world_.scratch[at][area], form}}, Expressions::undefined, world_.path);
    }
  }

  const Bounds& bounds_of(const Plan& plan, std::uint32_t block) const {
    return world_.blocks[static_cast<std::size_t>(plan.rank)][block];
  }
  std::vector<Piece> output(const Plan& plan, std::uint32_t block) {
    return buffer(plan.rank, {Space::output, 0, 0}).read(bounds_of(plan, block), world_.path);
  }
  Status wrong(const Plan& plan, std::uint32_t block, const Piece& piece, const std::string& what) const {
    const Extent extent = bounds_of(plan, block).extent();
    std::string where = "elements [" + std::to_string(piece.begin.at - extent.offset) + ", " +
                        std::to_string(piece.end.at - extent.offset) + ") of " + std::to_string(extent.count);
    if (plan.blocks != 0) where += " of block " + std::to_string(block);
    if (in_place_) where += ", in place";
    return broken_plan(plan, "the output " + where + " " + what + last_written(plan, piece));
  }
  /// Steps that write the same elements are ordered, and come in that order.
  std::string last_written(const Plan& plan, const Piece& piece) const {
    for (std::size_t id = plan.steps.size(); id-- > 0;)
      for (const Block& to : writes(plan.steps[id])) {
        const Extent extent = world_.extent(plan.rank, to);
        if (to.space == Space::output && extent.offset < piece.end.at && piece.begin.at < extent.end())
          return "; last written by step " + std::to_string(id) + " (" + step_text(plan, plan.steps[id]) + ")";
      }
    return "; no step writes it";
  }

  /// The reduction of all ranks' inputs, the same on all that have it: those of an allreduce are held against rank 0's.
  Status judge_reduction(const Plan& plan, std::uint32_t block, CheckReport& report) {
    const bool shared = plan.collective == Collective::allreduce;
    const std::vector<Piece> first = shared ? output(world_.plan(0), block) : std::vector<Piece>{};
    std::size_t other = 0;
    for (const Piece& piece : output(plan, block)) {
      if (const std::string complaint = expressions_.complaint(piece.value, wanted_); !complaint.empty()) {
        return wrong(plan, block, piece, complaint + ": " + expressions_.text(piece.value));
      }
      FABRING_TRY(judge_place(plan, block, piece, 0));
      OperandOrder& found = report.order;
      found.in_rank_order = found.in_rank_order && is_in(Order::of_ranks, piece);
      found.in_one_step = found.in_one_step && is_in(Order::in_one_step, piece);
      if (!shared) continue;
      while (!comes_before(world_.path, piece.begin, first[other].end)) ++other;
      for (std::size_t i = other; i < first.size() && comes_before(world_.path, first[i].begin, piece.end); ++i) {
        if (first[i].value == piece.value) continue;
        return wrong(plan, block, piece,
                     "is " + expressions_.text(piece.value) + ", on rank 0 it is " + expressions_.text(first[i].value));
      }
    }
    return {};
  }

  bool is_in(Order order, const Piece& piece) {
    return expressions_.complaint(piece.value, {wanted_.finished, order}).empty();
  }

  /// The very elements of one rank's input, unchanged.
  Status judge_moved(const Plan& plan, std::uint32_t block) {
    Rank source = plan.root;
    Shift shift = 0;
    if (plan.collective == Collective::all_gather || plan.collective == Collective::gather) {
      source = static_cast<Rank>(block);
    } else if (plan.collective == Collective::alltoall) {
      source = static_cast<Rank>(block) - plan.size;
      const Position from = bounds_of(world_.plan(source), static_cast<std::uint32_t>(plan.rank)).begin;
      const Position to = bounds_of(plan, block).begin;
      shift.by = static_cast<std::int64_t>(from.at) - static_cast<std::int64_t>(to.at);
      if (world_.path != nullptr) shift.form = world_.path->forms().minus(from.form, to.form);
    }
    for (const Piece& piece : output(plan, block)) {
      if (piece.value != expressions_.input_of(source)) {
        return wrong(plan, block, piece,
                     "is " + expressions_.text(piece.value) + ", not the input of rank " + std::to_string(source));
      }
      FABRING_TRY(judge_place(plan, block, piece, shift));
    }
    return {};
  }
  Status judge_place(const Plan& plan, std::uint32_t block, const Piece& piece, const Shift& wanted) const {
    if (piece.shift.by != wanted.by)
      return wrong(plan, block, piece, "belongs " + std::to_string(piece.shift.by - wanted.by) + " elements further");
    if (world_.path != nullptr) world_.path->equal(piece.shift.form, wanted.form);
    return {};
  }

  Memory& buffer(Rank rank, const Block& block) {
    Buffers& own = buffers_[static_cast<std::size_t>(rank)];
    if (block.space == Space::scratch) return own[std::size_t{block.scratch} + 2];
    return own[block.space == Space::output && !in_place_ ? 1 : 0];
  }
  /// What `ref` reads in `block`, as if it lay at `to`.
  Status load(StepRef ref, const Block& block, const Bounds& to, std::vector<std::vector<Piece>>& operands) {
    const Bounds from = world_.bounds(ref.rank, block);
    std::vector<Piece> pieces = buffer(ref.rank, block).read(from, world_.path);
    pieces_read_ += pieces.size();
    FABRING_TRY(world_.take(4 + 4 * pieces.size()));
    for (const Piece& piece : pieces) {
      if (piece.value != Expressions::undefined) continue;
      return broken(world_.plan(ref.rank), ref.step,
                    "reads elements [" + std::to_string(piece.begin.at - from.begin.at) + ", " +
                        std::to_string(piece.end.at - from.begin.at) + ") of " +
                        block_text(world_.plan(ref.rank), block) + (in_place_ ? ", in place" : "") +
                        ", which were never written, or are made of different elements");
    }
    move_pieces(pieces, from, to, world_.path);
    operands.push_back(std::move(pieces));
    return {};
  }

  const World& world_;
  bool in_place_;
  Wanted wanted_;
  Expressions expressions_;
  std::vector<Buffers> buffers_;  // by rank
  std::size_t pieces_read_ = 0;   // by the step that is run
};

}  // namespace

Status check_values(const World& world, const Partners& partners, const StepOrder& order, ReduceOp op, bool in_place,
                    CheckReport& report) {
  SymbolicRun run(world, op, in_place);
  for (const StepRef ref : order.steps) {
    FABRING_TRY(run.run(ref, partners[static_cast<std::size_t>(ref.rank)][ref.step]));
  }
  return run.verdict(report);
}

}  // namespace fabring::check
