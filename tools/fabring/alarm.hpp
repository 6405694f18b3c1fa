#pragma once
// Alarm: does something in a thread of its own when the time is up, unless it is destroyed before.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "fabring/status.hpp"

namespace fabring::tools {

class Alarm {
 public:
  Alarm() = default;
  ~Alarm();  // waits for what it does, if it has begun
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// Once. Errors: unavailable; there are no more threads.
  Status set(std::chrono::steady_clock::time_point deadline, std::function<void()> ring);

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace fabring::tools
