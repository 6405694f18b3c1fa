#pragma once
// Underway: what this process has begun and other ranks count on, for the end of the process, which waits for it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace fabring_torch {

class Underway {
 public:
  void begin();
  void end();
  /// How many are left when nothing is under way any more, or after `limit`.
  std::size_t wait(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable none_left_;
  std::size_t count_ = 0;  // under mutex_
};

}  // namespace fabring_torch
