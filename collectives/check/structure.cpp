#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"

namespace fabring::check {
namespace {

std::string text(std::size_t number) { return std::to_string(number); }

bool in_one_block(BlockSpan span) { return span.last <= span.first + 1; }

Status broken_plan(const Plan& plan, const std::string& what) {
  return {ErrorCode::internal, "plan of rank " + std::to_string(plan.rank) + " (" + plan.algorithm + "): " + what};
}

constexpr std::uint32_t most_ranks = 1u << 30;

Status check_head(const Plan& plan) {
  if (plan.size < 1 || static_cast<std::uint32_t>(plan.size) > most_ranks || plan.rank < 0 || plan.rank >= plan.size) {
    return broken_plan(plan, "there is no such rank among " + std::to_string(plan.size));
  }
  if (plan.collective > Collective::barrier) return broken_plan(plan, "there are no plans of such a collective");
  if (plan.root < 0 || plan.root >= plan.size) {
    return broken_plan(plan, "the root " + std::to_string(plan.root) + " is not one of the ranks");
  }
  if (plan.blocks != block_count(plan.collective, plan.size)) {
    return broken_plan(plan, "cuts its data into " + text(plan.blocks) + " blocks; " +
                                 std::string(name(plan.collective)) + " has " +
                                 text(block_count(plan.collective, plan.size)));
  }
  return {};
}

Status check_ranges(const Plan& plan) {
  if (plan.ranges.empty()) return broken_plan(plan, "has no ranges; range 0 is the whole");
  for (std::size_t id = 0; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    const auto fail = [&](const std::string& why) {
      return broken_plan(plan, "range " + text(id) + " is parts " + text(range.first) + " to " + text(range.last) +
                                   " of " + text(range.parts) + " of range " + text(range.parent) + why);
    };
    const bool bounds = range.first <= range.last && range.last <= range.parts && range.parts > 0;
    if (!bounds ||
        (id == 0 ? range.parent != 0 || range.first != 0 || range.last != range.parts : range.parent >= id)) {
      return fail(", which cannot be");
    }
    if (id == 0 || plan.blocks == 0) continue;
    const bool empty = range.first == range.last;
    // Nothing at the beginning of all is nothing for any cut; elsewhere it is a place between two blocks.
    if (range.parent == 0 ? range.parts != plan.blocks && range.last != 0
                          : !empty && !in_one_block(blocks_of(plan, range.parent))) {
      return fail("; only the " + text(plan.blocks) + " blocks, and parts of one of them, have bounds");
    }
  }
  for (std::size_t i = 0; i < plan.scratch.size(); ++i) {
    if (plan.scratch[i] >= plan.ranges.size()) {
      return broken_plan(plan, "scratch " + text(i) + " is as long as range " + text(plan.scratch[i]) + " of " +
                                   text(plan.ranges.size()));
    }
  }
  return {};
}

Status check_block(const Plan& plan, StepId id, const Block& block) {
  if (block.range >= plan.ranges.size()) return broken(plan, id, "there is no range " + text(block.range));
  if (block.space > Space::scratch) return broken(plan, id, "there is no such kind of operand");
  if (block.space == Space::scratch) {
    if (block.scratch >= plan.scratch.size()) return broken(plan, id, "there is no scratch " + text(block.scratch));
    return {};
  }
  const BlockSpan span = blocks_of(plan, block.range);
  const bool input = block.space == Space::input;
  if (!(input ? input_blocks(plan) : output_blocks(plan)).contains(span)) {
    return broken(
        plan, id,
        block_text(plan, block) + " is not there: this rank does not have that " + (input ? "input" : "output"));
  }
  if (plan.steps[id].kind != StepKind::copy && !in_one_block(span)) {
    return broken(plan, id, block_text(plan, block) + " is several blocks, which do not lie together; only a copy may");
  }
  return {};
}

Status check_step(const Plan& plan, StepId id, ReduceOp op) {
  const Step& step = plan.steps[id];
  if (step.kind > StepKind::finish) return broken(plan, id, "there is no such kind of step");
  if (sends(step) || receives(step)) {
    if (step.peer < 0 || step.peer >= plan.size) return broken(plan, id, "there is no such peer");
    if (step.peer == plan.rank) return broken(plan, id, "a rank sends no messages to itself");
  }
  if (step.kind == StepKind::reduce) {
    const std::size_t end = std::size_t{step.first_operand} + step.operand_count;
    if (step.operand_count == 0 || end > plan.operands.size()) return broken(plan, id, "its operands do not exist");
  }
  const bool computes =
      step.kind == StepKind::reduce || step.kind == StepKind::recv_reduce || step.kind == StepKind::finish;
  if (computes && !reduces(plan.collective)) {
    return broken(plan, id, std::string(name(plan.collective)) + " reduces nothing and has no operation");
  }
  if (step.kind == StepKind::finish && op != ReduceOp::avg) return broken(plan, id, "only avg is finished");
  for (const Block& block : writes(step)) {
    FABRING_TRY(check_block(plan, id, block));
    if (block.space == Space::input) return broken(plan, id, "the input belongs to the caller and is never written");
  }
  for (const Block& block : reads(plan, step)) FABRING_TRY(check_block(plan, id, block));
  return {};
}

Status check_dependencies(const Plan& plan) {
  std::vector<std::uint32_t> found(plan.steps.size());
  std::vector<StepId> named_by(plan.steps.size(), ~StepId{0});
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    if (std::size_t{step.first_successor} + step.successor_count > plan.successors.size()) {
      return broken(plan, id, "its successors do not exist");
    }
    const std::span<const StepId> after(plan.successors.data() + step.first_successor, step.successor_count);
    for (const StepId successor : after) {
      if (successor <= id || successor >= plan.steps.size()) {
        return broken(plan, id,
                      "step " + text(successor) + " cannot wait for it; steps come after those they wait for");
      }
      if (std::exchange(named_by[successor], id) == id) {
        return broken(plan, id, "step " + text(successor) + " waits for it twice");
      }
      ++found[successor];
    }
  }
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    if (found[id] != plan.steps[id].dependencies) {
      return broken(plan, id,
                    "says it waits for " + text(plan.steps[id].dependencies) + " steps, but " + text(found[id]) +
                        " steps name it as successor");
    }
  }
  return {};
}

}  // namespace

Status broken(const Plan& plan, StepId step, const std::string& what) {
  return broken_plan(plan, "step " + text(step) + " (" + step_text(plan, plan.steps[step]) + "): " + what);
}

Status check_structure(const Plan& plan, ReduceOp op) {
  FABRING_TRY(check_head(plan));
  FABRING_TRY(check_ranges(plan));
  for (StepId id = 0; id < plan.steps.size(); ++id) FABRING_TRY(check_step(plan, id, op));
  return check_dependencies(plan);
}

namespace {

/// The lengths of this rank's blocks.
std::vector<std::size_t> counts_of(const Plan& plan, const Counts& counts) {
  if (counts.blocks.empty() || plan.blocks == 0) return std::vector<std::size_t>(plan.blocks, counts.uniform);
  if (plan.collective != Collective::alltoall) return counts.blocks;
  const auto n = static_cast<std::size_t>(plan.size);
  const auto rank = static_cast<std::size_t>(plan.rank);
  std::vector<std::size_t> own;
  for (std::size_t peer = 0; peer < n; ++peer) own.push_back(counts.blocks[rank * n + peer]);
  for (std::size_t peer = 0; peer < n; ++peer) own.push_back(counts.blocks[peer * n + rank]);
  return own;
}

Status check_counts(const Plan& plan, const Counts& counts) {
  // Offsets are counted on as if all blocks lay together, and subtracted.
  std::size_t room = std::numeric_limits<std::size_t>::max() / 2;
  const std::size_t uniform_blocks = counts.blocks.empty() ? std::max<std::size_t>(plan.blocks, 1) : 0;
  bool fits = uniform_blocks == 0 || counts.uniform <= room / uniform_blocks;
  for (const std::size_t length : counts.blocks) {
    fits = fits && length <= room;
    room -= fits ? length : 0;
  }
  if (!fits) return {ErrorCode::invalid_argument, "more elements than can be counted"};
  const auto n = static_cast<std::size_t>(plan.size);
  const std::size_t wanted = plan.collective == Collective::alltoall ? n * n : plan.blocks;
  if (counts.blocks.empty() || counts.blocks.size() == wanted) return {};
  return {ErrorCode::invalid_argument, std::string(name(plan.collective)) + " over " + text(n) + " ranks has " +
                                           text(wanted) + " block lengths, not " + text(counts.blocks.size())};
}

Status check_lengths(const World& world, const Plan& plan) {
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    for (const Block& to : writes(step)) {
      const Bounds target = world.bounds(plan.rank, to);
      const std::size_t wanted = target.count();
      for (const Block& from : reads(plan, step)) {
        const Bounds source = world.bounds(plan.rank, from);
        const std::size_t count = source.count();
        if (count == wanted) {
          world.note_equal_lengths(source, target);
          continue;
        }
        return broken(plan, id,
                      block_text(plan, from) + " has " + text(count) + " elements, " + block_text(plan, to) + " has " +
                          text(wanted));
      }
    }
  }
  return {};
}

/// bind() and scratch_lengths() once more, for forms: as for any uniform count.
void bind_forms(World& world, const Plan& plan) {
  LinearForms& forms = world.path->forms();
  std::vector<FormsOfBounds>& ranges = world.forms.emplace_back(plan.ranges.size());
  ranges[0].end = forms.counts(std::max<std::uint32_t>(plan.blocks, 1));
  for (RangeId id = 1; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    const FormsOfBounds& parent = ranges[range.parent];
    if (range.parent == 0 && plan.blocks != 0) {
      ranges[id] = {forms.counts(range.first), forms.counts(range.last)};
      continue;
    }
    const FormId length = forms.minus(parent.end, parent.begin);
    ranges[id] = {forms.plus(parent.begin, forms.begin_of_part(range.first, range.parts, length)),
                  forms.plus(parent.begin, forms.begin_of_part(range.last, range.parts, length))};
  }
  std::vector<FormId>& lengths = world.scratch_form.emplace_back();
  std::vector<std::size_t> found;
  for (const RangeId declared : plan.scratch) {
    lengths.push_back(forms.minus(ranges[declared].end, ranges[declared].begin));
    found.push_back(world.extents.back()[declared].count);
  }
  const auto need = [&](const Block& block) {
    if (block.space != Space::scratch || found[block.scratch] == world.scratch.back()[block.scratch]) return;
    const std::size_t end = world.extent(plan.rank, block).end();
    if (end <= found[block.scratch]) return;
    found[block.scratch] = end;
    lengths[block.scratch] = world.form_of(plan, ranges, block).end;
  };
  for (const Step& step : plan.steps) {
    for (const Block& block : reads(plan, step)) need(block);
    for (const Block& block : writes(step)) need(block);
  }
}

}  // namespace

Result<World> bind_world(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit,
                         PathCondition* path) {
  World world{plans, {}, {}, {}, limit, path, {}, {}};
  if (plans.empty()) return Status(ErrorCode::invalid_argument, "no plans to check; pass those of all ranks");
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    if (plan.rank != static_cast<Rank>(rank) || plan.size != static_cast<int>(plans.size())) {
      return broken_plan(plan, "says rank " + std::to_string(plan.rank) + " of " + std::to_string(plan.size) +
                                   ", but is number " + text(rank) + " of " + text(plans.size()));
    }
    if (plan.collective != plans[0].collective || plan.root != plans[0].root) {
      return broken_plan(plan, "is of " + std::string(name(plan.collective)) + " with root " +
                                   std::to_string(plan.root) + ", that of rank 0 of " +
                                   std::string(name(plans[0].collective)) + " with root " +
                                   std::to_string(plans[0].root));
    }
    FABRING_TRY(world.take(plan.ranges.size() + plan.scratch.size() + 4 * plan.steps.size() + plan.operands.size() +
                           plan.successors.size()));
    if (Status status = check_structure(plan, op); !status.ok()) return status;
    if (Status status = check_counts(plan, counts); !status.ok()) return status;
    std::vector<Extent>& extents = world.extents.emplace_back(plan.ranges.size());
    std::vector<Bounds>& blocks = world.blocks.emplace_back();
    if (plan.blocks == 0) {
      bind(plan, counts.uniform, extents);
      blocks.push_back({extents[0].offset, extents[0].end()});
    } else {
      const std::vector<std::size_t> lengths = counts_of(plan, counts);
      bind(plan, lengths, extents);
      for (const std::size_t length : lengths) {
        const std::size_t begin = blocks.empty() ? 0 : blocks.back().end.at;
        blocks.push_back({begin, begin + length});
      }
    }
    scratch_lengths(plan, extents, world.scratch.emplace_back(plan.scratch.size()));
    if (path != nullptr) {
      bind_forms(world, plan);
      for (std::uint32_t block = 0; block < blocks.size(); ++block) {
        blocks[block].begin.form = path->forms().counts(block);
        blocks[block].end.form = path->forms().counts(block + 1);
      }
    }
    if (Status status = check_lengths(world, plan); !status.ok()) return status;
  }
  return world;
}

Status check_largest_message(std::span<const Plan> plans) {
  for (const Plan& plan : plans) {
    if (plan.largest_message != plans[0].largest_message) {
      return broken_plan(plan, "says that the longest message of all is " + text(plan.largest_message) +
                                   "; rank 0's plan says " + text(plans[0].largest_message));
    }
    const std::uint64_t own = longest_own_message(plan);
    if (own <= plan.largest_message) continue;
    return broken_plan(
        plan, "has a message of " + text(own) + ", longer than the longest of all, " + text(plan.largest_message));
  }
  return {};
}

}  // namespace fabring::check
