// The receiving side of EngineCore: what other ranks send finds its operation, or waits for it to be called here.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

// Could a member have sent this?
bool is_possible(const Record& record, bool of_message) {
  if (record.kind < RecordKind::data || record.kind > RecordKind::matched) return false;
  if (record.kind == RecordKind::grant && record.slot < Transfer::first_granted_slot) return false;
  return record.sequence != 0 || of_message || record.kind == RecordKind::entered;
}

// Called here, and the next to begin?
bool is_next(const CommunicatorCore& communicator, std::uint32_t sequence) {
  return !communicator.queued.empty() && communicator.queued.front()->sequence() == sequence;
}

}  // namespace

void EngineCore::keep_early(CommunicatorCore& communicator, Rank member, const Record& record,
                            std::span<const std::byte> payload) {
  const bool windowed = record.kind == RecordKind::data;
  if (windowed) communicator.member[member].early_kept += CommunicatorCore::weight_of(record.bytes);
  if (windowed ? communicator.member[member].early_kept > CommunicatorCore::window
               : ++communicator.member[member].early_grants > CommunicatorCore::most_early_grants) {
    suspect(communicator.members[member], nonsense("it sent more messages ahead of time than a rank may",
                                                   "on communicator '" + communicator.label + "'"));
    return;
  }
  const bool of_message = record.signature.collective == static_cast<std::uint8_t>(Collective::send);
  const CommunicatorCore::EarlyKey key{of_message, record.sequence, record.tile, member, record.message, record.kind};
  auto& early = communicator.early[key];
  early.record = record;
  early.payload.assign(payload.begin(), payload.end());
  if (!transfer_->is_intact(communicator.members[member])) communicator.early.erase(key);  // and it is lost
}

void EngineCore::keep_orphan(Rank peer, const Record& record, std::span<const std::byte> payload) {
  std::vector<std::byte> copy(payload.begin(), payload.end());
  if (!transfer_->is_intact(peer)) return;  // and it is lost
  const Orphans::Answer answer = orphans_.take(peer, record, std::move(copy));
  for (const Slot slot : answer.to_decline) transfer_->decline(peer, slot);
  if (answer.too_much)
    suspect(peer,
            Status(ErrorCode::transport_error,
                   fmt::format("it has sent more than {} MiB on communicators that were not made here; all ranks have "
                               "to make the same communicators in the same order (split, duplicate, subgroup)",
                               orphans_.limit() >> 20)));
}

// So its receiver has its memory back.
void EngineCore::decline_grant(Rank peer, const Record& record) {
  if (record.kind == RecordKind::grant && record.slot >= Transfer::first_granted_slot)
    transfer_->decline(peer, record.slot);
}

void EngineCore::on_record(Rank peer, const Record& record, std::span<const std::byte> payload) {
  std::shared_ptr<CommunicatorCore> communicator;
  {
    std::lock_guard lock(mutex_);
    const auto at = by_id_.find(record.communicator);
    if (at != by_id_.end()) communicator = at->second.lock();
    if (!communicator && (at != by_id_.end() || gone_.contains(record.communicator)))
      return decline_grant(peer, record);  // it was dropped here: nobody needs what comes for it
  }
  if (!communicator) return keep_orphan(peer, record, payload);
  within_memory(*communicator, [&] { on_record(communicator, peer, record, payload); });
}

void EngineCore::on_record(const std::shared_ptr<CommunicatorCore>& communicator, Rank peer, const Record& record,
                           std::span<const std::byte> payload) {
  const Rank member = communicator->rank_of_world(peer);
  if (record.kind == RecordKind::withdrawn) {
    if (member >= 0) heard_withdrawal(*communicator, member);
    return;
  }
  const bool of_message = record.signature.collective == static_cast<std::uint8_t>(Collective::send);
  if (member < 0 && communicator->is_subgroup())
    return decline_grant(peer, record);  // of another one of that number: their lists tell whose is wrong
  if (member < 0 || !is_possible(record, of_message))
    return suspect(
        peer, nonsense(member < 0 ? "it sent a message though it is no member" : "it sent a message of no known kind",
                       "on communicator '" + communicator->label + "'"));
  ++communicator->moves;
  communicator->heard_of(member, record.consumed);
  if (record.kind == RecordKind::entered) return;
  if (!failure_of(*communicator).ok()) {
    decline_grant(peer, record);
    if (leaving_.takes_nothing()) check_late(*communicator, member, record);
    return;
  }
  if (record.kind == RecordKind::grant && communicator->member[member].has_withdrawn)
    return decline_grant(peer, record);
  if (of_message) return on_message(*communicator, member, record, payload);
  Execution* execution = communicator->find_active(record.sequence);
  if (const Status differs = compare(*communicator, member, record); !differs.ok()) {
    decline_grant(peer, record);
    const Failure failure{ErrorCode::mismatch, peer, parts_.self, communicator->global_id(), differs.message()};
    if (!membership_check_.hold_back(*communicator, failure)) report(failure);
    return;
  }
  const CommunicatorCore::Past& past = communicator->past[record.sequence % communicator->past.size()];
  // Seen, and alike. It may even come when the operation is over: parcels overtake each other.
  if (record.kind == RecordKind::announce && past.sequence != 0 && !is_before(past.sequence, record.sequence)) {
    const Execution* called = is_next(*communicator, record.sequence) ? communicator->queued.front().get() : execution;
    const Status fits = called != nullptr ? called->check_length(member, record) : Status();
    if (!fits.ok()) refuse(*communicator, member, *called, record, fits);
    return;
  }
  if (execution == nullptr) {
    // Of one that a FlatRun is at it comes here when its sender is lost, and is used there or by who goes on.
    if (!is_next(*communicator, record.sequence) && record.sequence != communicator->flat_sequence &&
        past.sequence != 0 && past.sequence == record.sequence)
      return suspect(
          peer, nonsense("it sent a message for an operation that is over here",
                         fmt::format("in operation #{} on communicator '{}'", record.sequence, communicator->label)));
    return keep_early(*communicator, member, record, payload);
  }
  if (const Status alike = execution->check_length(member, record); !alike.ok())
    return refuse(*communicator, member, *execution, record, alike);
  if (!execution->tile_active(record.tile)) {
    if (record.tile >= execution->tiles())
      return refuse(*communicator, member, *execution, record,
                    Status(ErrorCode::transport_error,
                           fmt::format("it sent a message of part {} of {}", record.tile + 1ull, execution->tiles())));
    return keep_early(*communicator, member, record, payload);
  }
  if (record.kind == RecordKind::data) communicator->took_early(member, record.bytes, false, *transfer_);
  const Status taken = execution->on_record(member, record, payload);
  if (!taken.ok()) return refuse(*communicator, member, *execution, record, taken);
  execution->advance();
}

// Did this rank call the same, if it has called yet?
Status EngineCore::compare(const CommunicatorCore& communicator, Rank member, const Record& record) const {
  const CommunicatorCore::Past& past = communicator.past[record.sequence % communicator.past.size()];
  if (past.sequence != record.sequence || same_call(past.signature, record.signature)) return {};
  return mismatch(communicator, member, record.sequence, record.signature, past.signature);
}

// While it leaves: of a call in which this rank waited for nobody, the message of somebody else may come as late as
// that.
void EngineCore::check_late(CommunicatorCore& communicator, Rank member, const Record& record) {
  if (communicator.not_at_once.load() || record.signature.collective == static_cast<std::uint8_t>(Collective::send))
    return;
  const Status differs = compare(communicator, member, record);
  if (differs.ok()) return;
  report({ErrorCode::mismatch, communicator.members[member], parts_.self, communicator.global_id(), differs.message()});
  fail(communicator, differs);
}

void EngineCore::on_message(CommunicatorCore& communicator, Rank member, const Record& record,
                            std::span<const std::byte> payload) {
  const Status taken = communicator.messages.on_record(*this, member, record, payload);
  if (taken.ok()) return;
  decline_grant(communicator.members[member], record);
  if (taken.code() != ErrorCode::mismatch && !membership_check_.doubt(communicator, communicator.members[member]))
    suspect(communicator.members[member],
            nonsense(taken.message(), fmt::format("in message #{} to this rank on communicator '{}'", record.sequence,
                                                  communicator.label)));
}

void EngineCore::on_block(std::uint64_t cookie, Outcome outcome, std::uint32_t bytes) {
  const auto index = static_cast<std::uint16_t>(cookie >> 48);
  FABRING_CHECK(index < running_.size() && running_[index]);
  Execution& execution = *running_[index];
  ++execution.communicator()->moves;
  within_memory(*execution.communicator(), [&] {
    execution.on_block(static_cast<std::uint32_t>(cookie >> 32) & 0xffff, static_cast<StepId>(cookie), outcome, bytes);
    execution.advance();  // forward what was just reduced while it is in the cache
  });
}

void EngineCore::on_lent(std::uint64_t cookie, std::span<const std::byte> message, std::uint32_t loan) {
  const auto index = static_cast<std::uint16_t>(cookie >> 48);
  FABRING_CHECK(index < running_.size() && running_[index]);
  Execution& execution = *running_[index];
  ++execution.communicator()->moves;
  // It is in nobody's cache: what others wait for comes first, and progress() goes on.
  within_memory(*execution.communicator(), [&] {
    execution.on_lent(static_cast<std::uint32_t>(cookie >> 32) & 0xffff, static_cast<StepId>(cookie), message, loan);
  });
}

void EngineCore::on_ticket(std::uint64_t cookie, std::span<const std::byte> ticket, std::uint32_t loan) {
  const auto index = static_cast<std::uint16_t>(cookie >> 48);
  FABRING_CHECK(index < running_.size() && running_[index]);
  Execution& execution = *running_[index];
  ++execution.communicator()->moves;
  within_memory(*execution.communicator(), [&] {
    execution.on_ticket(static_cast<std::uint32_t>(cookie >> 32) & 0xffff, static_cast<StepId>(cookie), ticket, loan);
  });
}

}  // namespace fabring
