#pragma once
// Time as a parameter: the engine and the simulated fabric ask a Clock, so a test can run a world in virtual time.

#include <chrono>

namespace fabring {

using Time = std::chrono::nanoseconds;  // since some fixed point

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace fabring
