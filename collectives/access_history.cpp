#include "collectives/access_history.hpp"

namespace fabring {

void AccessHistory::gather(RangeId range, bool writing, std::vector<StepId>& after) const {
  const Node& node = nodes_[range];
  if (node.writer != none) after.push_back(node.writer);
  if (!writing) return;
  for (std::uint32_t r = node.readers; r != none; r = readers_[r].next) after.push_back(readers_[r].step);
}

void AccessHistory::gather_below(RangeId range, bool writing, std::vector<StepId>& after) const {
  for (const RangeId child : nodes_[range].used) {
    gather(child, writing, after);
    gather_below(child, writing, after);
  }
}

void AccessHistory::conflicts(RangeId range, bool writing, std::vector<StepId>& after) {
  if (cuts_.empty(range)) return;
  nodes_.resize(cuts_.size());
  found_.clear();
  // The newest write that covers all of `range`: every older access to these bytes came before that write.
  StepId newest_cover = none;
  const auto covers = [&](RangeId other) {
    const StepId writer = nodes_[other].writer;
    if (writer != none && (newest_cover == none || writer > newest_cover)) newest_cover = writer;
  };

  gather_below(range, writing, found_);
  for (RangeId at = range;; at = cuts_.range(at).parent) {
    gather(at, writing, found_);
    covers(at);
    cuts_.overlapping_siblings(at, [&](RangeId other) {
      if (cuts_.contains(other, at)) covers(other);
      gather(other, writing, found_);
      gather_below(other, writing, found_);
    });
    if (at == 0) break;
  }

  bool newer = false;
  for (const StepId step : found_) {
    if (newest_cover != none && step <= newest_cover) continue;
    after.push_back(step);
    newer = true;
  }
  // What is newer than the covering write conflicts with it, hence already waits for it.
  if (!newer && newest_cover != none) after.push_back(newest_cover);
}

void AccessHistory::forget(RangeId range) {
  Node& node = nodes_[range];
  node.writer = none;
  node.readers = none;
  for (const RangeId child : node.used) {
    forget(child);
    nodes_[child].listed = false;
  }
  node.used.clear();
}

void AccessHistory::record(RangeId range, bool writing, StepId step) {
  if (cuts_.empty(range)) return;
  nodes_.resize(cuts_.size());
  if (writing) {
    forget(range);
    cuts_.overlapping_siblings(range, [&](RangeId other) {
      if (cuts_.contains(range, other)) forget(other);
    });
    nodes_[range].writer = step;
  } else {
    readers_.push_back({step, nodes_[range].readers});
    nodes_[range].readers = static_cast<std::uint32_t>(readers_.size() - 1);
  }
  for (RangeId at = range; at != 0 && !nodes_[at].listed; at = cuts_.range(at).parent) {
    nodes_[at].listed = true;
    nodes_[cuts_.range(at).parent].used.push_back(at);
  }
}

}  // namespace fabring
