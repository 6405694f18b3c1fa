#pragma once
// Timeline: virtual time, events and chance for a simulated world, all from one seed. Nothing happens but by step(), in
// the order of time, so the same seed gives the same run; trace() is a hash of everything that was noted on the way.
// Owned by the test's world, one thread.

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "runtime/base/clock.hpp"

namespace fabring::fixture {

class Timeline final : public Clock {
 public:
  explicit Timeline(std::uint64_t seed) : random_(seed) {}

  Time now() const override { return now_; }
  void after(Time delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  void at(Time when, std::function<void()> event);
  /// Goes to the next event and runs it; false if there is none.
  bool step();
  /// When the next event is due; `otherwise` if there is none.
  Time next(Time otherwise) const { return events_.empty() ? otherwise : events_.top().when; }
  /// Forgets all events.
  void clear() { events_ = {}; }
  /// Lets time pass; events due by then run.
  void pass(Time span);
  std::uint64_t steps() const { return steps_; }

  std::uint64_t below(std::uint64_t bound) { return bound <= 1 ? 0 : random_() % bound; }
  bool chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }
  Time between(Time least, Time most) {
    return least + Time(below(static_cast<std::uint64_t>((most - least).count()) + 1));
  }

  /// Something that happened, for trace().
  void note(std::uint64_t what, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0);
  std::uint64_t trace() const { return trace_; }

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  std::priority_queue<Event> events_;
  std::mt19937_64 random_;
  Time now_{0};
  std::uint64_t order_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t trace_ = 0xcbf29ce484222325;
};

}  // namespace fabring::fixture
