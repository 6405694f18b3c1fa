#pragma once
// Parts of the simulated world: nodes, or what shares a leaf switch. Parts only meet through messages between nodes,
// and those take their latency, so for as long as that the events of one part can be handled without a look at any
// other: its state comes into the cache once for all of them. Every part has the events that it would have if those of
// all parts were handled by time, in the same order.

#include <cstdint>
#include <queue>
#include <vector>

#include "fabring/types.hpp"
#include "simulation/due_events.hpp"
#include "simulation/waiting_events.hpp"

namespace fabring::simulation {

class Parts {
 public:
  /// `node_of`: of the simulated ranks, nodes numbered from 0.
  Parts(const std::vector<int>& node_of, const Machine& machine);

  /// Turns to the next part with events in the present span of time, and if there is none to the next span. False if
  /// no event is left anywhere.
  bool turn();
  /// Those of this part in this span.
  DueEvents& due() { return due_; }

  /// From the first rank of a part to the last; empty if ranks of other parts lie between them.
  struct Ranks {
    Rank first = 0;
    Rank last = -1;
  };
  /// Has the events of the part whose turn is next brought into the cache. Its ranks; none if it is not known yet.
  Ranks prefetch_next() const;

  /// An event of the part whose turn it is, or one of another part, which is not before the end of the span.
  void push(const Event& event);

 private:
  static constexpr Nanoseconds never = WaitingEvents::never;
  struct Part {
    WaitingEvents waiting;
    Ranks ranks;
    Nanoseconds wakes = never;  // its place in the agenda; -1 while its turn is to come in this span
  };
  struct Appointment {
    Nanoseconds time;
    std::uint32_t part;
    bool operator<(const Appointment& other) const { return time > other.time; }
  };
  void appoint(std::uint32_t part, Nanoseconds time);
  bool next_span();
  void leave();

  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<std::uint32_t> part_of_;  // by rank
  Nanoseconds span_;                    // how long
  std::vector<Part> parts_;
  std::vector<std::vector<Event>> arrived_;  // by part: from others, since its last turn
  std::priority_queue<Appointment> agenda_;
  std::vector<std::uint32_t> turns_;  // of this span, from `next_turn_` on
  std::size_t next_turn_ = 0;
  Nanoseconds end_ = 0;  // of this span
  std::uint32_t present_ = none;
  DueEvents due_;
};

}  // namespace fabring::simulation
