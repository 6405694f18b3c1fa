#pragma once
// Time as a parameter: the engine and the simulated fabric ask a Clock, so a test can run a world in virtual time.

#include <time.h>

#include <chrono>

namespace fabring {

using Time = std::chrono::nanoseconds;  // since some fixed point

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  /// A few milliseconds old, perhaps, but cheap.
  virtual Time about_now() const { return now(); }
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  Time about_now() const override {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

}  // namespace fabring
