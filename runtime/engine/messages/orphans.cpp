#include "runtime/engine/messages/orphans.hpp"

#include <algorithm>
#include <utility>

namespace fabring {
namespace {

bool can_be_declined(const Record& record) {
  return record.kind == RecordKind::grant && record.slot >= Transfer::first_granted_slot;
}

bool are_of_one_operation(const Record& one, const Record& other) {
  return one.communicator == other.communicator && one.sequence == other.sequence;
}

}  // namespace

void Orphans::withdraw(Rank peer, const Record& withdrawn, std::vector<Slot>& to_decline) {
  std::erase_if(kept_, [&](const Orphan& orphan) {
    if (orphan.peer != peer || !can_be_declined(orphan.record) || !are_of_one_operation(orphan.record, withdrawn))
      return false;
    to_decline.push_back(orphan.record.slot);
    bytes_[static_cast<std::size_t>(peer)] -= sizeof(Orphan) + orphan.payload.size();
    return true;
  });
}

bool Orphans::is_withdrawn(Rank peer, const Record& grant) const {
  return can_be_declined(grant) && std::ranges::any_of(kept_, [&](const Orphan& orphan) {
           return orphan.peer == peer && orphan.record.kind == RecordKind::withdrawn &&
                  are_of_one_operation(orphan.record, grant);
         });
}

Orphans::Answer Orphans::take(Rank peer, const Record& record, std::vector<std::byte> payload) {
  Answer answer;
  if (record.kind == RecordKind::withdrawn) withdraw(peer, record, answer.to_decline);
  if (is_withdrawn(peer, record)) {
    answer.to_decline.push_back(record.slot);
    return answer;
  }
  std::size_t& bytes = bytes_[static_cast<std::size_t>(peer)];
  const std::size_t added = sizeof(Orphan) + payload.size();
  if (added > limit_ - bytes) {
    answer.too_much = true;
    return answer;
  }
  bytes += added;
  kept_.push_back({peer, record, std::move(payload)});
  return answer;
}

std::vector<Orphans::Orphan> Orphans::release() {
  if (!wanted_.exchange(false, std::memory_order_acquire)) return {};
  std::ranges::fill(bytes_, std::size_t{0});
  return std::exchange(kept_, {});
}

}  // namespace fabring
