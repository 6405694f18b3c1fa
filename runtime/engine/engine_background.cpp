// EngineCore where nobody waits: operations that a program has begun and left alone, which ProgressThread drives, and
// what comes for a rank whose program is elsewhere.

#include <algorithm>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_bytes_at_once = std::size_t{64} << 10;  // that a caller begins itself: some microseconds

constexpr auto look_every = std::chrono::milliseconds(500);
constexpr auto look_every_after_failure = std::chrono::milliseconds(10);
constexpr int looks_after_failure = 50;                    // until the usual look comes
constexpr auto busy_for = std::chrono::milliseconds(100);  // a program that called so lately may call again now
constexpr unsigned most_passed_over = 20;                  // connections that it does not use must not be forgotten
constexpr int most_rounds_in_passing = 64;
constexpr int least_rounds = 20;  // an endpoint may look at all of its sockets and cards only every 16th time

}  // namespace

// It has been submitted. Without the drive: who has it looks for news before it gives it back or sleeps.
void EngineCore::set_going(const Execution& execution) {
  progress_thread_.note_call();
  if (execution.call().device.any()) progress_thread_.take_over();  // streams wait for it
  if (!drive_->try_lock()) {
    wake_driver();
  } else {
    HeldDrive held(*drive_);
    if (begins_now(execution)) progress();
    release_drive(held);
    notify_waiters();  // who found it taken meanwhile
  }
  if (!execution.done() || undelivered_.load()) progress_thread_.go_on_without();
}

// With the drive held. A short message its caller sends or asks for, as who waits for it should not wait for the moment
// too, unless something is under way that would keep the caller.
bool EngineCore::begins_now(const Execution& execution) const {
  const auto is_little = [](const Call& call) { return call.bytes() <= most_bytes_at_once && !call.device.any(); };
  return execution.point_to_point() && is_little(execution.call()) &&
         std::ranges::all_of(running_, [&](const auto& running) { return !running || is_little(running->call()); });
}

void EngineCore::have_delivered() {
  {
    std::lock_guard lock(mutex_);
    progress_thread_.start();
  }
  progress_thread_.deliver();
}

void EngineCore::look_when_idle() {
  if (!parts_.control || !transfer_) return;
  looks_when_idle_.store(true);
  look_again(*parts_.control);
}

void EngineCore::look_again(ControlPlane& control) {
  control.after(look_every, [this, &control] {
    const bool idle = parts_.clock->now() - last_end_.load() >= Time(busy_for);
    if (idle || ++looks_passed_over_ % most_passed_over == 0) look_if_idle();
    if (!leaving_.takes_nothing()) look_again(control);
  });
}

// In the control thread. What others still have of this rank's, in an operation that has failed, they get back only
// where it looks, and they wait for less time than passes between two looks of an idle rank.
void EngineCore::look_after_failure(ControlPlane& control, int looks_before) {
  look_if_idle();
  if (looks_before < looks_after_failure && !leaving_.takes_nothing())
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
// also if the program calls nothing any more: who waits for an answer would take it for stopped. And an endpoint that
// calls do not ask, as they go through shared memory, is asked now and then: it keeps its quiet connections alive.
void EngineCore::look_if_idle() {
  if (pending_.load() > 0 || leaving_.has_begun() || !drive_->try_lock()) return;
  HeldDrive held(*drive_);
  see_what_has_come([this] { return leaving_.has_begun(); });
  release_drive(held);
  notify_waiters();
  if (undelivered_.load() && !leaving_.has_begun()) have_delivered();
}

}  // namespace fabring
