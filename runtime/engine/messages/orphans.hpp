#pragma once
// Orphans: what other ranks have sent for communicators that this rank has not made yet, as a split may be complete
// there and not here. It is kept as it came until a communicator has been made. A grant that is withdrawn meanwhile, or
// was before it came (parcels overtake each other), is to be declined at once: its communicator may never be made here,
// as lists of a subgroup differ or a split failed, and its maker would wait for its memory in vain.
//
// The driver's, but for look_again() and is_wanted().

#include <atomic>
#include <cstddef>
#include <vector>

#include "runtime/transfer/transfer.hpp"

namespace fabring {

class Orphans {
 public:
  struct Orphan {
    Rank peer = 0;
    Record record;
    std::vector<std::byte> payload;
  };
  struct Answer {
    std::vector<Slot> to_decline = {};  ///< of grants of this peer
    bool too_much = false;              ///< what came was not kept
  };
  /// Of one rank. How many records that may be depends on how many communicators it has made.
  static constexpr std::size_t usual_limit = std::size_t{256} << 20;

  explicit Orphans(int world_size, std::size_t limit = usual_limit)
      : limit_(limit), bytes_(static_cast<std::size_t>(world_size)) {}

  std::size_t limit() const { return limit_; }
  Answer take(Rank peer, const Record& record, std::vector<std::byte> payload);

  /// Any thread: a communicator was made.
  void look_again() { wanted_.store(true, std::memory_order_release); }
  /// Any thread: one was, since the last release().
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }
  /// If so, all that is kept, in the order in which it came.
  std::vector<Orphan> release();

 private:
  void withdraw(Rank peer, const Record& withdrawn, std::vector<Slot>& to_decline);
  bool is_withdrawn(Rank peer, const Record& grant) const;

  const std::size_t limit_;
  std::vector<Orphan> kept_;
  std::vector<std::size_t> bytes_;  // by world rank
  std::atomic<bool> wanted_{false};
};

}  // namespace fabring
