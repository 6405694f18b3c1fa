#include "simulation/due_events.hpp"

#include <algorithm>
#include <tuple>

namespace fabring::simulation {
namespace {

// Events of equal time come in an order that is the same for symmetric ranks, so a unit simulated alone takes the turns
// it takes in the whole world.
bool earlier(const Event& a, const Event& b) {
  if (a.time != b.time) return a.time < b.time;
  const auto place = [](const Event& event) {
    return std::tuple(event.position, event.kind, event.tile, std::uint32_t{event.step}, event.rank);
  };
  return place(a) < place(b);
}

bool later(const Event& a, const Event& b) { return earlier(b, a); }

}  // namespace

void DueEvents::sort() { std::sort(known_.begin(), known_.end(), earlier); }

void DueEvents::push(const Event& event) {
  meanwhile_.push_back(event);
  std::push_heap(meanwhile_.begin(), meanwhile_.end(), later);
}

Event DueEvents::pop() {
  if (next_ < known_.size() && (meanwhile_.empty() || earlier(known_[next_], meanwhile_.front()))) {
    const Event event = known_[next_++];
    if (next_ == known_.size()) {
      known_.clear();
      next_ = 0;
    }
    return event;
  }
  std::pop_heap(meanwhile_.begin(), meanwhile_.end(), later);
  const Event event = meanwhile_.back();
  meanwhile_.pop_back();
  return event;
}

}  // namespace fabring::simulation
