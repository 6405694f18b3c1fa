#include "runtime/engine/members/leaving.hpp"

#include <fmt/format.h>

namespace fabring {

bool Leaving::begin() {
  const std::lock_guard lock(mutex_);
  if (begun_.exchange(true)) return false;
  leaver_ = std::this_thread::get_id();
  return true;
}

void Leaving::end() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  ended_.notify_all();
}

Status Leaving::await_end(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (leaver_ == std::this_thread::get_id() || ended_.wait_for(lock, limit, [&] { return is_over_; })) return {};
  return {ErrorCode::timeout, fmt::format("another thread has been in leave() for more than {} ms", limit.count())};
}

}  // namespace fabring
