// How an execution sends: a small message at once, in a record; a larger one when the receiver has granted it a slot.

#include <algorithm>
#include <iterator>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

void Execution::run_send(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  const std::size_t bytes = message_bytes(tile, id);
  if (skipped(tile, id)) return step_done(tile, id);
  // What cannot be lent goes through the host, and sets out while its grant is on the way.
  const bool small = bytes <= eager_limit_;
  const bool in_full = small || tile.steps[id].in_full ||
                       (!engine_->devices().shares_memory_with(world_rank(id)) && admitted_operand(tile, id).empty());
  if (on_device_ && in_full && !take_mirror(tile)) return retry_.push_back({&tile, id});
  const bool ready = !on_device_ || !in_full || mirrored(tile, id);
  if (bytes > eager_limit_) {
    if (tile.steps[id].granted != 0) {
      post_send(tile, id, tile.steps[id].granted);
    } else {
      tile.steps[id].waiting = true;
      if (lengths_by_pair(call_))
        announce(tile, id);
      else
        unannounced_ = true;
    }
    return;
  }
  if (!ready) return;
  const bool bounced = bounces(tile, id);
  if (bounced && !tile.steps[id].bounced) return bring_to_bounce(tile, id);
  if (!communicator_->may_send_early(*this, tile.index(), step.peer, bytes)) {
    retry_.push_back({&tile, id});
    return;
  }
  if (!on_device_ && engine_->transfer().lands(world_rank(id), bytes)) return land(tile, id);
  communicator_->member[step.peer].early_sent += CommunicatorCore::weight_of(bytes);
  --tile.eager_left[plan_->peer_of_step[id]];
  peer_of(id).told = true;
  const Record record = record_for(tile, id, RecordKind::data, bytes);
  const std::span<const std::byte> from =
      bounced ? std::span<const std::byte>(bounce(tile, id), bytes) : operands_->at(tile.place, step.from);
  if (bounced || on_device_ || !lend(tile, record, id, from))
    engine_->transfer().send_record(world_rank(id), record, from);
  step_done(tile, id);
}

// What is too long for a parcel goes from where it lies.
void Execution::land(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  Transfer& transfer = engine_->transfer();
  const auto from = operands_->at(tile.place, step.from);
  CommunicatorCore::Member& member = communicator_->member[step.peer];
  const std::uint32_t told = member.told;
  std::uint32_t number = 0;
  if (!transfer.land(world_rank(id), record_for(tile, id, RecordKind::data, from.size()), from, number)) {
    member.told = told;
    return retry_.push_back({&tile, id});
  }
  member.early_sent += CommunicatorCore::weight_of(from.size());
  --tile.eager_left[plan_->peer_of_step[id]];
  peer_of(id).told = true;
  transfer.tell_when_written(world_rank(id), number, cookie(index_, tile_slot(tile), id));
  now_outstanding(id);
}

void Execution::post_send(Tile& tile, StepId id, Slot slot) {
  if (on_device_ && tile.steps[id].by_ticket && !tile.steps[id].in_full) return post_ticket(tile, id, slot);
  if (tile.steps[id].only_ticket) {  // it will be granted again
    engine_->transfer().decline(world_rank(id), slot);
    tile.steps[id].granted = 0;
    tile.steps[id].only_ticket = false;
    tile.steps[id].waiting = true;
    return;
  }
  const auto for_card = admitted_operand(tile, id);
  if (on_device_ && for_card.empty()) {
    if (!take_mirror(tile)) {
      tile.steps[id].waiting = false;
      return retry_.push_back({&tile, id});
    }
    if (!mirrored(tile, id)) return;
  }
  if (!on_device_ && !engine_->transfer().is_fast(world_rank(id))) grant_first();
  if (failed()) return;
  const auto bytes = for_card.empty() ? operands_->at(tile.place, plan_->plan.steps[id].from) : for_card;
  const SendAs as = tile.steps[id].written_ahead ? SendAs::written : read_.is_read() ? SendAs::readable : SendAs::any;
  const Post post =
      engine_->transfer().send_block(world_rank(id), slot, bytes, cookie(index_, tile_slot(tile), id), as);
  if (post == Post::again) {
    retry_.push_back({&tile, id});
    return;
  }
  tile.steps[id].granted = 0;
  tile.steps[id].waiting = false;
  now_outstanding(id);
  if (post == Post::lent) lending(tile, id);
}

void Execution::now_outstanding(StepId id) {
  ++outstanding_;
  ++peer_of(id).outstanding;
  if (plan_->plan.steps[id].kind == StepKind::send) ++peer_of(id).sends_outstanding;
}

void Execution::no_longer_outstanding(StepId id) {
  --outstanding_;
  --peer_of(id).outstanding;
  if (plan_->plan.steps[id].kind == StepKind::send) --peer_of(id).sends_outstanding;
}

// Through a network a long message is copied as it is posted, for as long as that takes. Who could send to this rank
// meanwhile should know it: what is ready to be received is granted before, and grants leave at once.
void Execution::grant_first() {
  if (ready_receives_ > 0) {
    const auto receives =
        std::stable_partition(ready_.begin(), ready_.end(), [this](const Ready& ready) { return !is_receive(ready); });
    const std::vector<Ready> now(std::make_reverse_iterator(ready_.end()), std::make_reverse_iterator(receives));
    ready_.erase(receives, ready_.end());
    ready_receives_ = 0;
    for (const Ready& receive : now)
      if (!failed()) run(*receive.tile, receive.step);
  }
  if (slot_bytes_ > 0) post_slot_receives();
  engine_->transfer().flush();
}

// A grant of nothing but a ticket is declined at once where there will be none.
bool Execution::take_grant(Tile& tile, StepId id, const Record& record) {
  const bool only_ticket = record.takes_ticket == Record::only_ticket;
  if (only_ticket && (!on_device_ || tile.steps[id].in_full)) {
    engine_->transfer().decline(world_rank(id), record.slot);
    return false;
  }
  tile.steps[id].granted = record.slot;
  tile.steps[id].by_ticket = record.takes_ticket != Record::no_ticket;
  tile.steps[id].only_ticket = only_ticket;
  return true;
}

// If this rank called something larger than the receiver did, the receiver waits for data and will never grant; so that
// it can tell, it must hear of this call at least once. Most grants come within microseconds, and a record costs both
// ends as many, so it is said only where none has come for a while (announce_waiting()).
void Execution::announce(const Tile& tile, StepId id) {
  if (lengths_by_pair(call_) ? tile.index() > 0 : peer_of(id).told) return;
  peer_of(id).told = true;
  Record record = record_for(tile, id, RecordKind::announce, 0);
  record.tile = 0;
  engine_->transfer().send_record(world_rank(id), record);
}

void Execution::announce_waiting() {
  unannounced_ = false;
  if (point_to_point() || lengths_by_pair(call_)) return;  // there every rank sends something to every other
  for (const auto& tile : tiles_)
    for (StepId id = 0; tile->active && id < plan_->plan.steps.size(); ++id)
      if (tile->steps[id].waiting || awaits(*tile, id)) announce(*tile, id);
}

}  // namespace fabring
