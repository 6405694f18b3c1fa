#pragma once
// Cores of a node: which rank runs. A rank keeps its core while it has work and then yields to the one that has waited
// longest. With a core for each rank nobody waits and no switch costs anything.

#include <deque>
#include <vector>

#include "collectives/cost/machine.hpp"

namespace fabring::simulation {

class Cores {
 public:
  Cores(std::uint32_t cores, int ranks)
      : shared_(cores != 0 && static_cast<int>(cores) < ranks),
        last_(shared_ ? cores : 0, -1),
        free_(last_.size(), true) {}

  /// The core that this rank gets now, preferably its last; -1 if it must wait (it is then in the queue).
  int take(int rank) {
    if (!shared_) return 0;
    int found = -1;
    for (int core = 0; core < static_cast<int>(last_.size()); ++core) {
      if (!free_[at(core)]) continue;
      if (last_[at(core)] == rank || found < 0) found = core;
      if (last_[at(core)] == rank) break;
    }
    if (found < 0) {
      waiting_.push_back(rank);
    } else {
      free_[at(found)] = false;
    }
    return found;
  }
  /// True once for a core that another rank had before: a switch.
  bool turns_to(int core, int rank) {
    if (!shared_) return false;
    const bool other = last_[at(core)] != rank && last_[at(core)] >= 0;
    last_[at(core)] = rank;
    return other;
  }
  /// The core is given up; who gets it, or -1.
  int release(int core) {
    if (!shared_) return -1;
    if (waiting_.empty()) {
      free_[at(core)] = true;
      return -1;
    }
    const int next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

 private:
  static std::size_t at(int core) { return static_cast<std::size_t>(core); }
  bool shared_;
  std::vector<int> last_;
  std::vector<bool> free_;
  std::deque<int> waiting_;
};

}  // namespace fabring::simulation
