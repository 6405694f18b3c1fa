#pragma once
// What the parts of check_plans() share: all ranks' plans bound to element counts, who talks to whom, and an order in
// which everything can happen. Internal to collectives/; made for one check and thrown away.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/check.hpp"
#include "collectives/check/path_condition.hpp"
#include "collectives/plan.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring::check {

struct StepRef {
  Rank rank = -1;
  StepId step = 0;
};

struct FormsOfBounds {
  FormId begin = zero_form;
  FormId end = zero_form;
};

/// What becomes of what lies behind a part of a scratch area, where another part than before begins to use the area.
/// Which of the two is longer depends on the count, so it is best forgotten; nobody reads it but in plans that want to
/// be misunderstood. Those are checked again by a check that keeps it.
enum class ScratchReuse : std::uint8_t { forgets, keeps };

struct World {
  std::span<const Plan> plans;
  std::vector<std::vector<Extent>> extents;       // by rank and range
  std::vector<std::vector<std::size_t>> scratch;  // by rank and area: its length
  std::vector<std::vector<Bounds>> blocks;        // by rank and block; the whole where plans have none
  WorkLimit* limit = nullptr;                     // none: any amount
  PathCondition* path = nullptr;                  // none: nothing is noted
  std::vector<std::vector<FormsOfBounds>> forms;  // by rank and range, if there is a path
  std::vector<std::vector<FormId>> scratch_form;  // of the lengths of areas, likewise
  ScratchReuse scratch_reuse = ScratchReuse::keeps;

  Status take(std::uint64_t units) const { return limit != nullptr ? limit->take(units) : Status(); }

  const Plan& plan(Rank rank) const { return plans[static_cast<std::size_t>(rank)]; }
  const Step& step(StepRef ref) const { return plan(ref.rank).steps[ref.step]; }
  /// Where `block` lies: in the caller's data or in its scratch area.
  Extent extent(Rank rank, const Block& block) const {
    const std::vector<Extent>& all = extents[static_cast<std::size_t>(rank)];
    return block.space == Space::scratch ? scratch_extent(plan(rank), all, block) : all[block.range];
  }
  /// The same, with its forms.
  Bounds bounds(Rank rank, const Block& block) const {
    const Extent at = extent(rank, block);
    if (path == nullptr) return {at.offset, at.end()};
    const FormsOfBounds form = form_of(plan(rank), forms[static_cast<std::size_t>(rank)], block);
    return {{at.offset, form.begin}, {at.end(), form.end}};
  }
  FormsOfBounds form_of(const Plan& plan, std::span<const FormsOfBounds> ranges, const Block& block) const {
    const FormsOfBounds& range = ranges[block.range];
    if (block.space != Space::scratch) return range;
    const FormId origin = lies_in_place(plan, block) ? ranges[plan.scratch[block.scratch]].begin : range.begin;
    return {path->forms().minus(range.begin, origin), path->forms().minus(range.end, origin)};
  }
  void note_equal_lengths(const Bounds& a, const Bounds& b) const {
    if (path != nullptr)
      path->equal(path->forms().minus(a.end.form, a.begin.form), path->forms().minus(b.end.form, b.begin.form));
  }
};

/// By rank and step: the other side of a message; rank -1 for steps that are not messages.
using Partners = std::vector<std::vector<StepRef>>;

/// An order of all steps that respects dependencies; both ends of a message come at once (the receiving step is
/// listed).
struct StepOrder {
  std::vector<StepRef> steps;
  std::size_t messages = 0;
  std::size_t rounds = 0;  ///< longest chain of messages
};

/// Property 5: everything a plan names exists and is this rank's to touch. On success the plan may be bound.
Status check_structure(const Plan& plan, ReduceOp op);
/// Property 5 for all plans; operands are of equal length. On success the world may be used by the others.
Result<World> bind_world(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit = nullptr,
                         PathCondition* path = nullptr, ScratchReuse scratch_reuse = ScratchReuse::keeps);
/// Property 6.
Status check_largest_message(std::span<const Plan> plans);
/// Property 1: each send has one receive of equal size.
Result<Partners> match_messages(const World& world);
/// Property 2: a send and its receive happen together, when both are ready; everything happens.
Result<StepOrder> order_steps(const World& world, const Partners& partners);
/// Property 4.
Status check_races(const World& world);
/// Property 3, with the output apart from the input, or the same buffer; whether reductions are in order is noted.
Status check_values(const World& world, const Partners& partners, const StepOrder& order, ReduceOp op, bool in_place,
                    CheckReport& report);
/// Property 3 of a barrier: when a rank is through, all have begun.
Status check_arrivals(const World& world, const Partners& partners, const StepOrder& order);

/// Data (input and output alike) is area 0, scratch area i is area i + 1.
inline std::size_t area(const Block& block) {
  return block.space == Space::scratch ? std::size_t{block.scratch} + 1 : 0;
}

inline bool sends(const Step& step) { return step.kind == StepKind::send; }
inline bool receives(const Step& step) { return step.kind == StepKind::recv || step.kind == StepKind::recv_reduce; }

/// check_plans() that notes at which other counts it would succeed; counts are uniform, if there is a path.
Result<CheckReport> check_plans(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit,
                                PathCondition* path, ScratchReuse scratch_reuse);

/// "rank 1, step 3 (send to rank 2: ...)"
std::string place_text(const World& world, StepRef ref);

/// An error: "plan of rank 1 (ring): what".
Status broken_plan(const Plan& plan, const std::string& what);
/// One at a step: "plan of rank 1 (ring): step 3 (send to rank 2: ...): what".
Status broken(const Plan& plan, StepId step, const std::string& what);

}  // namespace fabring::check
