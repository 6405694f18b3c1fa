#pragma once
// Inbox: the receiving end of a channel. Takes entries in the order sent and checks all that they say.

#include "transports/ledger.hpp"
#include "transports/shm/layout.hpp"
#include "transports/slot_table.hpp"

namespace fabring::shm {

class Inbox {
 public:
  enum class Taken : std::uint8_t { nothing, some, nonsense };

  Inbox(const Pair& pair, bool upwards)
      : channel_(&pair.channel(upwards)), staged_(pair.staged(upwards)), staging_(pair.staging) {}

  bool empty() const;
  /// Takes what is there, about `most_bytes` of it. After `nonsense` the channel must not be read any more.
  Taken take(SlotTable& receives, Ledger& ledger, std::size_t most_bytes);
  /// The sender waits until something has been taken.
  bool sender_waits() const { return channel_->waits_for_room.load(std::memory_order_relaxed) != 0; }
  /// The sender said that nothing follows.
  bool finished() const { return channel_->finished.load(std::memory_order_acquire) != 0; }

  /// The sender may write to `offset` of this rank's arena for this slot. False: no landing is free for it.
  bool offer_landing(Slot slot, std::uint64_t offset, std::size_t bytes);
  bool has_landing(Slot slot) const { return landing_of_[slot % landing_count] == std::uint64_t{slot} + 1; }

 private:
  bool take_part(const PostedReceive& receive, std::uint32_t bytes);
  void over(PostedReceive& receive, std::size_t bytes, SlotTable& receives, Ledger& ledger);
  void close_landing(Slot slot);

  Channel* channel_;
  const std::byte* staged_;
  Staging staging_;
  std::uint32_t entries_ = 0;  // taken
  std::uint32_t bytes_ = 0;
  bool within_ = false;  // a message of which parts are still to come
  Slot slot_ = 0;        // that message's
  std::size_t done_ = 0;
  std::array<std::uint64_t, landing_count> landing_of_{};  // our own copy of the keys
};

}  // namespace fabring::shm
