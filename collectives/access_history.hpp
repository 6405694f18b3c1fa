#pragma once
// AccessHistory: who last wrote, and who has read since, the bytes of each range; from it a PlanBuilder derives what a
// step must wait for. One history covers the caller's data (input and output are the same bytes when a caller passes
// one buffer for both). A step's cost is the depth of its range, not the number of steps: a write forgets what it
// covers.

#include <array>
#include <memory>
#include <vector>

#include "collectives/range_cuts.hpp"

namespace fabring {

class AccessHistory {
 public:
  explicit AccessHistory(const RangeCuts& cuts) : cuts_(cuts) {}

  /// Appends the steps that an access must wait for, leaving out those that another one of them implies.
  void conflicts(RangeId range, bool writing, std::vector<StepId>& after);
  void record(RangeId range, bool writing, StepId step);

 private:
  static constexpr std::uint32_t none = RangeCuts::none;
  struct Node {
    StepId writer = none;
    std::uint32_t readers = none;  // list in readers_, newest first
    RangeId used = none;           // the last of its parts that has a history, its own or below; and so on by `next`
    RangeId next = none;           // the part of its parent that had one before
    bool listed = false;           // in its parent's list of them
  };
  struct Reader {
    StepId step;
    std::uint32_t next;
  };

  // By range, some neighbours at a time: a plan may have a history for each of thousands of areas, of whose bytes it
  // names a few of its many ranges.
  static constexpr std::size_t page_size = 32;
  using Page = std::array<Node, page_size>;

  Node* find(RangeId range) const {
    const std::size_t page = range / page_size;
    return page < pages_.size() && pages_[page] ? &(*pages_[page])[range % page_size] : nullptr;
  }
  Node& find_or_add(RangeId range);
  void gather(const Node& node, bool writing, std::vector<StepId>& after) const;
  void gather_below(const Node& node, bool writing, std::vector<StepId>& after) const;
  void forget(Node& node);

  const RangeCuts& cuts_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<Reader> readers_;
  std::vector<StepId> found_;
};

}  // namespace fabring
