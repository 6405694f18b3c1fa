#include "tests/support/timeline.hpp"

#include <algorithm>

namespace fabring::fixture {

void Timeline::at(Time when, std::function<void()> event) {
  events_.push({std::max(when, now_), order_++, std::move(event)});
}

bool Timeline::step() {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.when;
  ++steps_;
  event.run();
  return true;
}

void Timeline::pass(Time span) {
  const Time until = now_ + span;
  while (!events_.empty() && events_.top().when <= until) step();
  now_ = until;
}

void Timeline::note(std::uint64_t what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (const std::uint64_t word : {static_cast<std::uint64_t>(now_.count()), what, a, b, c}) {
    trace_ ^= word;
    trace_ *= 0x100000001b3;
    trace_ ^= trace_ >> 29;
  }
}

}  // namespace fabring::fixture
