#pragma once
// Patience: how long a rank waits for what comes soon before it would sleep.

#include <chrono>
#include <cstdint>

#include "runtime/base/pause_core.hpp"
#include "runtime/engine/waiting/waiting.hpp"
#include "runtime/engine/waiting/yield_core.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

/// It spins, then yields, after which something may have come that `transfer` has not looked for yet.
class Patience {
 public:
  Patience(const WaitPolicy& waiting, Transfer& transfer) : waiting_(waiting), transfer_(transfer) {}
  /// How often to look at one line of memory before again().
  std::uint32_t looks() const { return idle_ == 0 && waiting_.spins > 0 ? looks_at_full_speed : 1; }
  /// False once it is over.
  bool again() {
    if (++idle_ == 1) contended_ = core_is_contended();
    if (contended_ && idle_ > waiting_.spins_if(contended_)) return false;
    if (idle_ <= waiting_.spins) {
      if (idle_ > spins_at_full_speed) pause_core();
      return true;
    }
    const std::uint32_t yields = idle_ - waiting_.spins;
    if (yields == 1) since_ = now_ = std::chrono::steady_clock::now();
    if (yields % yields_per_look == 1 && now_ - since_ >= waiting_.yield_for) return false;
    yield_core(waiting_, now_);
    contended_ = core_is_contended();
    transfer_.next_turn();
    return true;
  }

 private:
  static constexpr std::uint32_t yields_per_look = 16;  // at its patience
  static constexpr std::uint32_t spins_at_full_speed = 64;
  static constexpr std::uint32_t looks_at_full_speed = 1024;

  const WaitPolicy& waiting_;
  Transfer& transfer_;
  std::uint32_t idle_ = 0;
  bool contended_ = false;
  std::chrono::steady_clock::time_point since_, now_;
};

}  // namespace fabring
