#include "transports/shm/inbox.hpp"

#include <cstring>

namespace fabring::shm {

bool Inbox::empty() const {
  return channel_->entries[entries_ % entry_count].turn.load(std::memory_order_acquire) != entries_ + 1;
}

bool Inbox::offer_landing(Slot slot, std::uint64_t offset, std::size_t bytes) {
  std::uint64_t& own = landing_of_[slot % landing_count];
  if (own != 0) return false;
  own = std::uint64_t{slot} + 1;
  Landing& landing = channel_->landings[slot % landing_count];
  landing.offset = offset;
  landing.bytes = bytes;
  landing.key.store(own, std::memory_order_release);
  return true;
}

void Inbox::close_landing(Slot slot) {
  landing_of_[slot % landing_count] = 0;
  channel_->landings[slot % landing_count].key.store(0, std::memory_order_relaxed);
}

Inbox::Taken Inbox::take(SlotTable& receives, Ledger& ledger, std::size_t most_bytes) {
  std::size_t taken = 0;
  const std::uint32_t before = entries_;
  Taken result = Taken::nothing;
  while (taken < most_bytes && !empty() && result != Taken::nonsense) {
    const Entry& entry = channel_->entries[entries_ % entry_count];
    const EntryKind kind = entry.kind;
    const Slot slot = entry.slot;
    const std::uint32_t bytes = entry.bytes;
    ++entries_;
    PostedReceive* const receive = receives.find(slot);
    result = Taken::nonsense;
    if (receive == nullptr || (within_ && slot != slot_)) break;
    if (kind == EntryKind::landed) {
      if (within_ || !has_landing(slot) || bytes > receive->capacity) break;
      over(*receive, bytes, receives, ledger);
    } else if (kind == EntryKind::part || kind == EntryKind::last) {
      if (!within_) done_ = 0;
      slot_ = slot;
      within_ = kind == EntryKind::part;
      if (!take_part(*receive, bytes)) break;
      if (!within_) over(*receive, done_, receives, ledger);
    } else {
      break;
    }
    result = Taken::some;
    taken += bytes + line;
  }
  if (entries_ != before) {
    channel_->bytes_taken.store(bytes_, std::memory_order_release);
    channel_->entries_taken.store(entries_, std::memory_order_release);
  }
  return result;
}

bool Inbox::take_part(const PostedReceive& receive, std::uint32_t bytes) {
  if (bytes > staging_.part() || bytes > receive.capacity - done_) return false;
  bytes_ += staging_.skip(bytes_, bytes);
  if (bytes > 0) std::memcpy(receive.into + done_, staged_ + bytes_ % staging_.bytes, bytes);
  bytes_ += Staging::length(bytes);
  done_ += bytes;
  return true;
}

void Inbox::over(PostedReceive& receive, std::size_t bytes, SlotTable& receives, Ledger& ledger) {
  const Slot slot = receive.slot;
  if (has_landing(slot)) close_landing(slot);
  ledger.complete(receive.context, Outcome::done, bytes);
  ledger.counters.bytes_received += bytes;
  ++ledger.counters.messages_received;
  receives.erase(slot);
}

}  // namespace fabring::shm
