// EngineCore without anybody who waits: who drives operations that a program has begun and left alone.
//
// Most programs that call asynchronously call again, or wait, within microseconds; and who waits drives best by itself.
// So the progress thread leaves what is under way to the program for a `moment` after each of its calls, and takes it
// only then. It need not be woken for each call: for a while after one it looks by itself. A program that lately did
// something else for longer than that, or waits otherwise than by us, finds the thread at work at once.

#include <algorithm>

#include "runtime/base/named_thread.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr auto moment = std::chrono::microseconds(50);
constexpr std::chrono::microseconds shortest_nap{100}, longest_nap{500};  // while the program may call, or drives
constexpr auto calls_again_within = std::chrono::milliseconds(10);
constexpr std::chrono::microseconds delivers_within{1000};
constexpr int naps_before_delivering = 2;
constexpr int naps_beside_a_waiter = 20;  // then who waits does so for long, and tells when it is over
constexpr auto longest_rest = std::chrono::milliseconds(100);
constexpr auto turn_limit = std::chrono::milliseconds(50);         // of one drive; others may want it
constexpr std::size_t most_bytes_at_once = std::size_t{64} << 10;  // that a caller begins itself: some microseconds

constexpr auto look_every = std::chrono::milliseconds(500);
constexpr auto look_every_after_failure = std::chrono::milliseconds(10);
constexpr int looks_after_failure = 50;                    // until the usual look comes
constexpr auto busy_for = std::chrono::milliseconds(100);  // a program that called so lately may call again now
constexpr int most_rounds_in_passing = 64;
constexpr int least_rounds = 20;  // an endpoint may look at all of its sockets and cards only every 16th time

}  // namespace

// Without a thread operations still go on while somebody waits; only "nobody waits" needs it. Where the system gives no
// more threads now it may at the next call.
void EngineCore::start_background() {
  if (thread_.joinable() || stop_.load()) return;
  if (auto thread = start_thread("fabring-prog", [this] { background(); })) {
    thread_ = std::move(*thread);
    bind_thread(thread_, parts_.progress_cpus);
  }
}

// It has been submitted. Without the drive: who has it looks for news before it gives it back or sleeps.
void EngineCore::set_going(const Execution& execution) {
  note_call();
  if (execution.call().device.any()) left_alone_.store(true);  // streams wait for it
  if (!drive_->try_lock()) {
    wake_driver();
  } else {
    if (begins_now(execution)) progress();
    release_drive();
    notify_waiters();  // who found it taken meanwhile
  }
  if (!execution.done() || undelivered_.load()) go_on_without();
}

// With the drive held. A short message its caller sends or asks for, as who waits for it should not wait for the moment
// too, unless something is under way that would keep the caller.
bool EngineCore::begins_now(const Execution& execution) const {
  const auto is_little = [](const Call& call) { return call.bytes() <= most_bytes_at_once && !call.device.any(); };
  return execution.point_to_point() && is_little(execution.call()) &&
         std::ranges::all_of(running_, [&](const auto& running) { return !running || is_little(running->call()); });
}

void EngineCore::note_call() { called_at_.store(std::chrono::steady_clock::now().time_since_epoch()); }

void EngineCore::note_wait() {
  if (left_alone_.load(std::memory_order_relaxed) && called_within(moment)) left_alone_.store(false);
}

// The program goes on to something else, perhaps, with operations under way.
void EngineCore::go_on_without() {
  if (rest_.load() == Rest::none) return;
  std::lock_guard lock(turn_mutex_);
  work_.notify_all();
}

void EngineCore::have_delivered() {
  {
    std::lock_guard lock(mutex_);
    start_background();
  }
  if (rest_.load() == Rest::longer) go_on_without();
}

bool EngineCore::called_within(std::chrono::nanoseconds time) const {
  return std::chrono::steady_clock::now().time_since_epoch() - called_at_.load() < time;
}

bool EngineCore::is_attended() const {
  return drive_->waiters.load() > 0 || (!left_alone_.load() && called_within(moment));
}

// Drives what nobody waits for, and what is left to send when a program has gone to do something else: the receiver of
// a small message waits for it although its sender is done.
void EngineCore::background() {
  const auto needed = [&] { return pending_.load() > 0 || undelivered_.load(); };
  // True: nobody ended it.
  const auto rest = [&](Rest how, std::chrono::microseconds limit, const auto& enough) {
    std::unique_lock lock(turn_mutex_);
    rest_.store(how);
    const bool undisturbed = !stop_.load() && !enough() && work_.wait_for(lock, limit) == std::cv_status::timeout;
    rest_.store(Rest::none);
    return undisturbed;
  };
  auto next_nap = shortest_nap;
  const auto nap = [&] {
    std::this_thread::sleep_for(next_nap);
    next_nap = std::min(2 * next_nap, longest_nap);
  };
  const auto watches = [&] { return !left_alone_.load() && called_within(calls_again_within); };
  int naps_beside = 0;
  const auto nobody_waits = [&] { return drive_->waiters.load() == 0; };
  const auto waited_for_long = [&] {
    if (nobody_waits()) naps_beside = 0;
    return naps_beside >= naps_beside_a_waiter;
  };
  const auto only_delivers = [&] { return pending_.load() == 0 && undelivered_.load(); };
  while (!stop_.load()) {
    // Most likely the program calls again at once, and delivers it itself.
    for (int naps = 0; naps < naps_before_delivering && only_delivers() && watches(); ++naps) nap();
    if (only_delivers() && !watches()) rest(Rest::brief, delivers_within, [&] { return pending_.load() > 0; });
    if (needed() && !is_attended() && drive_->try_lock()) {
      if (pending_.load() > 0) left_alone_.store(true);
      drive([&] { return !needed() || drive_->waiters.load() > 0 || stop_.load(); }, turn_limit,
            parts_.background_waiting);
      next_nap = shortest_nap;
      release_drive();
      notify_waiters();
    } else if (waited_for_long()) {
      if (!rest(Rest::longer, longest_rest, nobody_waits)) naps_beside = 0;
    } else if (needed() || watches()) {
      ++naps_beside;
      nap();
    } else {
      rest(Rest::longer, longest_rest, needed);
    }
  }
}

void EngineCore::look_when_idle() {
  if (!parts_.control || !transfer_) return;
  looks_when_idle_.store(true);
  look_again(*parts_.control);
}

void EngineCore::look_again(ControlPlane& control) {
  control.after(look_every, [this, &control] {
    if (parts_.clock->now() - last_end_.load() >= Time(busy_for)) look_if_idle();
    if (!left_.load()) look_again(control);
  });
}

// In the control thread. What others still have of this rank's, in an operation that has failed, they get back only
// where it looks, and they wait for less time than passes between two looks of an idle rank.
void EngineCore::look_after_failure(ControlPlane& control, int looks_before) {
  look_if_idle();
  if (looks_before < looks_after_failure && !left_.load())
    control.after(look_every_after_failure,
                  [this, &control, looks_before] { look_after_failure(control, looks_before + 1); });
}

// With the drive held. Also whether a device has failed, which an endpoint asks only where it is polled often.
void EngineCore::see_what_has_come(const std::function<bool()>& enough) {
  if (parts_.endpoint) parts_.endpoint->look_now();
  for (int round = 0; round < most_rounds_in_passing && !enough(); ++round)
    if (!progress() && round >= least_rounds) break;
}

// In the control thread. What the others send for calls that this rank never makes, or made otherwise, must be seen
// also if the program calls nothing any more: who waits for an answer would take it for stopped.
void EngineCore::look_if_idle() {
  if (pending_.load() > 0 || leaving_.load() || !drive_->try_lock()) return;
  see_what_has_come([this] { return leaving_.load(); });
  release_drive();
  notify_waiters();
  if (undelivered_.load() && !leaving_.load()) have_delivered();
}

}  // namespace fabring
