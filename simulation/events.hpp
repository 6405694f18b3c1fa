#pragma once
// The event queue of the simulation. Events of equal time come in an order that is the same for symmetric ranks, so a
// unit simulated alone takes the turns it takes in the whole world.
//
// Time never goes back, so this is a radix heap: an event waits in a bucket by the highest bit in which its time
// differs from that of the last look at the buckets, and is only moved, to a lower one, when all before it have come. A
// heap of a large world's events misses the caches at each of its levels.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "collectives/cost/machine.hpp"
#include "collectives/plan.hpp"

namespace fabring::simulation {

enum class EventKind : std::uint8_t { call, work_done, sent, head_arrives, message_arrives, grant_arrives };

struct Event {
  Nanoseconds time = 0;
  Nanoseconds tail = 0;  ///< head_arrives: when the last byte would come if nothing at the receiver were in the way
  std::int32_t position = 0;  ///< of the rank in its unit
  std::int32_t rank = 0;
  StepId step = 0;
  std::uint32_t tile = 0;
  EventKind kind = EventKind::call;
};

class EventQueue {
 public:
  bool empty() const { return size_ == 0; }

  /// `event.time` is not before that of the last one that was popped, nor negative.
  void push(const Event& event) {
    ++size_;
    if (event.time <= sorted_until_) {
      meanwhile_.push_back(event);
      std::push_heap(meanwhile_.begin(), meanwhile_.end(), later);
    } else {
      put(event);
    }
  }

  Event pop() {
    if (next_ == sorted_.size() && meanwhile_.empty()) sort_next();
    --size_;
    if (meanwhile_.empty() || (next_ < sorted_.size() && later(meanwhile_.front(), sorted_[next_])))
      return sorted_[next_++];
    std::pop_heap(meanwhile_.begin(), meanwhile_.end(), later);
    const Event event = meanwhile_.back();
    meanwhile_.pop_back();
    return event;
  }

  /// The event that follows after `events` others, as far as is known already; nullptr if it is not.
  const Event* ahead(std::size_t events) const {
    return next_ + events < sorted_.size() ? &sorted_[next_ + events] : nullptr;
  }

 private:
  static constexpr std::size_t few = 64;  // are sorted at once

  static bool later(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time > b.time;
    return std::tie(a.position, a.kind, a.tile, a.step, a.rank) > std::tie(b.position, b.kind, b.tile, b.step, b.rank);
  }
  static std::uint64_t bits(Nanoseconds time) { return static_cast<std::uint64_t>(time); }

  /// In bucket b are times that differ from `base_` in bit b - 1 and in none above; in bucket 0 those that are equal.
  void put(const Event& event) {
    const auto bucket = static_cast<std::size_t>(std::bit_width(bits(event.time) ^ bits(base_)));
    buckets_[bucket].push_back(event);
    filled_ |= std::uint64_t{1} << bucket;
  }

  /// Sorts the events that come next, with all of the same time. There are some, all of them in buckets.
  void sort_next() {
    for (;;) {
      const auto bucket = static_cast<std::size_t>(std::countr_zero(filled_));
      std::vector<Event>& found = buckets_[bucket];
      filled_ &= filled_ - 1;
      if (bucket == 0 || found.size() <= few) {
        sorted_.swap(found);
        found.clear();
        next_ = 0;
        std::sort(sorted_.begin(), sorted_.end(), [](const Event& a, const Event& b) { return later(b, a); });
        base_ = sorted_.front().time;
        const std::uint64_t below = bucket == 0 ? 0 : (std::uint64_t{1} << (bucket - 1)) - 1;
        sorted_until_ = static_cast<Nanoseconds>(bits(base_) | below);
        return;
      }
      base_ = std::min_element(found.begin(), found.end(), [](const Event& a, const Event& b) {
                return a.time < b.time;
              })->time;
      for (const Event& event : found) put(event);
      found.clear();
    }
  }

  std::array<std::vector<Event>, 64> buckets_;
  std::uint64_t filled_ = 0;  // which buckets are not empty
  Nanoseconds base_ = 0;
  std::vector<Event> sorted_;  // those that come next, from `next_` on
  std::size_t next_ = 0;
  Nanoseconds sorted_until_ = -1;  // what is pushed with such a time or an earlier one is not in a bucket
  std::vector<Event> meanwhile_;   // but in this heap
  std::size_t size_ = 0;
};

}  // namespace fabring::simulation
