#pragma once
// StoreChoice: by which stores bytes are written to where a peer reads them. Ordinary stores leave them in a cache near
// both processors, but each must first take its line from whoever has read it: quick if the two share a cache, up to
// ten times slower than streaming past the caches if they do not. Processes move from core to core and machines
// differ, so what is faster is measured, again and again.

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/pace.hpp"

namespace fabring::shm {

enum class Stores : std::uint8_t { ordinary, streaming };

class StoreChoice {
 public:
  struct Turn {
    Stores stores = Stores::ordinary;
    bool measured = false;  ///< took() is to be told how long it took
  };

  /// For the next copy.
  Turn next() {
    const std::uint32_t turn = turn_++ % trial_period;
    const bool trial = turn >= Pace::samples && turn < 2 * Pace::samples;
    const Stores other = best_ == Stores::ordinary ? Stores::streaming : Stores::ordinary;
    return {trial ? other : best_, turn < 2 * Pace::samples || turn % measured_one_in == 0};
  }
  void took(Stores stores, std::size_t bytes, std::int64_t nanoseconds) {
    paces_[static_cast<std::size_t>(stores)].took(bytes, nanoseconds);
    best_ = pace(Stores::ordinary) > advantage * pace(Stores::streaming) ? Stores::streaming : Stores::ordinary;
  }
  Stores best() const { return best_; }

  static constexpr std::uint32_t trial_period = 1024;  ///< copies from one trial of the other stores to the next

 private:
  static constexpr std::uint32_t measured_one_in = 8;
  static constexpr double advantage = 2.5;  // what was streamed is slower to read

  double pace(Stores stores) const { return paces_[static_cast<std::size_t>(stores)].nanoseconds_a_byte(); }

  std::array<Pace, 2> paces_;
  std::uint32_t turn_ = 0;
  Stores best_ = Stores::ordinary;
};

}  // namespace fabring::shm
