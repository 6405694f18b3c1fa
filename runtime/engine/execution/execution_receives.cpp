// How an execution receives: where a message is to come, and the grant that says so to its sender.

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/execution/local_steps.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

void Execution::run_recv(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (skipped(tile, id)) return step_done(tile, id);
  const std::size_t bytes = message_bytes(tile, id);
  Arrival arrival = bytes > eager_limit_ ? arrival_of(tile, id) : Arrival::comes;
  if (on_device_ && arrival == Arrival::or_ticket && !tile.has_mirror &&
      !(engine_->devices().sends_in_full(world_rank(id)) && take_mirror(tile)))
    arrival = Arrival::by_ticket;
  const bool comes_now = bytes > eager_limit_ || tile.steps[id].data == Data::early;
  const auto for_card = bytes > eager_limit_ ? admitted_operand(tile, id) : std::span<std::byte>();
  if (on_device_ && comes_now && arrival != Arrival::by_ticket && for_card.empty() && !take_mirror(tile))
    return retry_.push_back({&tile, id});
  const auto to = operands_->at(tile.place, step.to);
  if (on_device_) tile.mirrors.forget(to);
  if (bytes > eager_limit_) {
    Slot slot = 0;
    tile.steps[id].by_card = !for_card.empty();
    if (engine_->transfer().recv_block(world_rank(id), for_card.empty() ? to : for_card,
                                       cookie(index_, tile_slot(tile), id), slot, arrival) == Post::again) {
      retry_.push_back({&tile, id});
    } else {
      grant(tile, id, slot, bytes, arrival);
    }
    return;
  }
  if (tile.steps[id].data != Data::early) return;  // on_record will bring it
  tile.steps[id].data = Data::used;
  auto& early = communicator_->early;
  const auto at = early.find({false, sequence_, tile.index(), step.peer, step.message, RecordKind::data});
  if (bounces(tile, id)) {
    bring_from_bounce(tile, id, at->second.payload);
    early.erase(at);
    return;
  }
  copy_bytes(to.data(), at->second.payload.data(), to.size());
  early.erase(at);
  on_device_ ? came_to_host(tile, id) : step_done(tile, id);
}

void Execution::run_recv_reduce(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (skipped(tile, id)) return step_done(tile, id);
  if (tile.steps[id].data == Data::to_grant) {
    if (!post_slot_receive(tile, id)) retry_.push_back({&tile, id});
  } else if (on_device_ && tile.steps[id].data == Data::here) {
    read_incoming(tile, id);
  } else if (tile.steps[id].data == Data::here) {
    if (awaits_grants(tile, id)) return retry_.push_back({&tile, id});
    tile.steps[id].data = Data::used;  // a message that came when this was ready, and had not been run yet, has run it
    std::byte* slot = tile.steps[id].slot;
    tile.steps[id].slot = nullptr;
    const std::byte* const incoming = tile.steps[id].lent.at != nullptr ? tile.steps[id].lent.at : slot;
    fold_onward(tile, id, incoming);
    free_slots_.push_back(slot);
    if (give_back(tile, id)) step_done(tile, id);
  } else if (tile.steps[id].data == Data::early) {
    if (on_device_ && !take_mirror(tile)) return retry_.push_back({&tile, id});
    auto& early = communicator_->early;
    const auto at = early.find({false, sequence_, tile.index(), step.peer, step.message, RecordKind::data});
    take_small(tile, id, at->second.payload);
    early.erase(at);
  }  // else on_block or on_record goes on, seeing need == 0
}

// Slots go to the oldest tile and the earliest step first: what is posted can always be used before what is not.
void Execution::post_slot_receives() {
  const std::uint32_t oldest = next_tile_ > tiling_.depth ? next_tile_ - tiling_.depth : 0;
  for (std::uint32_t index = oldest; index < next_tile_ && !free_slots_.empty(); ++index) {
    Tile& tile = *tiles_[index % tiling_.depth];
    if (!tile.active || tile.index() != index) continue;
    for (; tile.next_slot_receive < plan_->slot_receives.size(); ++tile.next_slot_receive) {
      const StepId id = plan_->slot_receives[tile.next_slot_receive];
      const std::size_t bytes = message_bytes(tile, id);
      if (bytes <= eager_limit_) continue;
      if (free_slots_.empty()) return;
      tile.steps[id].slot = free_slots_.back();
      if (!post_slot_receive(tile, id)) {
        tile.steps[id].slot = nullptr;
        return;
      }
      free_slots_.pop_back();
    }
  }
}

bool Execution::post_slot_receive(Tile& tile, StepId id) {
  const std::size_t bytes = message_bytes(tile, id);
  Slot slot = 0;
  const Arrival arrival = arrival_of(tile, id);
  if (engine_->transfer().recv_block(world_rank(id), {tile.steps[id].slot, bytes}, cookie(index_, tile_slot(tile), id),
                                     slot, arrival) == Post::again)
    return false;
  grant(tile, id, slot, bytes, arrival);
  return true;
}

Arrival Execution::arrival_of(const Tile& tile, StepId id) const {
  if (on_device_)
    return !tile.steps[id].in_full && engine_->devices().opens_memory_of(world_rank(id)) ? Arrival::or_ticket
                                                                                         : Arrival::comes;
  if (plan_->may_stay[id]) return Arrival::may_stay;
  const Step& step = plan_->plan.steps[id];
  const bool is_last = step.to.space == Space::output && step.successor_count == 0 && !tile.place.packed;
  return is_last && !fits_cache_ ? Arrival::comes_cold : Arrival::comes;
}

void Execution::grant(Tile& tile, StepId id, Slot slot, std::size_t bytes, Arrival arrival) {
  Record record = record_for(tile, id, RecordKind::grant, bytes);
  record.slot = slot;
  record.takes_ticket = arrival == Arrival::or_ticket   ? Record::or_ticket
                        : arrival == Arrival::by_ticket ? Record::only_ticket
                                                        : Record::no_ticket;
  tile.steps[id].only_ticket = arrival == Arrival::by_ticket;
  tile.steps[id].data = Data::posted;
  peer_of(id).told = true;
  now_outstanding(id);
  engine_->transfer().send_record(world_rank(id), record);
}

}  // namespace fabring
