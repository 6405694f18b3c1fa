// Where a FlatRun waits: for a message that has not come, for room to send, and for what it lent. It gives up when
// there is something else to do, or its patience is over.

#include <algorithm>

#include "runtime/base/pause_core.hpp"
#include "runtime/engine/flat/flat_engine.hpp"
#include "runtime/engine/flat/flat_run.hpp"
#include "runtime/engine/members/communicator_core.hpp"
#include "runtime/engine/waiting/patience.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t most_yields_for_loan = 64;

}  // namespace

// Whatever this operation does not expect is for another one, and for the engine to keep; or it is the sign of a
// mismatch, and the engine sees to that once there is an Execution to compare with. If it ends the communicator, as a
// message that does not fit its receive does, this operation ends with it.
bool FlatRun::await(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile, FastMessage& came) {
  const Step& step = step_at(next_);
  const Message& message = messages_[next_];
  Transfer& transfer = engine.transfer;
  transfer.flush();  // they may sleep
  Record record;
  Patience patience(engine.waiting, transfer);
  while (true) {
    const bool there = !message.fast || transfer.await_fast(message.peer, patience.looks());
    if (there && take_front(engine, communicator, tile, came)) return true;
    if (std::span<const std::byte> payload; there && transfer.front(message.peer, record, payload)) {
      came.payload = payload;
      const bool ours = record.communicator == communicator.id && record.sequence == sequence_;
      if (ours && record.kind == RecordKind::data && record.message == step.message &&
          record.tile == tile.placement.tile && payload.size() == tile.places.of[next_].bytes &&
          record.signature == signature_) {
        communicator.heard_of(step.peer, record.consumed);
        return true;
      }
      if (ours) return false;
      transfer.take(message.peer, record, payload);
      if (communicator.not_at_once.load()) return false;
      continue;
    }
    if (engine.has_news() || !patience.again()) return false;
  }
}

// Once the peer has taken what was sent before, and there is room.
bool FlatRun::send_in_time(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  Transfer& transfer = engine.transfer;
  for (Patience patience(engine.waiting, transfer); !may_send(communicator, step);) {
    hear_news(engine, communicator, step.peer);
    if (communicator.not_at_once.load()) return false;
    if (!may_send(communicator, step) && (engine.has_news() || !patience.again())) return false;
  }
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (messages_[next_].fast && place.bytes >= FastLoan::least_bytes && lend(engine, communicator, tile)) return true;
  const Record record = record_for(communicator, tile.placement.tile, step, place.bytes);
  const Rank peer = messages_[next_].peer;
  const bool lands = transfer.lands(peer, place.bytes);
  std::uint32_t number = 0;
  const auto send_now = [&] {
    return lands ? transfer.land(peer, record, {place.from, place.bytes}, number)
                 : transfer.send_now(peer, record, {place.from, place.bytes});
  };
  for (Patience patience(engine.waiting, transfer); !send_now();) {
    transfer.look();
    transfer.flush();
    if (engine.has_news() || !patience.again()) return false;
  }
  sent(communicator, step, place.bytes, record.consumed);
  if (lands) writing_.push_back({tile.placement.tile, steps_.order[next_], {peer, number}});
  return true;
}

// From whom this operation receives nothing, or nothing yet: how much of ours it has taken.
void FlatRun::hear_news(const FlatEngine& engine, CommunicatorCore& communicator, Rank member) {
  Record record;
  std::span<const std::byte> payload;
  const Rank peer = communicator.members[member];
  while (engine.transfer.front(peer, record, payload)) {
    if (record.communicator == communicator.id) communicator.heard_of(member, record.consumed);
    if (record.communicator == communicator.id && record.sequence == sequence_) return;
    engine.transfer.take(peer, record, payload);
    if (communicator.not_at_once.load()) return;
  }
}

// What this tile has sent from where it lies is written, and may be written over.
bool FlatRun::await_written(const FlatEngine& engine, std::uint32_t tile) {
  Transfer& transfer = engine.transfer;
  for (Patience patience(engine.waiting, transfer);;) {
    std::erase_if(writing_, [&](const Writing& one) { return transfer.is_written(one.loan.peer, one.loan.number); });
    if (std::ranges::none_of(writing_, [&](const Writing& one) { return one.tile == tile; })) return true;
    if (transfer.look() == 0 && (engine.has_news() || !patience.again())) return false;
  }
}

// Of tiles that are over nobody else will wait for it.
void FlatRun::lend_what_is_unwritten(const FlatEngine& engine) {
  for (const Writing& one : writing_)
    if (one.tile < first_tile() && !engine.transfer.is_written(one.loan.peer, one.loan.number)) loans_.add(one.loan);
}

const FlatRun::Writing* FlatRun::writing(std::uint32_t tile, StepId send) const {
  const auto at =
      std::ranges::find_if(writing_, [&](const Writing& one) { return one.tile == tile && one.send == send; });
  return at == writing_.end() ? nullptr : &*at;
}

// No peer reads the caller's memory any more, and nothing of it is still to be written.
bool FlatRun::await_loans(const FlatEngine& engine) const {
  engine.transfer.flush();
  for (std::uint32_t idle = 0; !loans_.all_back(engine.transfer); ++idle) {
    if (engine.transfer.keeps_landings()) engine.transfer.look();
    if (engine.has_news() || idle > engine.waiting.spins + most_yields_for_loan) return false;
    if (idle >= engine.waiting.spins_if(true) && core_is_contended()) return false;
    if (idle <= engine.waiting.spins) {
      pause_core();
    } else {
      yield_core(engine.waiting);
    }
  }
  return true;
}

}  // namespace fabring
