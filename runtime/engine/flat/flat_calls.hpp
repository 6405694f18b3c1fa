#pragma once
// FlatCalls: what an engine keeps of the operations that are run at once in their callers' threads: how many there
// were, when to look meanwhile at what else there is to do, and whether one follows the last. Each small operation
// passes here. The driver's, except where marked.

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/clock.hpp"

namespace fabring {

class FlatCalls {
 public:
  /// One more, run so or over as soon as it has begun. True now and then: it is to be looked at what else there is.
  bool count() { return ++counted_ % calls_per_look == 0; }
  /// Where an endpoint is looked at once a turn: may the program have computed since the last one?
  bool begins_a_turn(Time now) const { return now - looked_at_ > one_turn; }
  void looked(Time now) { looked_at_ = now; }

  /// It was run so from beginning to end.
  void ran() { ran_.store(ran_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// How many were. Any thread.
  std::uint64_t ran_so_far() const { return ran_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t calls_per_look = 128;
  static constexpr Time one_turn = std::chrono::microseconds(20);  // between two of them

  std::uint32_t counted_ = 0;
  Time looked_at_{};
  std::atomic<std::uint64_t> ran_{0};
};

}  // namespace fabring
