#pragma once
// The event queue of the simulation. Events of equal time come in an order that is the same for symmetric ranks, so a
// unit simulated alone takes the turns it takes in the whole world.

#include <algorithm>
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
  bool empty() const { return heap_.empty(); }
  void push(const Event& event) {
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time > b.time;
    return std::tie(a.position, a.kind, a.tile, a.step, a.rank) > std::tie(b.position, b.kind, b.tile, b.step, b.rank);
  }
  std::vector<Event> heap_;
};

}  // namespace fabring::simulation
