#pragma once
// Outbox: the sending end of a channel. Copies messages into the peer's landings or into the staging ring, or lends
// them where they are, in shared memory or not.

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <span>

#include "transports/shm/common_copies.hpp"
#include "transports/shm/layout.hpp"
#include "transports/shm/shared_copy.hpp"

namespace fabring::shm {

struct Outgoing {
  Slot slot = 0;
  std::span<const std::byte> from;
  std::uint64_t context = 0;
  std::optional<std::uint64_t> offset = {};     ///< in this rank's arena, of what may be lent
  std::size_t done = 0;                         ///< bytes of it that are in the channel
  bool written = false;                         ///< it is in its landing, by write_to_landing()
  std::shared_ptr<const CommonCopy> copy = {};  ///< what lies at `offset` instead of `from`
  bool readable = false;                        ///< the peer may read it where it is: Endpoint::post_readable_send()
};

class Outbox {
 public:
  enum class Put : std::uint8_t { no_room, some, all, lent };

  Outbox(const Pair& pair, bool upwards, std::span<std::byte> peers_arena)
      : channel_(&pair.channel(upwards)), staged_(pair.staged(upwards)), staging_(pair.staging), arena_(peers_arena) {}

  /// Puts in as much as there is room for. `lent`: it is on its way, but its bytes must stay as they are until it has
  /// been given back.
  Put put(Outgoing& message);
  /// Would put() write the message to its landing, and not lend it?
  bool has_landing_for(Slot slot, std::size_t bytes, bool lendable) const;
  /// Does so before, with bytes [begin, end) of it.
  void write_to_landing(Slot slot, std::span<const std::byte> message, std::size_t begin, std::size_t end);
  /// Lends what the ticket speaks of. False: no room now.
  bool put_ticket(Slot slot, std::span<const std::byte> ticket, std::uint64_t context);
  /// Whether put() may now go on with a message that did not fit.
  bool has_room() const;
  void wait_for_room(bool waits) { channel_->waits_for_room.store(waits, std::memory_order_relaxed); }
  void finish() { channel_->finished.store(1, std::memory_order_release); }

  bool lends() const { return lent_ != 0; }
  /// The last message that was put, of memory that is shared.
  bool last_was_lent() const {
    const Loan& last = loans_[entries_ % loan_count];
    return entries_ != 0 && last.number == entries_ && last.kind != EntryKind::unshared;
  }
  /// Something that was lent has come back.
  bool something_is_back() const;
  enum class Back : std::uint8_t {
    read,
    refused,  ///< a ticket
    unread,   ///< the message must be put once more
  };
  /// visit(message, bytes, how) for each loan that has. False: one was refused that can be read for sure, which no rank
  /// does.
  template <class Visit>
  [[nodiscard]] bool take_back(Visit visit) {
    for (std::uint64_t left = lent_; left != 0; left &= left - 1) {
      const auto index = static_cast<std::size_t>(std::countr_zero(left));
      if (!is_back(index)) continue;
      Loan& loan = loans_[index];
      if (was_refused(index) && loan.kind == EntryKind::lent) return false;
      lent_ &= ~(std::uint64_t{1} << index);
      loan.message.copy.reset();
      const bool unread = was_refused(index) && loan.kind == EntryKind::unshared;
      if (unread) loan.message.readable = false;
      visit(loan.message, loan.bytes, !was_refused(index) ? Back::read : unread ? Back::unread : Back::refused);
    }
    return true;
  }
  /// All of them end now: who still reads them will know that what it read may be anything.
  template <class Visit>
  void withdraw(Visit visit) {
    if (lent_ == 0) return;
    channel_->withdrawn.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before the bytes change; pairs with Inbox::give_back()
    for (; lent_ != 0; lent_ &= lent_ - 1) {
      Loan& loan = loans_[static_cast<std::size_t>(std::countr_zero(lent_))];
      loan.message.copy.reset();
      visit(loan.message.context);
    }
  }

 private:
  struct Loan {
    std::uint32_t number = 0;
    EntryKind kind = EntryKind::lent;
    Outgoing message = {};
    std::size_t bytes = 0;
  };
  static_assert(loan_count == 64, "lent_ has a bit for each");

  /// What the peer says of its receive, read once and checked.
  struct Target {
    std::uint64_t offset = 0;
    bool shares_pages = false;
    Rather rather = Rather::here;
  };
  std::optional<Target> landing(Slot slot, std::size_t bytes) const;
  bool may_lend() const;
  void note_loan(EntryKind kind, const Outgoing& message, std::size_t bytes);
  bool lend(EntryKind kind, const Outgoing& message, std::uint64_t offset);
  bool is_read_where_it_is(const Outgoing& message, const std::optional<Target>& there) const;
  bool land(const Outgoing& message, const Target& target);
  std::byte* stage(std::uint32_t bytes);
  bool entry_free() const;
  bool is_back(std::size_t index) const {
    return channel_->returned[index].load(std::memory_order_acquire) == loans_[index].number;
  }
  bool was_refused(std::size_t index) const {
    return channel_->refused[index].load(std::memory_order_relaxed) == loans_[index].number;
  }
  void publish(EntryKind kind, Slot slot, std::size_t bytes, std::uint64_t offset = 0);

  Channel* channel_;
  std::byte* staged_;
  Staging staging_;
  std::span<std::byte> arena_;
  SharedCopy copies_;
  SharedCopy copies_ahead_;    // of what is in this rank's cache: by another measure
  std::uint32_t entries_ = 0;  // published
  std::uint32_t bytes_ = 0;    // of the staging ring used, in all
  std::array<Loan, loan_count> loans_{};
  std::uint64_t lent_ = 0;  // which of them
};

}  // namespace fabring::shm
