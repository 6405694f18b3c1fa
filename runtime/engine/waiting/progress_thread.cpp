#include "runtime/engine/waiting/progress_thread.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/named_thread.hpp"

namespace fabring {
namespace {

constexpr std::chrono::microseconds shortest_nap{100}, longest_nap{500};  // while the program may call, or drives
constexpr auto calls_again_within = std::chrono::milliseconds(10);
constexpr std::chrono::microseconds delivers_within{1000};
constexpr int naps_before_delivering = 2;
constexpr int naps_beside_a_waiter = 20;  // then who waits does so for long, and tells when it is over
constexpr auto longest_rest = std::chrono::milliseconds(100);
constexpr auto turn_limit = std::chrono::milliseconds(50);  // of one drive; others may want it

}  // namespace

ProgressThread::ProgressThread(Drive& drive, UnderWay under_way, DriveUntil drive_until, std::vector<int> cpus)
    : drive_(drive), under_way_(under_way), drive_until_(std::move(drive_until)), cpus_(std::move(cpus)) {}

// Without a thread operations still go on while somebody waits; only "nobody waits" needs it. Where the system gives no
// more threads now it may at the next call.
void ProgressThread::start() {
  if (thread_.joinable() || stop_.load()) return;
  if (auto thread = start_thread("fabring-prog", [this] { run(); })) {
    thread_ = std::move(*thread);
    bind_thread(thread_, cpus_);
  }
}

std::thread ProgressThread::stop() {
  stop_.store(true);
  wake();
  return std::move(thread_);
}

void ProgressThread::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool ProgressThread::called_within(std::chrono::nanoseconds time) const {
  return std::chrono::steady_clock::now().time_since_epoch() - called_at_.load() < time;
}

bool ProgressThread::is_attended() const { return !nobody_waits() || (!left_alone_.load() && called_within(moment)); }

bool ProgressThread::watches() const { return !left_alone_.load() && called_within(calls_again_within); }

// True: nobody ended it.
bool ProgressThread::rest(Rest how, std::chrono::microseconds limit, const std::function<bool()>& enough) {
  std::unique_lock lock(mutex_);
  rest_.store(how);
  const bool undisturbed = !stop_.load() && !enough() && changed_.wait_for(lock, limit) == std::cv_status::timeout;
  rest_.store(Rest::none);
  return undisturbed;
}

// The receiver of a small message waits for it although its sender is done.
void ProgressThread::run() {
  auto next_nap = shortest_nap;
  const auto nap = [&] {
    std::this_thread::sleep_for(next_nap);
    next_nap = std::min(2 * next_nap, longest_nap);
  };
  int naps_beside = 0;
  const auto waited_for_long = [&] {
    if (nobody_waits()) naps_beside = 0;
    return naps_beside >= naps_beside_a_waiter;
  };
  while (!stop_.load()) {
    // Most likely the program calls again at once, and delivers it itself.
    for (int naps = 0; naps < naps_before_delivering && only_delivers() && watches(); ++naps) nap();
    if (only_delivers() && !watches())
      rest(Rest::brief, delivers_within, [&] { return under_way_.pending.load() > 0; });
    if (is_needed() && !is_attended() && drive_.try_lock()) {
      if (under_way_.pending.load() > 0) left_alone_.store(true);
      drive_until_([&] { return !is_needed() || !nobody_waits() || stop_.load(); }, turn_limit);
      next_nap = shortest_nap;
    } else if (waited_for_long()) {
      if (!rest(Rest::longer, longest_rest, [&] { return nobody_waits(); })) naps_beside = 0;
    } else if (is_needed() || watches()) {
      ++naps_beside;
      nap();
    } else {
      rest(Rest::longer, longest_rest, [&] { return is_needed(); });
    }
  }
}

}  // namespace fabring
