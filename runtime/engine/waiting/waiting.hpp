#pragma once
// How a rank waits for the others: spin, then yield the core, then sleep in the endpoint. Ranks often outnumber cores:
// spinning is right only when every rank of this node has a core of its own.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace fabring {

struct WaitPolicy {
  std::uint32_t spins = 0;                      ///< empty polls before the first yield
  std::chrono::microseconds yield_for{200};     ///< then yield between polls for this long
  std::chrono::microseconds sleep_for{10'000};  ///< then sleep in the endpoint, at most this long at a time
  std::chrono::microseconds lost_core{2'000};   ///< a yield that takes so long: somebody keeps the core
  int home = -1;                                ///< the processor to yield on, shared with other ranks; -1: any

  /// Where others take its core: empty polls, then how long it polls on before it sleeps, if it should have a core of
  /// its own. A peer that is just answering takes so long; longer would be held against it when something comes.
  static constexpr std::uint32_t contended_spins = 32;
  static constexpr std::chrono::microseconds contended_for{20};

  /// Empty polls before the next step.
  std::uint32_t spins_if(bool contended) const { return contended ? std::min(spins, contended_spins) : spins; }

  /// Has every rank of this node a core of its own?
  bool own_core() const { return spins > 0; }

  /// For the progress thread where it has no core of its own: whatever it polls away, the program computes less.
  static WaitPolicy asleep() { return {0, std::chrono::microseconds(0), std::chrono::microseconds(10'000)}; }

  /// For `ranks` of this node on `cores` usable ones.
  static WaitPolicy choose(int ranks, int cores) {
    WaitPolicy policy;
    policy.spins = ranks <= cores ? 2000 : 0;
    // The kernel lets a program go on for 2 to 4 ms; other ranks of the core may have a moment's work each.
    const int others = cores > 0 ? (ranks + cores - 1) / cores - 1 : 0;
    policy.lost_core *= std::max(others, 1);
    return policy;
  }
};

}  // namespace fabring
