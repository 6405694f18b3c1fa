// The life of an execution's messages: small ones travel in records, larger ones wait until the receiver has granted
// them a slot.

#include <algorithm>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution.hpp"
#include "runtime/engine/local_steps.hpp"

namespace fabring {

// ---- what a message is --------------------------------------------------------------------------------------------

std::uint32_t Execution::tile_slot(const Tile& tile) const { return tile.index() % tiling_.depth; }

Rank Execution::world_rank(StepId id) const { return communicator_->members[plan_->plan.steps[id].peer]; }

const Block& Execution::message_operand(StepId id) const {
  const Step& step = plan_->plan.steps[id];
  return step.kind == StepKind::send ? step.from : step.to;
}

std::size_t Execution::message_bytes(const Tile& tile, StepId id) const {
  return operands_->bytes_of(tile.place, message_operand(id));
}

std::size_t Execution::length_between(StepId id) const {
  return call_.counts[plan_->blocks[message_operand(id).range].first];
}

// Empty messages travel in the first tile only: there they prove that both sides called the same.
bool Execution::skipped(const Tile& tile, StepId id) const { return tile.index() > 0 && message_bytes(tile, id) == 0; }

Record Execution::record_for(const Tile& tile, StepId id, RecordKind kind, std::size_t bytes) const {
  const Step& step = plan_->plan.steps[id];
  Record record;
  record.kind = kind;
  record.channel = communicator_->id;
  record.sequence = sequence_;
  record.tile = tile.index();
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(bytes);
  record.signature = signature_;
  if (lengths_by_pair(call_)) record.signature.count = length_between(id);
  auto& member = communicator_->member[step.peer];
  record.consumed = member.taken;
  member.told = member.taken;
  return record;
}

// Errors: mismatch if the other side counts other lengths; otherwise it makes no sense.
Result<StepId> Execution::step_of(const Tile& tile, Rank peer, const Record& record) const {
  const int at = plan_->peer_index(peer);
  const bool is_grant = record.kind == RecordKind::grant;
  const Status nonsense(
      ErrorCode::transport_error,
      "it sent a message that is in no plan; it runs another build of Fabring, or its memory is broken");
  if (at < 0) return nonsense;
  const auto& list = is_grant ? plan_->peers[at].sends : plan_->peers[at].receives;
  if (record.message >= list.size()) return nonsense;
  const StepId id = list[record.message];
  if (const Status alike = check_length(peer, record); !alike.ok()) return alike;
  if (record.bytes != message_bytes(tile, id) || skipped(tile, id) || (record.bytes > eager_limit_) != is_grant ||
      (is_grant && record.slot < Transfer::first_granted_slot))
    return nonsense;
  return id;
}

Status Execution::check_length(Rank peer, const Record& record) const {
  if (!lengths_by_pair(call_)) return {};  // the signature has said all
  const int at = plan_->peer_index(peer);
  if (at < 0) return Status(ErrorCode::transport_error, "it sent a message that is in no plan");
  const auto& list = record.kind == RecordKind::grant ? plan_->peers[at].sends : plan_->peers[at].receives;
  if (record.message >= list.size()) return Status(ErrorCode::transport_error, "it sent a message that is in no plan");
  const bool alike = record.signature.count == length_between(list[record.message]);
  return alike ? Status() : Status(ErrorCode::mismatch, "");
}

// ---- sending ------------------------------------------------------------------------------------------------------

void Execution::run_send(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  const std::size_t bytes = message_bytes(tile, id);
  if (skipped(tile, id)) return step_done(tile, id);
  // What cannot be lent goes through the host, and sets out while its grant is on the way.
  const bool small = bytes <= eager_limit_;
  const bool in_full = small || tile.in_full[id] ||
                       (!engine_->shares_device_memory_with(world_rank(id)) && admitted_operand(tile, id).empty());
  if (on_device_ && in_full && !take_mirror(tile)) return retry_.push_back({&tile, id});
  const bool ready = !on_device_ || !in_full || mirrored(tile, id);
  if (bytes > eager_limit_) {
    if (tile.granted[id] != 0) {
      post_send(tile, id, tile.granted[id]);
    } else {
      tile.waiting[id] = true;
      announce(tile, id);
    }
    return;
  }
  if (!ready) return;
  const bool bounced = bounces(tile, id);
  if (bounced && !tile.bounced[id]) return bring_to_bounce(tile, id);
  if (!engine_->may_send_early(*communicator_, *this, tile.index(), step.peer)) {
    retry_.push_back({&tile, id});
    return;
  }
  ++communicator_->member[step.peer].early_sent;
  --tile.eager_left[plan_->peer_of_step[id]];
  told_[plan_->peer_of_step[id]] = true;
  const Record record = record_for(tile, id, RecordKind::data, bytes);
  const std::span<const std::byte> from =
      bounced ? std::span<const std::byte>(bounce(tile, id), bytes) : operands_->at(tile.place, step.from);
  if (bounced || on_device_ || !lend(tile, record, id, from))
    engine_->transfer().send_record(world_rank(id), record, from);
  step_done(tile, id);
}

bool Execution::lend(const Tile& tile, const Record& record, StepId id, std::span<const std::byte> from) {
  const Rank peer = world_rank(id);
  FastLoan loan{peer, 0};
  if (from.size() < FastLoan::least_bytes || !plan_->may_be_lent[id] || !engine_->transfer().is_fast(peer) ||
      !engine_->transfer().lend_fast(peer, record, from, operands_->comes_back_there(tile.place, id), loan.number))
    return false;
  fast_loans_.add(loan);
  return true;
}

bool Execution::is_lending() const { return !fast_loans_.empty() && !fast_loans_.all_back(engine_->transfer()); }

void Execution::now_outstanding(StepId id) {
  ++outstanding_;
  ++outstanding_per_peer_[plan_->peer_of_step[id]];
}

void Execution::post_send(Tile& tile, StepId id, Slot slot) {
  if (on_device_ && tile.by_ticket[id] && !tile.in_full[id]) return post_ticket(tile, id, slot);
  if (tile.only_ticket[id]) {  // it will be granted again
    engine_->transfer().decline(world_rank(id), slot);
    tile.granted[id] = 0;
    tile.only_ticket[id] = false;
    tile.waiting[id] = true;
    return;
  }
  const auto for_card = admitted_operand(tile, id);
  if (on_device_ && for_card.empty()) {
    if (!take_mirror(tile)) {
      tile.waiting[id] = false;
      return retry_.push_back({&tile, id});
    }
    if (!mirrored(tile, id)) return;
  }
  if (!on_device_ && !engine_->transfer().is_fast(world_rank(id))) grant_first();
  if (failed()) return;
  const auto bytes = for_card.empty() ? operands_->at(tile.place, plan_->plan.steps[id].from) : for_card;
  const Post post = engine_->transfer().send_block(world_rank(id), slot, bytes, cookie(index_, tile_slot(tile), id));
  if (post == Post::again) {
    retry_.push_back({&tile, id});
    return;
  }
  tile.granted[id] = 0;
  tile.waiting[id] = false;
  now_outstanding(id);
  if (post == Post::lent) lending(tile, id);
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
  if (only_ticket && (!on_device_ || tile.in_full[id])) {
    engine_->transfer().decline(world_rank(id), record.slot);
    return false;
  }
  tile.granted[id] = record.slot;
  tile.by_ticket[id] = record.takes_ticket != Record::no_ticket;
  tile.only_ticket[id] = only_ticket;
  return true;
}

// If this rank called something larger than the receiver did, the receiver waits for data and will never grant; so that
// it can tell, it must hear of this call at least once.
void Execution::announce(const Tile& tile, StepId id) {
  if (lengths_by_pair(call_) ? tile.index() > 0 : told_[plan_->peer_of_step[id]]) return;
  told_[plan_->peer_of_step[id]] = true;
  Record record = record_for(tile, id, RecordKind::announce, 0);
  record.tile = 0;
  engine_->transfer().send_record(world_rank(id), record);
}

void Execution::announce_waiting() {
  if (point_to_point() || lengths_by_pair(call_)) return;  // there every rank sends something to every other
  for (const auto& tile : tiles_)
    for (StepId id = 0; tile->active && id < plan_->plan.steps.size(); ++id)
      if (awaits(*tile, id)) announce(*tile, id);
}

// ---- receiving ----------------------------------------------------------------------------------------------------

void Execution::grant(Tile& tile, StepId id, Slot slot, std::size_t bytes, Arrival arrival) {
  Record record = record_for(tile, id, RecordKind::grant, bytes);
  record.slot = slot;
  record.takes_ticket = arrival == Arrival::or_ticket   ? Record::or_ticket
                        : arrival == Arrival::by_ticket ? Record::only_ticket
                                                        : Record::no_ticket;
  tile.only_ticket[id] = arrival == Arrival::by_ticket;
  engine_->transfer().send_record(world_rank(id), record);
  tile.data[id] = Data::posted;
  told_[plan_->peer_of_step[id]] = true;
  now_outstanding(id);
}

Arrival Execution::arrival_of(const Tile& tile, StepId id) const {
  if (on_device_)
    return !tile.in_full[id] && engine_->opens_device_memory_of(world_rank(id)) ? Arrival::or_ticket : Arrival::comes;
  return plan_->may_stay[id] ? Arrival::may_stay : Arrival::comes;
}

void Execution::run_recv(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (skipped(tile, id)) return step_done(tile, id);
  const std::size_t bytes = message_bytes(tile, id);
  Arrival arrival = bytes > eager_limit_ ? arrival_of(tile, id) : Arrival::comes;
  if (on_device_ && arrival == Arrival::or_ticket && !tile.has_mirror &&
      !(engine_->sends_in_full(world_rank(id)) && take_mirror(tile)))
    arrival = Arrival::by_ticket;
  const bool comes_now = bytes > eager_limit_ || tile.data[id] == Data::early;
  const auto for_card = bytes > eager_limit_ ? admitted_operand(tile, id) : std::span<std::byte>();
  if (on_device_ && comes_now && arrival != Arrival::by_ticket && for_card.empty() && !take_mirror(tile))
    return retry_.push_back({&tile, id});
  const auto to = operands_->at(tile.place, step.to);
  if (on_device_) tile.mirrors.forget(to);
  if (bytes > eager_limit_) {
    Slot slot = 0;
    tile.by_card[id] = !for_card.empty();
    if (engine_->transfer().recv_block(world_rank(id), for_card.empty() ? to : for_card,
                                       cookie(index_, tile_slot(tile), id), slot, arrival) == Post::again) {
      retry_.push_back({&tile, id});
    } else {
      grant(tile, id, slot, bytes, arrival);
    }
    return;
  }
  if (tile.data[id] != Data::early) return;  // on_record will bring it
  tile.data[id] = Data::used;
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
  if (tile.data[id] == Data::to_grant) {
    if (!post_slot_receive(tile, id)) retry_.push_back({&tile, id});
  } else if (on_device_ && tile.data[id] == Data::here) {
    read_incoming(tile, id);
  } else if (tile.data[id] == Data::here) {
    tile.data[id] = Data::used;  // a message that came when this was ready, and had not been run yet, has run it
    std::byte* slot = tile.slot[id];
    tile.slot[id] = nullptr;
    reduce_incoming(tile, id, tile.lent[id].at != nullptr ? tile.lent[id].at : slot);
    free_slots_.push_back(slot);
    if (give_back(tile, id)) step_done(tile, id);
  } else if (tile.data[id] == Data::early) {
    if (on_device_ && !take_mirror(tile)) return retry_.push_back({&tile, id});
    auto& early = communicator_->early;
    const auto at = early.find({false, sequence_, tile.index(), step.peer, step.message, RecordKind::data});
    take_small(tile, id, at->second.payload);
    early.erase(at);
  }  // else on_block or on_record goes on, seeing need == 0
}

// The message of a recv_reduce that is ready.
void Execution::take_small(Tile& tile, StepId id, std::span<const std::byte> payload) {
  if (!on_device_) {
    tile.data[id] = Data::used;  // the step may still be among the ready ones
    reduce_incoming(tile, id, payload.data());
    if (engine_->transfer().is_intact(world_rank(id))) step_done(tile, id);
    return;
  }
  const auto mirror = operands_->at(tile.place, plan_->plan.steps[id].to);
  tile.mirrors.forget(mirror);
  copy_bytes(mirror.data(), payload.data(), payload.size());
  if (engine_->transfer().is_intact(world_rank(id))) came_to_host(tile, id);
}

void Execution::reduce_incoming(Tile& tile, StepId id, const std::byte* incoming) {
  fold_incoming(call_, *operands_, tile.place, plan_->plan.steps[id], incoming);
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
      tile.slot[id] = free_slots_.back();
      if (!post_slot_receive(tile, id)) {
        tile.slot[id] = nullptr;
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
  if (engine_->transfer().recv_block(world_rank(id), {tile.slot[id], bytes}, cookie(index_, tile_slot(tile), id), slot,
                                     arrival) == Post::again)
    return false;
  grant(tile, id, slot, bytes, arrival);
  return true;
}

// ---- news ---------------------------------------------------------------------------------------------------------

Status Execution::on_record(Rank peer, const Record& record, std::span<const std::byte> payload) {
  Tile& tile = *tiles_[record.tile % tiling_.depth];
  const auto found = step_of(tile, peer, record);
  if (!found) return found.error();
  const StepId id = *found;
  if (record.kind == RecordKind::grant) {
    if (tile.granted[id] != 0) return Status(ErrorCode::transport_error, "it granted a message twice");
    if (take_grant(tile, id, record) && tile.waiting[id]) post_send(tile, id, record.slot);
    return {};
  }
  if (tile.data[id] != Data::none) return Status(ErrorCode::transport_error, "it sent a message twice");
  const bool usable = tile.need[id] == 0;
  if (!usable || (on_device_ && !take_mirror(tile))) {  // came before this rank may use it, or has where to put it
    const auto is_it = [&](const Ready& ready) { return ready.tile == &tile && ready.step == id; };
    if (usable && std::none_of(ready_.begin(), ready_.end(), is_it)) retry_.push_back({&tile, id});
    auto& early = communicator_->early[{false, sequence_, record.tile, peer, record.message, RecordKind::data}];
    early.record = record;
    early.payload.assign(payload.begin(), payload.end());
    early.taken = true;
    if (engine_->transfer().is_intact(world_rank(id))) tile.data[id] = Data::early;
    return {};
  }
  tile.data[id] = Data::here;
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::recv_reduce) {
    take_small(tile, id, payload);
    return {};
  }
  if (bounces(tile, id)) {
    bring_from_bounce(tile, id, payload);
    return {};
  }
  std::byte* const to = operands_->at(tile.place, step.to).data();
  if (to != payload.data()) copy_bytes(to, payload.data(), payload.size());
  if (engine_->transfer().is_intact(world_rank(id))) on_device_ ? came_to_host(tile, id) : step_done(tile, id);
  return {};
}

void Execution::on_block(std::uint32_t tile_slot, StepId id, Outcome outcome, std::uint32_t bytes) {
  Tile& tile = *tiles_[tile_slot];
  const Step& step = plan_->plan.steps[id];
  --outstanding_;
  --outstanding_per_peer_[plan_->peer_of_step[id]];
  if (failed()) return;
  if (outcome == Outcome::refused) {
    engine_->handed_pieces().forget(world_rank(id));
    tile.in_full[id] = true;
    return run_send(tile, id);
  }
  if (outcome != Outcome::done) return;  // the engine hears of the lost peer and fails us
  if (step.kind == StepKind::send) return step_done(tile, id);
  if (tile.only_ticket[id]) {  // declined: there is no ticket
    tile.only_ticket[id] = false;
    tile.in_full[id] = true;
    tile.data[id] = Data::none;
    engine_->sends_in_full(world_rank(id), true);
    return run_recv(tile, id);
  }
  if (bytes != message_bytes(tile, id)) return;  // declined: the peer has failed, and says why on the control plane
  tile.data[id] = Data::here;
  if (tile.by_card[id]) return step_done(tile, id);
  if (on_device_ && (step.kind == StepKind::recv || tile.need[id] == 0)) return came_to_host(tile, id);
  if (step.kind == StepKind::recv) return step_done(tile, id);
  if (tile.need[id] == 0) run_recv_reduce(tile, id);
}

// What the peer makes of these bytes it may write over them.
void Execution::lending(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  tile.lending[id] = true;
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = plan_->plan.successors[step.first_successor + i];
    if (plan_->comes_back(id, next) && --tile.need[next] == 0) make_ready(tile, next);
  }
}

void Execution::on_lent(std::uint32_t tile_slot, StepId id, std::span<const std::byte> message, std::uint32_t loan) {
  Tile& tile = *tiles_[tile_slot];
  tile.lent[id].at = message.data();
  tile.lent[id].loan = loan;
  const Step& step = plan_->plan.steps[id];
  const bool aligned = reinterpret_cast<std::uintptr_t>(message.data()) % size_of(call_.carried()) == 0;
  if (!aligned)
    engine_->suspect(world_rank(id), Status(ErrorCode::transport_error, "it lent memory that no element can be at"));
  if (failed() || !aligned || message.size() != message_bytes(tile, id)) {
    (void)give_back(tile, id);
    if (!aligned) message = {};
  } else if (step.kind == StepKind::recv) {
    tile.place.lent[step.to.scratch] = message.data();
  }
  on_block(tile_slot, id, Outcome::done, static_cast<std::uint32_t>(message.size()));
}

// False: the peer took it back before it had been read, and is lost: the step never ends, and the engine hears why.
bool Execution::give_back(Tile& tile, StepId receive) {
  Tile::Lent& lent = tile.lent[receive];
  if (lent.at == nullptr) return true;
  lent.at = nullptr;
  lent.opened.reset();
  read_loan_ = true;
  const Step& step = plan_->plan.steps[receive];
  if (step.kind == StepKind::recv && step.to.space == Space::scratch)
    (on_device_ ? tile.there : tile.place).lent[step.to.scratch] = nullptr;
  return engine_->transfer().give_back(world_rank(receive), lent.loan);
}

bool Execution::give_back_read(Tile& tile, StepId reader) {
  bool valid = true;
  for (const StepId receive : plan_->last_reader[reader]) valid = give_back(tile, receive) && valid;
  return valid;
}

}  // namespace fabring
