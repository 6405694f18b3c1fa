// EngineCore: the machine that algorithms are priced for, what is chosen by those prices, and how calls are cut.

#include <algorithm>
#include <optional>

#include "collectives/cost/kept_by_hierarchical.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/tiling.hpp"

namespace fabring {
namespace {

// An arena is twice as large as scratch, and has room for copies of messages besides.
constexpr std::size_t least_scratch_for_copies = std::size_t{4} << 20;

}  // namespace

std::shared_ptr<const ChoiceTable> EngineCore::choices(const WorldShape& shape) {
  return choices_.of(shape, [&] { return ChoiceTable::make(shape, pricing_machine(), parts_.overrides); });
}

void EngineCore::take_algorithm(CommunicatorCore& communicator, const Override& rule) {
  std::lock_guard lock(communicator.mutex);
  communicator.choices =
      std::make_shared<const ChoiceTable>(ChoiceTable::make(communicator.shape(), pricing_machine(), {rule}));
  communicator.flat.clear();
}

// Before anybody else has the engine: who prices meanwhile would read half of it.
void EngineCore::take_machine(const Machine& machine) {
  std::lock_guard lock(world_->mutex);
  parts_.machine = machine;
  choices_.clear();
  world_->choices.reset();
  world_->lengths.clear();
  world_->flat.clear();
}

Machine EngineCore::pricing_machine() const {
  Machine machine = parts_.machine;
  machine.tiling = tiling_rules();
  return machine;
}

// A tile waits for its messages, one after the other, and meanwhile the link carries those of other tiles. Of the same
// machine on every rank, so alike; where processors copy: cards were not measured.
bool EngineCore::waits_for_links() const {
  return world_ && world_->shape().nodes > 1 && parts_.config.depth == 0 && parts_.agreed.depth_for_cards == 0 &&
         parts_.machine.between.copy_bytes_per_second != 0 && parts_.machine.between.latency_ns >= slow_answer_ns;
}

TilingRules EngineCore::tiling_rules() const {
  const Agreed& agreed = parts_.agreed;
  TilingRules rules;
  if (agreed.through_loopback) rules = rules_through_loopback(rules, parts_.world_size);
  if (agreed.unasked_limit != 0) rules = rules_between_gpus(rules);
  if (agreed.lent_segment_bytes != 0) rules.segment_bytes = agreed.lent_segment_bytes;
  if (parts_.config.segment_bytes != 0) rules.segment_bytes = parts_.config.segment_bytes;
  rules.smallest_bytes = std::min(rules.smallest_bytes, rules.segment_bytes);
  if (agreed.depth_for_cards != 0) rules.depth = agreed.depth_for_cards;
  if (parts_.config.depth != 0) rules.depth = static_cast<std::uint32_t>(parts_.config.depth);
  if (waits_for_links()) rules.reducing_depth = depth_over_slow_answers;
  rules.eager_bytes = eager_limit();
  rules.landing_bytes = agreed.parcels.landings.bytes;
  rules.landing_depth = agreed.parcels.landings.depth();
  rules.landing_vector_bytes = agreed.parcels.landings.longest_vector;
  if (parts_.config.segment_bytes != 0) rules.landing_bytes = std::min(rules.landing_bytes, rules.segment_bytes);
  const bool by_fast_records = agreed.shares_memory && eager_limit() > fabring::eager_bytes;
  if (by_fast_records && parts_.world_size > 2) rules.eager_in_tiles_bytes = eager_in_tiles_of_shared_memory;
  if (by_fast_records && parts_.config.segment_bytes == 0 && !agreed.some_have_gpus && agreed.lent_segment_bytes == 0) {
    rules.pair_bytes = longest_eager(rules, 2) / 2;
    if (parts_.world_size == 2 && transfer_) rules.pair_moved_bytes = transfer_->most_record_bytes();
    rules.reduced_together_bytes = std::size_t{1} << 20;
    rules.apart_bytes = apart_in_shared_memory;
    rules.by_parts = true;
  }
  if (!agreed.shares_memory && parts_.config.segment_bytes == 0) rules.moved_segment_bytes = std::size_t{1} << 20;
  if (parts_.config.segment_bytes == 0) rules.long_segment_bytes = agreed.long_segment_bytes;
  if (parts_.config.depth != 0) rules.long_depth = rules.depth;
  if (agreed.least_scratch_bytes != 0) rules.scratch_bytes = agreed.least_scratch_bytes;
  if (rules.pair_bytes != 0 && transfer_ && rules.scratch_bytes >= least_scratch_for_copies)
    rules.readable_bytes = transfer_->most_bytes_of_few();
  return rules;
}

Tiling EngineCore::tiling_of(CommunicatorCore& communicator, const PreparedPlan& plan, const Call& call) const {
  TilingRules rules = tiling_rules();
  if (rules.long_segment_bytes != 0 && !call.tensors && !call.given && !keeps_tiles_in_scratch(call))
    rules = with_length(
        rules, communicator.lengths.of(call, plan.plan, communicator.shape(), [&] { return pricing_machine(); }));
  if (!call.given) rules = for_kept_by_hierarchical(rules, call.collective, plan.plan.algorithm, communicator.shape());
  return choose_tiling(plan, call, rules);
}

}  // namespace fabring
