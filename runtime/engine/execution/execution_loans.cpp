// Messages that are read where they lie: what this rank lends, when it may be overwritten, and what it gives back.

#include "runtime/base/copy_bytes.hpp"
#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

bool Execution::lend(const Tile& tile, const Record& record, StepId id, std::span<const std::byte> from) {
  const Rank peer = world_rank(id);
  FastLoan loan{peer, 0};
  const LoanTerms terms{.answerable = operands_->comes_back_there(tile.place, id), .readable = read_.is_read()};
  if (from.size() < FastLoan::least_bytes || !plan_->may_be_lent[id] || !engine_->transfer().is_fast(peer) ||
      !engine_->transfer().lend_fast(peer, record, from, terms, loan.number))
    return false;
  fast_loans_.add(loan);
  return true;
}

bool Execution::is_lending() const { return !fast_loans_.empty() && !fast_loans_.all_back(engine_->transfer()); }

// What the peer makes of these bytes it may write over them.
void Execution::lending(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  tile.steps[id].lending = true;
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = plan_->plan.successors[step.first_successor + i];
    if (plan_->comes_back(id, next) && --tile.steps[next].need == 0) make_ready(tile, next);
  }
}

void Execution::on_lent(std::uint32_t tile_slot, StepId id, std::span<const std::byte> message, std::uint32_t loan) {
  Tile& tile = *tiles_[tile_slot];
  tile.steps[id].lent.at = message.data();
  tile.steps[id].lent.loan = loan;
  const Step& step = plan_->plan.steps[id];
  const bool aligned = reinterpret_cast<std::uintptr_t>(message.data()) % size_of(call_.carried()) == 0;
  if (!aligned)
    engine_->suspect(world_rank(id), nonsense("it lent memory at an address at which no element can be", place()));
  if (failed() || !intact_ || !aligned || message.size() != message_bytes(tile, id)) {
    (void)give_back(tile, id);
    if (!aligned) message = {};
  } else if (step.kind == StepKind::recv) {
    tile.place.lent[step.to.scratch] = message.data();
  }
  on_block(tile_slot, id, Outcome::done, static_cast<std::uint32_t>(message.size()));
  if (communicator_->member[step.peer].has_withdrawn) bring_home(tile, id);
}

// What one step alone reads need not be copied to scratch first, if that step waits for nothing else: two ranks that
// waited for a landing of each other while they kept one would wait for ever.
bool Execution::stays_in_landing(Tile& tile, StepId receive, std::span<const std::byte> payload) {
  const Block& to = plan_->plan.steps[receive].to;
  const StepId reader = plan_->only_reader[receive];
  if (to.space != Space::scratch || reader == PreparedPlan::none || tile.steps[reader].need != 1) return false;
  const auto landing = engine_->transfer().keep_landing(world_rank(receive), payload);
  if (!landing) return false;
  tile.place.lent[to.scratch] = payload.data();
  tile.landed.push_back({receive, *landing});
  return true;
}

void Execution::empty_landings(Tile& tile, StepId reader) {
  std::erase_if(tile.landed, [&](const Tile::Landed& one) {
    if (plan_->only_reader[one.receive] != reader) return false;
    tile.place.lent[plan_->plan.steps[one.receive].to.scratch] = nullptr;
    engine_->transfer().empty_landing(world_rank(one.receive), one.landing);
    return true;
  });
}

// False: the peer took it back before it had been read, and is lost: the step never ends, and the engine hears why.
bool Execution::give_back(Tile& tile, StepId receive) {
  StepState::Lent& lent = tile.steps[receive].lent;
  if (lent.at == nullptr) return true;
  lent.at = nullptr;
  lent.opened.reset();
  read_loan_ = true;
  const Step& step = plan_->plan.steps[receive];
  if (step.kind == StepKind::recv && step.to.space == Space::scratch)
    (on_device_ ? tile.there : tile.place).lent[step.to.scratch] = nullptr;
  return engine_->transfer().give_back(world_rank(receive), lent.loan);
}

// A copy where it would have come if it had not been lent, for who cannot wait until it is read. What a device reads is
// read when the device comes to it.
void Execution::bring_home(Tile& tile, StepId receive) {
  const StepState::Lent& lent = tile.steps[receive].lent;
  if (lent.at == nullptr || on_device_) return;
  const Step& step = plan_->plan.steps[receive];
  std::byte* const home =
      step.kind == StepKind::recv ? operands_->own_area(tile.place, step.to).data() : tile.steps[receive].slot;
  copy_bytes(home, lent.at, message_bytes(tile, receive));
  intact_ = give_back(tile, receive) && intact_;
}

bool Execution::give_back_read(Tile& tile, StepId reader) {
  bool valid = true;
  for (const StepId receive : plan_->last_reader[reader]) valid = give_back(tile, receive) && valid;
  return valid;
}

}  // namespace fabring
