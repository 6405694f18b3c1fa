#include "transports/shm/inbox.hpp"

#include <cstring>

#include "runtime/base/copy_bytes.hpp"
#include "transports/shm/shared_copy.hpp"

namespace fabring::shm {
namespace {

// What is read soon had better stay in a cache; what is not need not be read into one to be written.
void place(const PostedReceive& receive, std::size_t at, const std::byte* from, std::size_t bytes) {
  receive.cold ? streaming_copy(receive.into + at, from, bytes) : copy_bytes(receive.into + at, from, bytes);
}

}  // namespace

bool Inbox::empty() const {
  return channel_->entries[entries_ % entry_count].turn.load(std::memory_order_acquire) != entries_ + 1;
}

bool Inbox::offer_landing(const PostedReceive& receive, PlaceInArena place) {
  return offer_landing(receive, place, nullptr);
}

bool Inbox::offer_landing(const PostedReceive& receive, PlaceInArena place, std::byte* halfway) {
  Offered& own = landings_[receive.slot % landing_count];
  if (own.key != 0) return false;
  own = {std::uint64_t{receive.slot} + 1, place.offset, place.shares_pages, halfway};
  Landing& landing = channel_->landings[receive.slot % landing_count];
  landing.offset = place.offset;
  landing.bytes = receive.capacity;
  landing.shares_pages = place.shares_pages ? 1 : 0;
  landing.rather = receive.borrows ? Rather::lent : halfway != nullptr ? Rather::once : Rather::here;
  landing.key.store(own.key, std::memory_order_release);
  return true;
}

void Inbox::close_landing(Slot slot) {
  Offered& own = landings_[slot % landing_count];
  if (own.halfway != nullptr) halfway_.push_back(own.halfway);
  own = {};
  channel_->landings[slot % landing_count].key.store(0, std::memory_order_relaxed);
}

std::byte* Inbox::landing_of(const PostedReceive& receive) const {
  if (!has_landing(receive.slot)) return nullptr;
  std::byte* const halfway = landings_[receive.slot % landing_count].halfway;
  return halfway != nullptr ? halfway : receive.into;
}

std::byte* Inbox::take_halfway() {
  if (halfway_.empty()) return nullptr;
  std::byte* const block = halfway_.front();
  halfway_.erase(halfway_.begin());
  return block;
}

Inbox::Taken Inbox::take(SlotTable& receives, Ledger& ledger, std::size_t most_bytes) {
  std::size_t taken = 0;
  const std::uint32_t before = entries_, bytes_before = bytes_;
  Taken result = Taken::nothing;
  while (taken < most_bytes && !empty() && (result == Taken::nothing || result == Taken::some)) {
    const Entry& entry = channel_->entries[entries_ % entry_count];
    const Seen seen{entry.kind, entry.slot, entry.bytes, entry.offset};
    ++entries_;
    PostedReceive* const receive = receives.find(seen.slot);
    const bool stays = seen.kind == EntryKind::lent && receive != nullptr && receive->borrows;
    result = receive == nullptr ? Taken::nonsense : take_entry(seen, *receive, receives, ledger);
    taken += line + (stays ? 0 : seen.bytes);
  }
  if (entries_ != before) {
    channel_->bytes_taken.store(bytes_, std::memory_order_release);
    channel_->entries_taken.store(entries_, std::memory_order_release);
    if (ends_a_quarter(before, entries_, entry_count) || ends_a_quarter(bytes_before, bytes_, staging_.bytes))
      std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in ShmEndpoint::arm()
  }
  return result;
}

Inbox::Taken Inbox::take_entry(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger) {
  const std::uint32_t bytes = entry.bytes;
  if (bytes > receive.capacity && entry.kind != EntryKind::ticket) return Taken::nonsense;
  if (within_ && (entry.slot != slot_ || (entry.kind != EntryKind::part && entry.kind != EntryKind::last)))
    return Taken::nonsense;
  const bool is_loan =
      entry.kind == EntryKind::lent || entry.kind == EntryKind::ticket || entry.kind == EntryKind::unshared;
  if (is_loan && (held_ & bit(entries_)) != 0) return Taken::nonsense;
  switch (entry.kind) {
    case EntryKind::part:
    case EntryKind::last:
      if (!within_) done_ = 0;
      slot_ = entry.slot;
      within_ = entry.kind == EntryKind::part;
      if (!take_part(receive, bytes)) return Taken::nonsense;
      if (!within_)
        over(receive, {receive.context, Outcome::done, static_cast<std::uint32_t>(done_)}, receives, ledger);
      return Taken::some;
    case EntryKind::landed:
      if (!take_landed(receive, bytes)) return Taken::nonsense;
      over(receive, {receive.context, Outcome::done, bytes}, receives, ledger);
      return Taken::some;
    case EntryKind::lent:
      return take_lent(entry, receive, receives, ledger);
    case EntryKind::ticket:
      return take_ticket(receive, entries_, bytes, receives, ledger) ? Taken::some : Taken::nonsense;
    case EntryKind::unshared:
      return take_unshared(entry, receive, receives, ledger);
  }
  return Taken::nonsense;
}

bool Inbox::take_part(const PostedReceive& receive, std::uint32_t bytes) {
  if (bytes > staging_.part() || bytes > receive.capacity - done_) return false;
  bytes_ += staging_.skip(bytes_, bytes);
  place(receive, done_, staged_ + bytes_ % staging_.bytes, bytes);
  bytes_ += Staging::length(bytes);
  done_ += bytes;
  return true;
}

bool Inbox::take_landed(const PostedReceive& receive, std::uint32_t bytes) {
  if (!has_landing(receive.slot)) return false;
  const Offered& offered = landings_[receive.slot % landing_count];
  if (offered.halfway != nullptr) place(receive, 0, offered.halfway, bytes);
  const MessageEnds ends = MessageEnds::of(offered.offset, bytes, offered.shares_pages);
  if (ends.bytes() == 0) return true;
  bytes_ += staging_.skip(bytes_, ends.bytes());
  const std::byte* const staged = staged_ + bytes_ % staging_.bytes;
  std::memcpy(receive.into, staged, ends.head);
  std::memcpy(receive.into + bytes - ends.tail, staged + ends.head, ends.tail);
  bytes_ += Staging::length(ends.bytes());
  return true;
}

// Who would not read it there copies it now.
Inbox::Taken Inbox::take_lent(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger) {
  if (entry.offset < page || entry.offset > arena_.size() || entry.bytes > arena_.size() - entry.offset)
    return Taken::nonsense;
  const std::byte* const from = arena_.data() + entry.offset;
  Completion completion{receive.context, Outcome::done, entry.bytes};
  if (receive.borrows) {
    completion.lent = from;
    completion.loan = entries_;
    held_ |= bit(entries_);
  } else {
    place(receive, 0, from, entry.bytes);
    if (!return_copied(entries_)) return Taken::taken_back;
  }
  over(receive, completion, receives, ledger);
  return Taken::some;
}

// What cannot be read comes in another way, to the same receive.
Inbox::Taken Inbox::take_unshared(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger) {
  if (!reader_.read(receive.into, entry.offset, entry.bytes)) {
    refuse(entries_);
    gave_back_ = true;
    return Taken::some;
  }
  if (!return_copied(entries_)) return Taken::taken_back;
  over(receive, {receive.context, Outcome::done, entry.bytes}, receives, ledger);
  return Taken::some;
}

bool Inbox::return_copied(std::uint32_t number) {
  gave_back_ = true;
  return give_back(number);
}

bool Inbox::take_ticket(PostedReceive& receive, std::uint32_t number, std::uint32_t bytes, SlotTable& receives,
                        Ledger& ledger) {
  if (!receive.takes_ticket || bytes == 0 || bytes > Endpoint::most_ticket_bytes) return false;
  bytes_ += staging_.skip(bytes_, bytes);
  const std::byte* const staged = staged_ + bytes_ % staging_.bytes;
  auto& ticket = tickets_[number % loan_count];
  ticket.assign(staged, staged + bytes);
  held_ |= bit(number);
  bytes_ += Staging::length(bytes);
  over(receive, {receive.context, Outcome::done, bytes, ticket.data(), number, true}, receives, ledger);
  return true;
}

void Inbox::refuse(std::uint32_t loan) {
  held_ &= ~bit(loan);
  channel_->refused[loan % loan_count].store(loan, std::memory_order_relaxed);
  channel_->returned[loan % loan_count].store(loan, std::memory_order_release);
}

// Pairs with the fence in Outbox::withdraw(): if a byte was read that was written after it, this sees that.
bool Inbox::give_back(std::uint32_t loan) {
  std::atomic_thread_fence(std::memory_order_acquire);
  held_ &= ~bit(loan);
  const bool valid = channel_->withdrawn.load(std::memory_order_relaxed) == 0;
  channel_->returned[loan % loan_count].store(loan, std::memory_order_release);
  return valid;
}

void Inbox::over(PostedReceive& receive, Completion completion, SlotTable& receives, Ledger& ledger) {
  const Slot slot = receive.slot;
  if (has_landing(slot)) close_landing(slot);
  ledger.complete(completion);
  ledger.counters.bytes_received += completion.bytes;
  ++ledger.counters.messages_received;
  receives.erase(slot);
}

}  // namespace fabring::shm
