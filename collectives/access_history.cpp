#include "collectives/access_history.hpp"

namespace fabring {

AccessHistory::Node& AccessHistory::find_or_add(RangeId range) {
  const std::size_t page = range / page_size;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (!pages_[page]) pages_[page] = std::make_unique<Page>();
  return (*pages_[page])[range % page_size];
}

void AccessHistory::gather(RangeId range, bool writing, std::vector<StepId>& after) const {
  const Node* node = find(range);
  if (!node) return;
  if (node->writer != none) after.push_back(node->writer);
  if (!writing) return;
  for (std::uint32_t r = node->readers; r != none; r = readers_[r].next) after.push_back(readers_[r].step);
}

void AccessHistory::gather_below(RangeId range, bool writing, std::vector<StepId>& after) const {
  const Node* node = find(range);
  if (!node) return;
  for (const RangeId child : node->used) {
    gather(child, writing, after);
    gather_below(child, writing, after);
  }
}

void AccessHistory::conflicts(RangeId range, bool writing, std::vector<StepId>& after) {
  if (cuts_.empty(range)) return;
  found_.clear();
  // The newest write that covers all of `range`: every older access to these bytes came before that write.
  StepId newest_cover = none;
  const auto covers = [&](RangeId other) {
    const Node* node = find(other);
    const StepId writer = node ? node->writer : none;
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
  if (!find(range)) return;
  Node& node = find_or_add(range);
  node.writer = none;
  node.readers = none;
  for (const RangeId child : node.used) {
    forget(child);
    find_or_add(child).listed = false;
  }
  node.used.clear();
}

void AccessHistory::record(RangeId range, bool writing, StepId step) {
  if (cuts_.empty(range)) return;
  Node& node = find_or_add(range);
  if (writing) {
    forget(range);
    cuts_.overlapping_siblings(range, [&](RangeId other) {
      if (cuts_.contains(range, other)) forget(other);
    });
    node.writer = step;
  } else {
    readers_.push_back({step, node.readers});
    node.readers = static_cast<std::uint32_t>(readers_.size() - 1);
  }
  for (RangeId at = range; at != 0; at = cuts_.range(at).parent) {
    Node& below = find_or_add(at);
    if (below.listed) break;
    below.listed = true;
    find_or_add(cuts_.range(at).parent).used.push_back(at);
  }
}

}  // namespace fabring
