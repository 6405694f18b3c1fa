#pragma once
// AttendedTime: time in which a rank looked at what came, unlike that in which its program kept its thread, or its host
// stood still: what did not come then is nobody's fault. Of who drives.

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/clock.hpp"

namespace fabring {

class AttendedTime {
 public:
  static constexpr auto longest_look =
      std::chrono::milliseconds(100);  // a rank that sleeps in its endpoint wakes sooner

  void look(Time now) { attended_ += std::min(now - std::exchange(looked_at_, now), Time(longest_look)); }
  Time now() const { return attended_; }

 private:
  Time looked_at_{}, attended_{};
};

}  // namespace fabring
