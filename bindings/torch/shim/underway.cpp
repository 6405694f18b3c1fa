#include "underway.hpp"

namespace fabring_torch {

void Underway::begin() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void Underway::end() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) none_left_.notify_all();
}

std::size_t Underway::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  none_left_.wait_for(lock, limit, [this] { return count_ == 0; });
  return count_;
}

}  // namespace fabring_torch
