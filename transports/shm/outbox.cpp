#include "transports/shm/outbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fabring::shm {
bool Outbox::entry_free() const {
  // Nonsense from the peer reads as "full": it harms nobody else.
  return entries_ - channel_->entries_taken.load(std::memory_order_acquire) < entry_count;
}

void Outbox::publish(EntryKind kind, Slot slot, std::size_t bytes, std::uint64_t offset) {
  Entry& entry = channel_->entries[entries_ % entry_count];
  entry.kind = kind;
  entry.slot = slot;
  entry.bytes = static_cast<std::uint32_t>(bytes);
  entry.offset = offset;
  ++entries_;
  entry.turn.store(entries_, std::memory_order_release);
}

std::optional<Outbox::Target> Outbox::landing(Slot slot, std::size_t bytes) const {
  const Landing& landing = channel_->landings[slot % landing_count];
  if (landing.key.load(std::memory_order_acquire) != std::uint64_t{slot} + 1) return {};
  const Target target{landing.offset, landing.shares_pages != 0, landing.rather};
  if (target.offset < page || target.offset > arena_.size() || bytes > arena_.size() - target.offset ||
      bytes > landing.bytes)
    return {};
  return target;
}

// A place in the staging ring; null: no room now.
std::byte* Outbox::stage(std::uint32_t bytes) {
  const std::uint32_t skip = staging_.skip(bytes_, bytes), length = Staging::length(bytes);
  const std::uint32_t used = bytes_ + skip + length - channel_->bytes_taken.load(std::memory_order_acquire);
  if (used > staging_.bytes) return nullptr;
  std::byte* const place = staged_ + (bytes_ + skip) % staging_.bytes;
  bytes_ += skip + length;
  return place;
}

// The number of a loan is that of its entry; as many later ones as there are loans may be out at once.
bool Outbox::may_lend() const {
  const std::uint32_t number = entries_ + 1;
  return (lent_ & std::uint64_t{1} << number % loan_count) == 0 && number != 0;  // 0 is what none has
}

void Outbox::note_loan(EntryKind kind, const Outgoing& message, std::size_t bytes) {
  const std::uint32_t number = entries_ + 1;
  loans_[number % loan_count] = {number, kind, message, bytes};
  lent_ |= std::uint64_t{1} << number % loan_count;
}

bool Outbox::lend(EntryKind kind, const Outgoing& message, std::uint64_t offset) {
  if (!may_lend()) return false;
  note_loan(kind, message, message.from.size());
  publish(kind, message.slot, message.from.size(), offset);
  return true;
}

// What is neither shared nor has a place there where the peer reads it, or writes on.
bool Outbox::is_read_where_it_is(const Outgoing& message, const std::optional<Target>& there) const {
  return message.readable && message.from.size() >= least_unshared && !message.offset &&
         (!there || there->rather == Rather::once) && channel_->reads_unshared.load(std::memory_order_relaxed) != 0;
}

bool Outbox::put_ticket(Slot slot, std::span<const std::byte> ticket, std::uint64_t context) {
  if (!entry_free() || !may_lend()) return false;
  std::byte* const staged = stage(static_cast<std::uint32_t>(ticket.size()));
  if (staged == nullptr) return false;
  std::memcpy(staged, ticket.data(), ticket.size());
  note_loan(EntryKind::ticket, {.slot = slot, .from = {}, .context = context}, ticket.size());
  publish(EntryKind::ticket, slot, ticket.size());
  return true;
}

bool Outbox::has_landing_for(Slot slot, std::size_t bytes, bool lendable) const {
  const auto there = landing(slot, bytes);
  return there && !(lendable && there->rather != Rather::here);
}

// The ends of a message that shares pages travel through the staging ring, when it is put (land()).
void Outbox::write_to_landing(Slot slot, std::span<const std::byte> message, std::size_t begin, std::size_t end) {
  const auto there = landing(slot, message.size());
  if (!there) return;  // nonsense, since it was there; what comes of it harms the peer only
  const MessageEnds ends = MessageEnds::of(there->offset, message.size(), there->shares_pages);
  begin = std::max<std::size_t>(begin, ends.head);
  end = std::min(end, message.size() - ends.tail);
  if (begin < end) copies_ahead_.copy(arena_.data() + there->offset + begin, message.data() + begin, end - begin);
}

bool Outbox::land(const Outgoing& message, const Target& target) {
  const std::size_t bytes = message.from.size();
  const MessageEnds ends = MessageEnds::of(target.offset, bytes, target.shares_pages);
  if (ends.bytes() > 0) {
    std::byte* const staged = stage(ends.bytes());
    if (staged == nullptr) return false;
    std::memcpy(staged, message.from.data(), ends.head);
    std::memcpy(staged + ends.head, message.from.data() + bytes - ends.tail, ends.tail);
  }
  const std::size_t inner = bytes - ends.bytes();
  if (!message.written) copies_.copy(arena_.data() + target.offset + ends.head, message.from.data() + ends.head, inner);
  publish(EntryKind::landed, message.slot, bytes);
  return true;
}

Outbox::Put Outbox::put(Outgoing& message) {
  const std::size_t bytes = message.from.size();
  if (message.done == 0 && bytes > 0) {
    const auto there = landing(message.slot, bytes);
    if ((there || message.offset) && !entry_free()) return Put::no_room;
    if (message.offset && (!there || there->rather != Rather::here) && lend(EntryKind::lent, message, *message.offset))
      return Put::lent;
    if (entry_free() && is_read_where_it_is(message, there) &&
        lend(EntryKind::unshared, message, reinterpret_cast<std::uint64_t>(message.from.data())))
      return Put::lent;
    if (there) return land(message, *there) ? Put::all : Put::no_room;
  }
  bool some = false;
  do {
    const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(staging_.part(), bytes - message.done));
    std::byte* const staged = entry_free() ? stage(part) : nullptr;
    if (staged == nullptr) return some ? Put::some : Put::no_room;
    copies_.copy(staged, message.from.data() + message.done, part);
    message.done += part;
    publish(message.done == bytes ? EntryKind::last : EntryKind::part, message.slot, part);
    some = true;
  } while (message.done < bytes);
  return Put::all;
}

bool Outbox::has_room() const {
  const std::uint32_t most = std::max(2 * staging_.part(), 2 * MessageEnds::most_bytes);
  return entry_free() && bytes_ - channel_->bytes_taken.load(std::memory_order_acquire) <= staging_.bytes - most;
}

bool Outbox::something_is_back() const {
  for (std::uint64_t left = lent_; left != 0; left &= left - 1)
    if (is_back(static_cast<std::size_t>(std::countr_zero(left)))) return true;
  return false;
}

}  // namespace fabring::shm
