#pragma once
// AccessHistory: who last wrote, and who has read since, the bytes of each range; from it a PlanBuilder derives what a
// step must wait for. One history covers the caller's data (input and output are the same bytes when a caller passes
// one buffer for both). A step's cost is the depth of its range, not the number of steps: a write forgets what it
// covers.

#include <vector>

#include "collectives/range_cuts.hpp"

namespace fabring {

class AccessHistory {
 public:
  explicit AccessHistory(const RangeCuts& cuts) : cuts_(cuts), nodes_(1) {}

  /// Appends the steps that an access must wait for, leaving out those that another one of them implies.
  void conflicts(RangeId range, bool writing, std::vector<StepId>& after);
  void record(RangeId range, bool writing, StepId step);

 private:
  static constexpr std::uint32_t none = RangeCuts::none;
  struct Node {
    StepId writer = none;
    std::uint32_t readers = none;  // list in readers_, newest first
    bool listed = false;           // in its parent's `used`
    std::vector<RangeId> used;     // parts with a history, their own or below
  };
  struct Reader {
    StepId step;
    std::uint32_t next;
  };

  void gather(RangeId range, bool writing, std::vector<StepId>& after) const;
  void gather_below(RangeId range, bool writing, std::vector<StepId>& after) const;
  void forget(RangeId range);

  const RangeCuts& cuts_;
  std::vector<Node> nodes_;  // by range
  std::vector<Reader> readers_;
  std::vector<StepId> found_;
};

}  // namespace fabring
