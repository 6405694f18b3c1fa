#pragma once
// How a rank waits for the others: spin, then yield the core, then sleep in the endpoint. Ranks often outnumber cores:
// spinning is right only when every rank of this node has a core of its own.

#include <chrono>
#include <cstdint>

namespace fabring {

struct WaitPolicy {
  std::uint32_t spins = 0;                      ///< empty polls before the first yield
  std::chrono::microseconds yield_for{200};     ///< then yield between polls for this long
  std::chrono::microseconds sleep_for{10'000};  ///< then sleep in the endpoint, at most this long at a time
  int home = -1;                                ///< the processor to yield on, shared with other ranks; -1: any

  /// Has every rank of this node a core of its own?
  bool own_core() const { return spins > 0; }

  /// For the progress thread where it has no core of its own: whatever it polls away, the program computes less.
  static WaitPolicy asleep() { return {0, std::chrono::microseconds(0), std::chrono::microseconds(10'000)}; }

  /// For `ranks` of this node on `cores` usable ones.
  static WaitPolicy choose(int ranks, int cores) {
    WaitPolicy policy;
    policy.spins = ranks <= cores ? 2000 : 0;
    return policy;
  }
};

}  // namespace fabring
