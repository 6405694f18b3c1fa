#include "runtime/engine/yield_core.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace fabring {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto long_yield = 20us;  // 0.3 us where nobody else wants the core
constexpr auto moment = 1us;       // 50 to 60 with the slack of the kernel's timers

/// When to try again. Where all cores are taken, by threads that are not ours, no attempt helps.
class Attempts {
 public:
  bool due(steady_clock::time_point now) const { return now - last_ >= pause_; }
  /// How many there were before, of late.
  int count(steady_clock::time_point now) {
    if (now - last_ > forgotten) made_ = 0;
    last_ = now;
    pause_ = std::min<std::chrono::microseconds>(first_pause * (1 << std::min(made_, 8)), longest_pause);
    return made_++;
  }

 private:
  static constexpr auto forgotten = 1s;
  static constexpr std::chrono::microseconds first_pause = 500us, longest_pause = 100ms;
  steady_clock::time_point last_;
  std::chrono::microseconds pause_{0};
  int made_ = 0;
};

}  // namespace

bool leave_core() {
  cpu_set_t allowed;
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  cpu_set_t others = allowed;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return false;
  return sched_setaffinity(0, sizeof(allowed), &allowed) == 0;
}

void yield_core(const WaitPolicy& waiting) {
  if (!waiting.own_core()) {
    std::this_thread::yield();
    return;
  }
  thread_local Attempts attempts;
  const auto before = steady_clock::now();
  std::this_thread::yield();
  const auto after = steady_clock::now();
  if (after - before < long_yield || !attempts.due(after)) return;
  // What wakes up the scheduler puts on an idle core, of which it knows best; but in a virtual machine it takes one
  // that sleeps for one that is gone.
  if (attempts.count(after) % 2 == 0) {
    std::this_thread::sleep_for(moment);
  } else {
    leave_core();
  }
}

}  // namespace fabring
