#pragma once
// Events that are not due yet: a radix heap. Time never goes back, so an event waits in a bucket by the highest bit in
// which its time differs from that until which events were taken last, and only goes to another, a lower one, when all
// before it have been taken. Buckets are lists through one array, so that what waits lies close together.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "simulation/events.hpp"
#include "simulation/prefetch.hpp"

namespace fabring::simulation {

class WaitingEvents {
 public:
  static constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

  /// `event.time` is not before that until which events were taken, nor negative.
  void put(const Event& event) {
    std::uint32_t place = free_;
    if (place == none) {
      place = static_cast<std::uint32_t>(places_.size());
      places_.push_back({event, none});
    } else {
      free_ = places_[place].next;
      places_[place].event = event;
    }
    link(place);
  }

  /// Time of the earliest; `never` if there is none.
  Nanoseconds earliest() const {
    return filled_ == 0 ? never : buckets_[static_cast<std::size_t>(std::countr_zero(filled_))].earliest;
  }

  /// Has them brought into the cache.
  void prefetch() const { simulation::prefetch(places_.data(), places_.data() + places_.size()); }

  /// Takes all before `end`, in any order. `end` does not go back from call to call.
  template <typename Take>
  void take_until(Nanoseconds end, const Take& take) {
    // Times that differ from the old base in a higher bit than the new one does are after the new one, and stay; those
    // that differ in a lower one are before it.
    const auto last = static_cast<std::size_t>(std::bit_width(bits(end) ^ bits(base_)));
    base_ = end;
    std::uint64_t looked_at = filled_ & (last >= 63 ? ~std::uint64_t{0} : (std::uint64_t{2} << last) - 1);
    filled_ &= ~looked_at;
    for (; looked_at != 0; looked_at &= looked_at - 1) {
      Bucket& bucket = buckets_[static_cast<std::size_t>(std::countr_zero(looked_at))];
      std::uint32_t place = bucket.first;
      bucket = {};
      while (place != none) {
        const std::uint32_t next = places_[place].next;
        if (places_[place].event.time < end) {
          take(places_[place].event);
          places_[place].next = std::exchange(free_, place);
        } else {
          link(place);
        }
        place = next;
      }
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Place {
    Event event;
    std::uint32_t next;  // of its bucket, or of those that are free
  };
  struct Bucket {
    Nanoseconds earliest = never;
    std::uint32_t first = none;
  };
  static std::uint64_t bits(Nanoseconds time) { return static_cast<std::uint64_t>(time); }

  /// In bucket b are times that differ from `base_` in bit b - 1 and in none above; in bucket 0 those that are equal.
  void link(std::uint32_t place) {
    const Nanoseconds time = places_[place].event.time;
    const auto which = static_cast<std::size_t>(std::bit_width(bits(time) ^ bits(base_)));
    Bucket& bucket = buckets_[which];
    places_[place].next = std::exchange(bucket.first, place);
    bucket.earliest = std::min(bucket.earliest, time);
    filled_ |= std::uint64_t{1} << which;
  }

  std::vector<Place> places_;
  std::uint32_t free_ = none;
  std::uint64_t filled_ = 0;  // which buckets are not empty
  Nanoseconds base_ = 0;
  std::array<Bucket, 64> buckets_;
};

}  // namespace fabring::simulation
