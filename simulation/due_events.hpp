#pragma once
// Events of a short span of time, in their order: those that were known before it begins are sorted once, and what
// comes up meanwhile waits in a heap, which stays small.

#include <cstddef>
#include <vector>

#include "simulation/events.hpp"

namespace fabring::simulation {

class DueEvents {
 public:
  bool empty() const { return next_ == known_.size() && meanwhile_.empty(); }

  /// Only while it is empty; then sort().
  void add(const Event& event) { known_.push_back(event); }
  void sort();

  void push(const Event& event);
  Event pop();

 private:
  std::vector<Event> known_;  // from `next_` on
  std::size_t next_ = 0;
  std::vector<Event> meanwhile_;
};

}  // namespace fabring::simulation
