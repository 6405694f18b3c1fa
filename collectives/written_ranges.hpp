#pragma once
// WrittenRanges: how much of a range of the output a plan under construction has written. Owned by a PlanBuilder, which
// asks it where a value is now. A range is written when it, a range around it, or every part of one of its cuts was.

#include <vector>

#include "collectives/range_cuts.hpp"

namespace fabring {

enum class Written : std::uint8_t { nothing, partly, all };

class WrittenRanges {
 public:
  explicit WrittenRanges(const RangeCuts& cuts) : cuts_(cuts), nodes_(1) {}

  void mark(RangeId range);
  /// `partly` also where overlap cannot be decided without the element count.
  Written of(RangeId range);

 private:
  struct Node {
    bool all = false;
    bool touched = false;  // something in it was written
  };
  struct CutState {
    std::vector<bool> written;  // by part
    std::uint32_t count = 0;
  };

  bool cells_written(RangeId range, bool any) const;

  const RangeCuts& cuts_;
  std::vector<Node> nodes_;           // by range
  std::vector<CutState> cut_states_;  // by cut
};

}  // namespace fabring
