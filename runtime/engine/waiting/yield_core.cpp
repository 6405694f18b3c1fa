#include "runtime/engine/waiting/yield_core.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace fabring {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto long_yield = 20us;     // 0.3 us where nobody else wants the core
constexpr auto shortest_sleep = 1us;  // 50 to 60 with the slack of the kernel's timers

/// When to try again. Where all cores are taken, by threads that are not ours, no attempt helps.
class Attempts {
 public:
  Attempts(std::chrono::microseconds first_pause, std::chrono::microseconds longest_pause,
           steady_clock::duration forgotten)
      : first_pause_(first_pause), longest_pause_(longest_pause), forgotten_(forgotten) {}
  bool due(steady_clock::time_point now) const { return now - last_ >= pause_; }
  /// How many there were before, of late.
  int count(steady_clock::time_point now) {
    if (now - last_ > forgotten_) made_ = 0;
    last_ = now;
    pause_ = std::min(first_pause_ * (1 << std::min(made_, 8)), longest_pause_);
    return made_++;
  }

 private:
  std::chrono::microseconds first_pause_, longest_pause_;
  steady_clock::duration forgotten_;
  steady_clock::time_point last_;
  std::chrono::microseconds pause_{0};
  int made_ = 0;
};

/// For how long this thread's core counts as taken: the longer, the more often it was when that was over. A look costs
/// a yield that lasts until the other's time is over, and one that does not says little: another rank may have run.
class Contention {
 public:
  bool is_there() const { return until_ != steady_clock::time_point() && steady_clock::now() < until_; }
  void yielded(steady_clock::duration took, steady_clock::time_point now, steady_clock::duration lost) {
    if (took >= lost) {
      until_ = now + rest_;
      rest_ = std::min(4 * rest_, longest_rest);
      short_yields_ = 0;
    } else if (until_ != steady_clock::time_point() && ++short_yields_ == enough_short_yields) {
      until_ = {};
      rest_ = shortest_rest;
    }
  }

 private:
  static constexpr std::chrono::milliseconds shortest_rest = 4ms, longest_rest = 256ms;
  static constexpr int enough_short_yields = 256;
  steady_clock::time_point until_;  // the epoch: not lately
  std::chrono::milliseconds rest_ = shortest_rest;
  int short_yields_ = 0;
};

thread_local Contention contention;

/// None if the kernel does not say.
cpu_set_t allowed_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

/// To one of these; those that the thread may use stay as they were.
bool move_to(const cpu_set_t& cores, const cpu_set_t& allowed) {
  return sched_setaffinity(0, sizeof(cores), &cores) == 0 && sched_setaffinity(0, sizeof(allowed), &allowed) == 0;
}

/// To the core that this rank shares with its neighbours, if it is on another. Somebody who keeps taking it away (the
/// kernel, as other programs run there) has his way soon.
void go_home(int home) {
  if (home < 0 || sched_getcpu() == home) return;
  thread_local Attempts attempts(1ms, 64ms, 100ms);
  const auto now = steady_clock::now();
  if (!attempts.due(now)) return;
  attempts.count(now);
  go_to_core(home);
}

}  // namespace

bool leave_core() {
  const cpu_set_t allowed = allowed_cores();
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return false;
  cpu_set_t others = allowed;
  CPU_CLR(here, &others);
  return CPU_COUNT(&others) != 0 && move_to(others, allowed);
}

bool go_to_core(int core) {
  const cpu_set_t allowed = allowed_cores();
  if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed)) return false;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  return move_to(only, allowed);
}

void yield_core(const WaitPolicy& waiting, steady_clock::time_point& now) {
  if (!waiting.own_core()) {
    go_home(waiting.home);
    // Looking at the clock each time took 2 to 5 % of a small operation among ranks that share cores.
    thread_local bool looks = false;
    if (looks = !looks; !looks) return std::this_thread::yield();
  }
  const auto before = now;
  std::this_thread::yield();
  const auto after = now = steady_clock::now();
  contention.yielded(after - before, after, waiting.lost_core);
  if (!waiting.own_core()) return;
  thread_local Attempts attempts(500us, 100ms, 1s);
  if (after - before < long_yield || !attempts.due(after)) return;
  // What wakes up the scheduler puts on an idle core, of which it knows best; but in a virtual machine it takes one
  // that sleeps for one that is gone.
  if (attempts.count(after) % 2 == 0) {
    std::this_thread::sleep_for(shortest_sleep);
  } else {
    leave_core();
  }
  now = steady_clock::now();
}

bool core_is_contended() { return contention.is_there(); }

}  // namespace fabring
