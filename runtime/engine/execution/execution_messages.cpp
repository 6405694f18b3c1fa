// What the messages of an execution are, and what it does when one comes: small ones travel in records, larger ones
// wait until the receiver has granted them a slot.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/execution/local_steps.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

Status not_planned(const Record& record) {
  return {ErrorCode::internal,
          fmt::format("it {} a message that this rank does not expect (number {} of part {}, {} bytes), though both "
                      "called the same",
                      record.kind == RecordKind::grant ? "granted" : "sent", record.message + 1, record.tile + 1ull,
                      record.bytes)};
}

}  // namespace

Rank Execution::world_rank(StepId id) const { return communicator_->members[plan_->plan.steps[id].peer]; }

std::size_t Execution::length_between(StepId id) const {
  return call_.counts[plan_->blocks[message_operand(id).range].first];
}

Record Execution::record_for(const Tile& tile, StepId id, RecordKind kind, std::size_t bytes) const {
  const Step& step = plan_->plan.steps[id];
  Record record;
  record.kind = kind;
  record.communicator = communicator_->id;
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
  if (at < 0) return not_planned(record);
  const auto& list = is_grant ? plan_->peers[at].sends : plan_->peers[at].receives;
  if (record.message >= list.size()) return not_planned(record);
  const StepId id = list[record.message];
  if (const Status alike = check_length(peer, record); !alike.ok()) return alike;
  if (record.bytes != message_bytes(tile, id) || skipped(tile, id) || (record.bytes > eager_limit_) != is_grant ||
      (is_grant && record.slot < Transfer::first_granted_slot))
    return not_planned(record);
  return id;
}

Status Execution::check_length(Rank peer, const Record& record) const {
  if (!lengths_by_pair(call_)) return {};  // the signature has said all
  const int at = plan_->peer_index(peer);
  if (at < 0) return not_planned(record);
  const auto& list = record.kind == RecordKind::grant ? plan_->peers[at].sends : plan_->peers[at].receives;
  if (record.message >= list.size()) return not_planned(record);
  const bool alike = record.signature.count == length_between(list[record.message]);
  return alike ? Status() : Status(ErrorCode::mismatch, "");
}

Status Execution::on_record(Rank peer, const Record& record, std::span<const std::byte> payload) {
  Tile& tile = *tiles_[record.tile % tiling_.depth];
  const auto found = step_of(tile, peer, record);
  if (!found) return found.error();
  const StepId id = *found;
  if (record.kind == RecordKind::grant) {
    if (tile.steps[id].granted != 0) return Status(ErrorCode::internal, "it granted a message twice");
    if (take_grant(tile, id, record) && tile.steps[id].waiting) post_send(tile, id, record.slot);
    return {};
  }
  if (tile.steps[id].data != Data::none) return Status(ErrorCode::internal, "it sent a message twice");
  const bool usable = tile.steps[id].need == 0;
  if (!usable || (on_device_ && !take_mirror(tile))) {  // came before this rank may use it, or has where to put it
    const auto is_it = [&](const Ready& ready) { return ready.tile == &tile && ready.step == id; };
    if (usable && std::none_of(ready_.begin(), ready_.end(), is_it)) retry_.push_back({&tile, id});
    auto& early = communicator_->early[{false, sequence_, record.tile, peer, record.message, RecordKind::data}];
    early.record = record;
    early.payload.assign(payload.begin(), payload.end());
    early.taken = true;
    if (engine_->transfer().is_intact(world_rank(id))) tile.steps[id].data = Data::early;
    return {};
  }
  tile.steps[id].data = Data::here;
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::recv_reduce) {
    take_small(tile, id, payload);
    return {};
  }
  if (bounces(tile, id)) {
    bring_from_bounce(tile, id, payload);
    return {};
  }
  if (!on_device_ && stays_in_landing(tile, id, payload)) {
    step_done(tile, id);
    return {};
  }
  std::byte* const to = operands_->at(tile.place, step.to).data();
  if (to != payload.data()) copy_bytes(to, payload.data(), payload.size());
  if (engine_->transfer().is_intact(world_rank(id))) on_device_ ? came_to_host(tile, id) : step_done(tile, id);
  return {};
}

// The message of a recv_reduce that is ready.
void Execution::take_small(Tile& tile, StepId id, std::span<const std::byte> payload) {
  if (!on_device_) {
    tile.steps[id].data = Data::used;  // the step may still be among the ready ones
    StepFold(call_, plan_->plan, *operands_, tile.place, plan_->plan.steps[id], payload.data()).run();
    if (engine_->transfer().is_intact(world_rank(id))) step_done(tile, id);
    return;
  }
  const auto mirror = operands_->at(tile.place, plan_->plan.steps[id].to);
  tile.mirrors.forget(mirror);
  copy_bytes(mirror.data(), payload.data(), payload.size());
  if (engine_->transfer().is_intact(world_rank(id))) came_to_host(tile, id);
}

void Execution::on_block(std::uint32_t tile_slot, StepId id, Outcome outcome, std::uint32_t bytes) {
  Tile& tile = *tiles_[tile_slot];
  const Step& step = plan_->plan.steps[id];
  no_longer_outstanding(id);
  if (failed() || !intact_) return;
  if (outcome == Outcome::refused) {
    engine_->devices().handed_pieces().forget(world_rank(id));
    tile.steps[id].in_full = true;
    return run_send(tile, id);
  }
  if (outcome != Outcome::done) return;  // the engine hears of the lost peer and fails us
  if (step.kind == StepKind::send) return step_done(tile, id);
  if (tile.steps[id].only_ticket) {  // declined: there is no ticket
    tile.steps[id].only_ticket = false;
    tile.steps[id].in_full = true;
    tile.steps[id].data = Data::none;
    engine_->devices().sends_in_full(world_rank(id), true);
    return run_recv(tile, id);
  }
  if (bytes != message_bytes(tile, id)) {
    // Nothing: declined, the peer has failed, and says why on the control plane.
    if (bytes != 0)
      engine_->suspect(world_rank(id), nonsense(fmt::format("it sent {} bytes where a message of {} was granted", bytes,
                                                            message_bytes(tile, id)),
                                                place()));
    return;
  }
  communicator_->member[step.peer].heard = true;
  tile.steps[id].data = Data::here;
  if (tile.steps[id].by_card) return step_done(tile, id);
  if (on_device_ && (step.kind == StepKind::recv || tile.steps[id].need == 0)) return came_to_host(tile, id);
  if (step.kind == StepKind::recv) return step_done(tile, id);
  if (tile.steps[id].need == 0) run_recv_reduce(tile, id);
}

}  // namespace fabring
