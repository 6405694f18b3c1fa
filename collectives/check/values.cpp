#include <string>
#include <utility>

#include "collectives/check/expressions.hpp"
#include "collectives/check/memory.hpp"
#include "collectives/check/world.hpp"

namespace fabring::check {
namespace {

class Simulation {
 public:
  Simulation(const World& world, bool in_place)
      : world_(world), in_place_(in_place), expressions_(static_cast<int>(world.plans.size())) {
    const Extent whole{0, world.count};
    for (const Plan& plan : world.plans) {
      Buffers& own = buffers_.emplace_back();
      own.emplace_back(whole, expressions_.input_of(plan.rank));
      own.emplace_back(whole, Expressions::undefined);
      for (const RangeId range : plan.scratch) {
        own.emplace_back(world.extents[buffers_.size() - 1][range], Expressions::undefined);
      }
    }
  }

  void run(StepRef ref, StepRef partner) {
    const Step& step = world_.step(ref);
    const Extent to = world_.extent(ref.rank, step.to);
    std::vector<std::vector<Piece>> operands;
    if (step.kind == StepKind::reduce) {
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        operands.push_back(load(ref.rank, world_.plan(ref.rank).operands[step.first_operand + i], to));
      }
    } else if (step.kind == StepKind::finish) {
      operands.push_back(load(ref.rank, step.to, to));
      for (Piece& piece : operands[0]) piece.value = expressions_.finished(piece.value);
    } else if (step.kind == StepKind::copy) {
      operands.push_back(load(ref.rank, step.from, to));
    } else {
      operands.push_back(load(partner.rank, world_.step(partner).from, to));
      if (step.kind == StepKind::recv_reduce) {
        operands.push_back(load(ref.rank, step.from, to));
        if (!step.incoming_first) std::swap(operands[0], operands[1]);
      }
    }
    const auto pieces = operands.size() == 1 ? std::move(operands[0]) : reduce_pieces(expressions_, to, operands);
    buffer(ref.rank, step.to).write(to, pieces);
  }

  Status verdict(bool want_finish) {
    const Extent whole{0, world_.count};
    const Block output{Space::output, 0, 0};
    std::vector<Piece> first;
    for (Rank rank = 0; rank < static_cast<Rank>(world_.plans.size()); ++rank) {
      const std::vector<Piece> result = buffer(rank, output).read(whole);
      if (rank == 0) first = result;
      std::size_t other = 0;
      for (const Piece& piece : result) {
        const std::string where = "elements [" + std::to_string(piece.begin) + ", " + std::to_string(piece.end) +
                                  ") of " + std::to_string(world_.count) + (in_place_ ? ", in place" : "");
        const auto fail = [&](const std::string& what) {
          return Status(ErrorCode::internal, "plan of rank " + std::to_string(rank) + " (" +
                                                 world_.plan(rank).algorithm + "): the output " + where + " " + what);
        };
        if (std::string complaint = expressions_.complaint(piece.value, want_finish); !complaint.empty()) {
          return fail(complaint + ": " + expressions_.text(piece.value));
        }
        if (piece.shift != 0) return fail("belongs " + std::to_string(piece.shift) + " elements further");
        while (first[other].end <= piece.begin) ++other;
        for (std::size_t i = other; i < first.size() && first[i].begin < piece.end; ++i) {
          if (first[i].value == piece.value) continue;
          return fail("is " + expressions_.text(piece.value) + ", on rank 0 it is " +
                      expressions_.text(first[i].value));
        }
      }
    }
    return {};
  }

 private:
  using Buffers = std::vector<Memory>;  // input, output, scratch...

  Memory& buffer(Rank rank, const Block& block) {
    Buffers& own = buffers_[static_cast<std::size_t>(rank)];
    if (block.space == Space::scratch) return own[std::size_t{block.scratch} + 2];
    return own[block.space == Space::output && !in_place_ ? 1 : 0];
  }
  std::vector<Piece> load(Rank rank, const Block& block, Extent to) {
    const Extent from = world_.extent(rank, block);
    std::vector<Piece> pieces = buffer(rank, block).read(from);
    move_pieces(pieces, from, to);
    return pieces;
  }

  const World& world_;
  bool in_place_;
  Expressions expressions_;
  std::vector<Buffers> buffers_;  // by rank
};

}  // namespace

Status check_values(const World& world, const Partners& partners, const Schedule& schedule, ReduceOp op,
                    bool in_place) {
  Simulation simulation(world, in_place);
  for (const StepRef ref : schedule.order) {
    simulation.run(ref, partners[static_cast<std::size_t>(ref.rank)][ref.step]);
  }
  return simulation.verdict(op == ReduceOp::avg && world.plans.size() > 1);
}

}  // namespace fabring::check
