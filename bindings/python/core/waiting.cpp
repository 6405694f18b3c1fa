#include "bindings/python/core/waiting.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/thread_start.hpp"

namespace nb = nanobind;

namespace fabring::python {
namespace {

constexpr std::chrono::milliseconds slice{100};  // how late a Ctrl-C may be noticed

void let_signals_raise() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

bool wait(const WorkHandle& work, std::optional<double> limit_s) {
  using Clock = std::chrono::steady_clock;
  fabring_work* handle = work.use();
  // A year is for ever; larger numbers would overflow the clock.
  const auto limit = std::chrono::duration<double>(std::clamp(limit_s.value_or(3.2e7), 0.0, 3.2e7));
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (true) {
    fabring_error error = FABRING_ERROR_INIT, ignored = FABRING_ERROR_INIT;
    fabring_status_code code;
    int done = 0;
    {
      nb::gil_scoped_release others_run;
      const auto left = std::max<Clock::duration>(end - Clock::now(), Clock::duration::zero());
      const auto part = std::min<std::chrono::nanoseconds>(left, slice);
      code = fabring_work_wait_for(handle, static_cast<std::uint64_t>(part.count()), &error);
      // A timeout is the slice's, or the operation's own.
      if (code == FABRING_STATUS_TIMEOUT && fabring_work_done(handle, &done, &ignored) == FABRING_STATUS_OK && done)
        code = fabring_work_wait(handle, &error);
    }
    if (code == FABRING_STATUS_OK) return true;
    if (code != FABRING_STATUS_TIMEOUT || done) raise(error);
    let_signals_raise();
    if (Clock::now() >= end) return false;
  }
}

struct Aside::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
};

Aside::Aside(std::function<void()> body) : shared_(std::make_shared<Shared>()) {
  const std::string failure = bindings::start_detached("fabring-init", [body, shared = shared_] {
    body();
    const std::lock_guard lock(shared->mutex);
    shared->over = true;
    shared->changed.notify_all();
  });
  if (failure.empty()) return;
  nb::gil_scoped_release others_run;
  body();  // what needs no thread of its own works all the same, and the rest says what is missing
  shared_->over = true;
}

void Aside::wait() const {
  while (true) {
    bool over;
    {
      nb::gil_scoped_release others_run;
      std::unique_lock lock(shared_->mutex);
      over = shared_->changed.wait_for(lock, slice, [&] { return shared_->over; });
    }
    if (over) return;
    let_signals_raise();
  }
}

bool Aside::over() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->over;
}

}  // namespace fabring::python
