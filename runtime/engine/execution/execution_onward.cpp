// How the result of a reduction goes on to other ranks while it is made. A long result has left the nearest cache when
// all of it is there, and so have the lines of the peers that it is to be written over, if these were just read. So
// where sends wait for nothing but a reduction, are granted, and may be written ahead (Endpoint::write_ahead), it is
// made in parts that stay in the cache, and each part is written to all of them before the next is made.

#include <algorithm>

#include "collectives/reduce/reduce.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/execution/local_steps.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t part_bytes = 16 * 1024;  // of each source and of the result
constexpr std::uint32_t most_looks_for_grants = 32;

}  // namespace

void Execution::run_local(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::reduce) return fold_onward(tile, id);
  if (!tile.steps[id].finished) run_local_step(call_, plan_->plan, *operands_, tile.place, step);
}

bool Execution::may_write_ahead(const Tile& tile, StepId send) const {
  return tile.steps[send].granted != 0 && !tile.steps[send].by_ticket && engine_->transfer().is_fast(world_rank(send));
}

// A peer that has sent or lent an operand grants the result at once where both belong in the same place
// (PreparedPlan::comes_back); only the operand is seen first. Looking a few times more costs less than to write the
// result later, if that is for several peers or must else be read from memory again.
bool Execution::awaits_grants(Tile& tile, StepId id) {
  const std::vector<StepId>& sends = plan_->onward[id].sends;
  if (tile.looks_for_grants == most_looks_for_grants) return false;
  const auto is_from = [&](StepId receive, Rank peer) {
    return plan_->plan.steps[receive].peer == peer && (sends.size() > 1 || tile.steps[receive].lent.at != nullptr);
  };
  const auto has_sent = [&](Rank peer) {
    return is_from(id, peer) ||
           std::ranges::any_of(plan_->last_reader[id], [&](StepId receive) { return is_from(receive, peer); });
  };
  const bool awaits = std::ranges::any_of(sends, [&](StepId send) {
    return tile.steps[send].granted == 0 && message_bytes(tile, send) > eager_limit_ &&
           engine_->transfer().is_fast(world_rank(send)) && has_sent(plan_->plan.steps[send].peer);
  });
  if (!awaits) return false;
  ++tile.looks_for_grants;
  look_again_ = true;
  return true;
}

// A reduce, or a recv_reduce and what came for it.
void Execution::fold_onward(Tile& tile, StepId id, const std::byte* incoming) {
  StepFold fold(call_, plan_->plan, *operands_, tile.place, plan_->plan.steps[id], incoming);
  const PreparedPlan::Onward& onward = plan_->onward[id];
  const std::span<std::byte> result = fold.result();
  ahead_.clear();
  for (const StepId send : onward.sends)
    if (may_write_ahead(tile, send)) ahead_.push_back({world_rank(send), tile.steps[send].granted});
  if (ahead_.empty()) return fold.run();
  const bool finishes = onward.finish != PreparedPlan::none;
  for (std::size_t begin = 0; begin < result.size(); begin += part_bytes) {
    const std::size_t end = std::min(begin + part_bytes, result.size());
    fold.run(begin, end);
    if (finishes)
      finish_average(call_.carried(), result.data() + begin, (end - begin) / size_of(call_.carried()),
                     plan_->plan.size);
    engine_->transfer().write_ahead(ahead_, result, begin, end);
  }
  if (finishes) tile.steps[onward.finish].finished = true;
  auto each = ahead_.begin();
  for (const StepId send : onward.sends)
    if (may_write_ahead(tile, send)) tile.steps[send].written_ahead = (each++)->reached();
}

}  // namespace fabring
