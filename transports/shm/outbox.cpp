#include "transports/shm/outbox.hpp"

#include <algorithm>
#include <cstring>

namespace fabring::shm {

bool Outbox::entry_free() const {
  // Nonsense from the peer reads as "full": it harms nobody else.
  return entries_ - channel_->entries_taken.load(std::memory_order_acquire) < entry_count;
}

void Outbox::publish(EntryKind kind, Slot slot, std::size_t bytes) {
  Entry& entry = channel_->entries[entries_ % entry_count];
  entry.kind = kind;
  entry.slot = slot;
  entry.bytes = static_cast<std::uint32_t>(bytes);
  ++entries_;
  entry.turn.store(entries_, std::memory_order_release);
}

std::byte* Outbox::landing(Slot slot, std::size_t bytes) const {
  const Landing& landing = channel_->landings[slot % landing_count];
  if (landing.key.load(std::memory_order_acquire) != std::uint64_t{slot} + 1) return nullptr;
  const std::uint64_t offset = landing.offset;
  if (offset < page || offset > arena_.size() || bytes > arena_.size() - offset || bytes > landing.bytes)
    return nullptr;
  return arena_.data() + offset;
}

bool Outbox::put(Outgoing& message) {
  const std::size_t bytes = message.from.size();
  if (message.done == 0 && bytes > 0) {
    if (std::byte* const there = landing(message.slot, bytes)) {
      if (!entry_free()) return false;
      std::memcpy(there, message.from.data(), bytes);
      publish(EntryKind::landed, message.slot, bytes);
      return true;
    }
  }
  do {
    const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(staging_.part(), bytes - message.done));
    const std::uint32_t skip = staging_.skip(bytes_, part), length = Staging::length(part);
    const std::uint32_t used = bytes_ + skip + length - channel_->bytes_taken.load(std::memory_order_acquire);
    if (used > staging_.bytes || !entry_free()) return false;
    if (part > 0) std::memcpy(staged_ + (bytes_ + skip) % staging_.bytes, message.from.data() + message.done, part);
    bytes_ += skip + length;
    message.done += part;
    publish(message.done == bytes ? EntryKind::last : EntryKind::part, message.slot, part);
  } while (message.done < bytes);
  return true;
}

bool Outbox::has_room() const {
  return entry_free() &&
         bytes_ - channel_->bytes_taken.load(std::memory_order_acquire) <= staging_.bytes - 2 * staging_.part();
}

}  // namespace fabring::shm
