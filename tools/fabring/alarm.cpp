#include "tools/fabring/alarm.hpp"

#include <utility>

#include "runtime/base/named_thread.hpp"

namespace fabring::tools {

Alarm::~Alarm() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  over_.notify_all();
  thread_.join();
}

Status Alarm::set(std::chrono::steady_clock::time_point deadline, std::function<void()> ring) {
  auto thread = start_thread("fabring-alarm", [this, deadline, ring = std::move(ring)] {
    std::unique_lock lock(mutex_);
    if (over_.wait_until(lock, deadline, [this] { return done_; })) return;
    lock.unlock();
    ring();
  });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

}  // namespace fabring::tools
