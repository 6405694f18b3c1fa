#include <span>
#include <string>
#include <utility>

#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"

namespace fabring::check {
namespace {

bool in_one_block(BlockSpan span) { return span.last <= span.first + 1; }

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
    return broken_plan(plan, "cuts its data into " + std::to_string(plan.blocks) + " blocks; " +
                                 std::string(name(plan.collective)) + " has " +
                                 std::to_string(block_count(plan.collective, plan.size)));
  }
  return {};
}

Status check_ranges(const Plan& plan) {
  if (plan.ranges.empty()) return broken_plan(plan, "has no ranges; range 0 is the whole");
  for (std::size_t id = 0; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    const auto fail = [&](const std::string& why) {
      return broken_plan(plan, "range " + std::to_string(id) + " is parts " + std::to_string(range.first) + " to " +
                                   std::to_string(range.last) + " of " + std::to_string(range.parts) + " of range " +
                                   std::to_string(range.parent) + why);
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
      return fail("; only the " + std::to_string(plan.blocks) + " blocks, and parts of one of them, have bounds");
    }
  }
  for (std::size_t i = 0; i < plan.scratch.size(); ++i) {
    if (plan.scratch[i] >= plan.ranges.size()) {
      return broken_plan(plan, "scratch " + std::to_string(i) + " is as long as range " +
                                   std::to_string(plan.scratch[i]) + " of " + std::to_string(plan.ranges.size()));
    }
  }
  return {};
}

Status check_block(const Plan& plan, StepId id, const Block& block) {
  if (block.range >= plan.ranges.size()) return broken(plan, id, "there is no range " + std::to_string(block.range));
  if (block.space > Space::scratch) return broken(plan, id, "there is no such kind of operand");
  if (block.space == Space::scratch) {
    if (block.scratch >= plan.scratch.size())
      return broken(plan, id, "there is no scratch " + std::to_string(block.scratch));
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
        return broken(
            plan, id,
            "step " + std::to_string(successor) + " cannot wait for it; steps come after those they wait for");
      }
      if (std::exchange(named_by[successor], id) == id) {
        return broken(plan, id, "step " + std::to_string(successor) + " waits for it twice");
      }
      ++found[successor];
    }
  }
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    if (found[id] != plan.steps[id].dependencies) {
      return broken(plan, id,
                    "says it waits for " + std::to_string(plan.steps[id].dependencies) + " steps, but " +
                        std::to_string(found[id]) + " steps name it as successor");
    }
  }
  return {};
}

}  // namespace

Status check_structure(const Plan& plan, ReduceOp op) {
  FABRING_TRY(check_head(plan));
  FABRING_TRY(check_ranges(plan));
  for (StepId id = 0; id < plan.steps.size(); ++id) FABRING_TRY(check_step(plan, id, op));
  return check_dependencies(plan);
}

Status check_largest_message(std::span<const Plan> plans) {
  for (const Plan& plan : plans) {
    if (plan.largest_message != plans[0].largest_message) {
      return broken_plan(plan, "says that the longest message of all is " + std::to_string(plan.largest_message) +
                                   "; rank 0's plan says " + std::to_string(plans[0].largest_message));
    }
    const std::uint64_t own = longest_own_message(plan);
    if (own <= plan.largest_message) continue;
    return broken_plan(plan, "has a message of " + std::to_string(own) + ", longer than the longest of all, " +
                                 std::to_string(plan.largest_message));
  }
  return {};
}

}  // namespace fabring::check
