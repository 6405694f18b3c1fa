#pragma once
// Events of a short span of time, in their order: those that were known before it begins are sorted once, and what
// comes up meanwhile waits in a heap, which stays small.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "simulation/events.hpp"

namespace fabring::simulation {

class DueEvents {
 public:
  bool empty() const { return next_ == known_.size() && meanwhile_.empty(); }

  /// Only while it is empty; then sort().
  void add(const Event& event) { known_.push_back(event); }
  void sort() { std::sort(known_.begin(), known_.end(), earlier); }

  void push(const Event& event) {
    meanwhile_.push_back(event);
    std::push_heap(meanwhile_.begin(), meanwhile_.end(), later);
  }

  Event pop() {
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

 private:
  static bool later(const Event& a, const Event& b) { return earlier(b, a); }

  std::vector<Event> known_;  // from `next_` on
  std::size_t next_ = 0;
  std::vector<Event> meanwhile_;
};

}  // namespace fabring::simulation
