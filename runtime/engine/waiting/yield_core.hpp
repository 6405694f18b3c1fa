#pragma once
// How a rank that waits lets others have its core, and leaves it to them if it should have one of its own.

#include <chrono>

#include "runtime/engine/waiting/waiting.hpp"

namespace fabring {

/// Lets others of this core run. Where ranks share cores, on the one that is this rank's (WaitPolicy::home): the kernel
/// leaves ranks that yield to each other where they happen to be, and may have moved this one. Where every rank of the
/// node has a core of its own and somebody ran on this one for long all the same, it looks for another: two ranks that
/// yield to each other on one core have a hundredth of their speed, and the scheduler leaves them there beside an idle
/// one for 10 to 150 ms. `now`: before, and then after.
void yield_core(const WaitPolicy& waiting, std::chrono::steady_clock::time_point& now);
inline void yield_core(const WaitPolicy& waiting) {
  auto now = std::chrono::steady_clock::now();
  yield_core(waiting, now);
}

/// Somebody who does not give it back wants the core of this thread: a yield took WaitPolicy::lost_core, lately. Then
/// who waits had better sleep at once. A yield lasts until the other's time is over, whatever comes meanwhile, while
/// who is woken mostly runs at once; and what one polls away counts against oneself.
bool core_is_contended();

/// Moves the calling thread to this core, if it is allowed to use it; which ones it may use stays as it was.
bool go_to_core(int core);

/// Moves the calling thread to another core that it is allowed to use; which ones these are stays as it was. False if
/// there is none.
bool leave_core();

}  // namespace fabring
