#pragma once
// WakeEvent: where a rank without an endpoint to sleep in sleeps until somebody sets it (an auto-reset event). Any
// thread.

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fabring {

class WakeEvent {
 public:
  /// Ends the sleep, or the next one if nobody sleeps.
  void set() {
    {
      std::lock_guard lock(mutex_);
      set_ = true;
    }
    changed_.notify_all();
  }
  void wait(std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return set_; });
    set_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace fabring
