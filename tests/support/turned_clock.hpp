#pragma once
// TurnedClock: time passes when the test says so.

#include <chrono>

#include "runtime/base/clock.hpp"

namespace fabring::fixture {

class TurnedClock final : public Clock {
 public:
  Time now() const override { return time; }
  Time time{std::chrono::seconds(1)};
};

}  // namespace fabring::fixture
