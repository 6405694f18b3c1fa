#include "collectives/check/world.hpp"

#include <algorithm>
#include <limits>

#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"

namespace fabring::check {
namespace {

/// Is this the plan of `rank`, and of the same call as the others?
Status check_same_world(std::span<const Plan> plans, std::size_t rank) {
  const Plan& plan = plans[rank];
  if (plan.size != static_cast<int>(plans.size()))
    return broken_plan(plan, "is one of " + std::to_string(plan.size) + " ranks, which need a plan each, but there " +
                                 (plans.size() == 1 ? "is 1" : "are " + std::to_string(plans.size())));
  if (plan.rank != static_cast<Rank>(rank)) {
    return broken_plan(plan, "says rank " + std::to_string(plan.rank) + " of " + std::to_string(plan.size) +
                                 ", but is number " + std::to_string(rank) + " of " + std::to_string(plans.size()));
  }
  if (plan.collective != plans[0].collective || plan.root != plans[0].root) {
    return broken_plan(plan, "is of " + std::string(name(plan.collective)) + " with root " + std::to_string(plan.root) +
                                 ", that of rank 0 of " + std::string(name(plans[0].collective)) + " with root " +
                                 std::to_string(plans[0].root));
  }
  return {};
}

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
  return {ErrorCode::invalid_argument, std::string(name(plan.collective)) + " over " + std::to_string(n) +
                                           " ranks has " + std::to_string(wanted) + " block lengths, not " +
                                           std::to_string(counts.blocks.size())};
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
                      block_text(plan, from) + " has " + std::to_string(count) + " elements, " + block_text(plan, to) +
                          " has " + std::to_string(wanted));
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

void bind_plan(World& world, const Plan& plan, const Counts& counts) {
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
  if (world.path == nullptr) return;
  bind_forms(world, plan);
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    blocks[block].begin.form = world.path->forms().counts(block);
    blocks[block].end.form = world.path->forms().counts(block + 1);
  }
}

}  // namespace

std::string place_text(const World& world, StepRef ref) {
  return "rank " + std::to_string(ref.rank) + ", step " + std::to_string(ref.step) + " (" +
         step_text(world.plan(ref.rank), world.step(ref)) + ")";
}

Status broken_plan(const Plan& plan, const std::string& what) {
  return {ErrorCode::internal, "plan of rank " + std::to_string(plan.rank) + " (" + plan.algorithm + "): " + what};
}

Status broken(const Plan& plan, StepId step, const std::string& what) {
  return broken_plan(plan, "step " + std::to_string(step) + " (" + step_text(plan, plan.steps[step]) + "): " + what);
}

Result<World> bind_world(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit,
                         PathCondition* path, ScratchReuse scratch_reuse) {
  World world{plans, {}, {}, {}, limit, path, {}, {}, scratch_reuse};
  if (plans.empty()) return Status(ErrorCode::invalid_argument, "no plans to check; pass those of all ranks");
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Plan& plan = plans[rank];
    FABRING_TRY(check_same_world(plans, rank));
    FABRING_TRY(world.take(plan.ranges.size() + plan.scratch.size() + 4 * plan.steps.size() + plan.operands.size() +
                           plan.successors.size()));
    FABRING_TRY(check_structure(plan, op));
    FABRING_TRY(check_counts(plan, counts));
    bind_plan(world, plan, counts);
    FABRING_TRY(check_lengths(world, plan));
  }
  return world;
}

}  // namespace fabring::check
