#pragma once
// Inbox: the receiving end of a channel. Takes entries in the order sent and checks all that they say.

#include <array>
#include <utility>
#include <vector>

#include "transports/ledger.hpp"
#include "transports/shm/layout.hpp"
#include "transports/shm/process_reader.hpp"
#include "transports/slot_table.hpp"

namespace fabring::shm {

class Inbox {
 public:
  enum class Taken : std::uint8_t {
    nothing,
    some,
    nonsense,
    taken_back,  ///< what was lent, while it was read: it may be anything
  };

  Inbox(const Pair& pair, bool upwards, std::span<const std::byte> peers_arena, ProcessReader& reader)
      : channel_(&pair.channel(upwards)),
        staged_(pair.staged(upwards)),
        staging_(pair.staging),
        arena_(peers_arena),
        reader_(reader) {}

  bool empty() const;
  /// Takes what is there, about `most_bytes` of it. After `nonsense` and `taken_back` the channel must not be read any
  /// more.
  Taken take(SlotTable& receives, Ledger& ledger, std::size_t most_bytes);
  /// The sender waits until something has been taken, or is back.
  bool sender_waits() {
    return std::exchange(gave_back_, false) || channel_->waits_for_room.load(std::memory_order_relaxed) != 0;
  }
  /// The sender said that nothing follows.
  bool finished() const { return channel_->finished.load(std::memory_order_acquire) != 0; }

  /// The sender may write to `offset` of this rank's arena for this slot. False: no landing is free for it.
  bool offer_landing(const PostedReceive& receive, PlaceInArena place);
  /// The same with a block of this rank's arena from which the message is copied to where it belongs.
  bool offer_landing(const PostedReceive& receive, PlaceInArena place, std::byte* halfway);
  bool has_landing(Slot slot) const { return landings_[slot % landing_count].key == std::uint64_t{slot} + 1; }

  /// Where its sender may write just now, if anywhere: the receive's own memory or the block halfway.
  std::byte* landing_of(const PostedReceive& receive) const;
  /// A block halfway that no message is to come to any more; null if there is none.
  std::byte* take_halfway();
  void keep_halfway(std::byte* block) { halfway_.push_back(block); }

  /// A loan has been read. False: the sender took it back before, and what was read may be anything.
  bool give_back(std::uint32_t loan);
  /// A ticket cannot be used.
  void refuse(std::uint32_t loan);

 private:
  // Our own copy of what was offered: what lies in the channel the peer can change.
  struct Offered {
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    bool shares_pages = false;
    std::byte* halfway = nullptr;
  };

  /// An entry, of which only a copy is looked at.
  struct Seen {
    EntryKind kind;
    Slot slot;
    std::uint32_t bytes;
    std::uint64_t offset;
  };
  Taken take_entry(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger);
  bool take_part(const PostedReceive& receive, std::uint32_t bytes);
  bool take_landed(const PostedReceive& receive, std::uint32_t bytes);
  Taken take_lent(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger);
  Taken take_unshared(const Seen& entry, PostedReceive& receive, SlotTable& receives, Ledger& ledger);
  bool take_ticket(PostedReceive& receive, std::uint32_t number, std::uint32_t bytes, SlotTable& receives,
                   Ledger& ledger);
  bool return_copied(std::uint32_t number);
  static std::uint64_t bit(std::uint32_t loan) { return std::uint64_t{1} << loan % loan_count; }
  void over(PostedReceive& receive, Completion completion, SlotTable& receives, Ledger& ledger);
  void close_landing(Slot slot);

  Channel* channel_;
  const std::byte* staged_;
  Staging staging_;
  std::span<const std::byte> arena_;
  ProcessReader& reader_;
  std::uint32_t entries_ = 0;  // taken
  std::uint32_t bytes_ = 0;
  bool gave_back_ = false;  // what was lent, since the last sender_waits()
  bool within_ = false;     // a message of which parts are still to come
  Slot slot_ = 0;           // that message's
  std::size_t done_ = 0;
  std::array<Offered, landing_count> landings_{};
  std::vector<std::byte*> halfway_;  // not in use
  /// A bit for each loan that this side has and has not given back, by its number. No sender that keeps the rules lends
  /// another one of the same bit meanwhile: what a completion points to would change under its reader.
  std::uint64_t held_ = 0;
  static_assert(loan_count <= 64);
  std::array<std::vector<std::byte>, loan_count> tickets_;  // of those that are held
};

}  // namespace fabring::shm
