#pragma once
// Bell: where a rank without an endpoint to sleep in sleeps until somebody rings. Any thread.

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fabring {

class Bell {
 public:
  /// Ends the sleep, or the next one if nobody sleeps.
  void ring() {
    {
      std::lock_guard lock(mutex_);
      rung_ = true;
    }
    changed_.notify_all();
  }
  void wait(std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

}  // namespace fabring
