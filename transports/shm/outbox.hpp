#pragma once
// Outbox: the sending end of a channel. Copies messages into the peer's landings or into the staging ring.

#include <span>

#include "transports/shm/layout.hpp"

namespace fabring::shm {

struct Outgoing {
  Slot slot = 0;
  std::span<const std::byte> from;
  std::uint64_t context = 0;
  std::size_t done = 0;  ///< bytes of it that are in the channel
};

class Outbox {
 public:
  Outbox(const Pair& pair, bool upwards, std::span<std::byte> peers_arena)
      : channel_(&pair.channel(upwards)), staged_(pair.staged(upwards)), staging_(pair.staging), arena_(peers_arena) {}

  /// Puts in as much as there is room for; true when that was the rest of it.
  bool put(Outgoing& message);
  /// Whether put() may now go on with a message that did not fit.
  bool has_room() const;
  void wait_for_room(bool waits) { channel_->waits_for_room.store(waits, std::memory_order_relaxed); }
  void finish() { channel_->finished.store(1, std::memory_order_release); }

 private:
  std::byte* landing(Slot slot, std::size_t bytes) const;
  bool entry_free() const;
  void publish(EntryKind kind, Slot slot, std::size_t bytes);

  Channel* channel_;
  std::byte* staged_;
  Staging staging_;
  std::span<std::byte> arena_;
  std::uint32_t entries_ = 0;  // published
  std::uint32_t bytes_ = 0;    // of the staging ring used, in all
};

}  // namespace fabring::shm
