#include "collectives/access_history.hpp"

#include <utility>

namespace fabring {

AccessHistory::Node& AccessHistory::find_or_add(RangeId range) {
  const std::size_t page = range / page_size;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (!pages_[page]) pages_[page] = std::make_unique<Page>();
  return (*pages_[page])[range % page_size];
}

void AccessHistory::gather(const Node& node, bool writing, std::vector<StepId>& after) const {
  if (node.writer != none) after.push_back(node.writer);
  if (!writing) return;
  for (std::uint32_t r = node.readers; r != none; r = readers_[r].next) after.push_back(readers_[r].step);
}

void AccessHistory::gather_below(const Node& node, bool writing, std::vector<StepId>& after) const {
  for (RangeId child = node.used; child != none;) {
    const Node& below = *find(child);
    gather(below, writing, after);
    gather_below(below, writing, after);
    child = below.next;
  }
}

void AccessHistory::conflicts(RangeId range, bool writing, std::vector<StepId>& after) {
  if (cuts_.empty(range)) return;
  found_.clear();
  // The newest write that covers all of `range`: every older access to these bytes came before that write.
  StepId newest_cover = none;
  const auto covers = [&](const Node& node) {
    if (node.writer != none && (newest_cover == none || node.writer > newest_cover)) newest_cover = node.writer;
  };

  if (const Node* node = find(range)) gather_below(*node, writing, found_);
  for (RangeId at = range;; at = cuts_.range(at).parent) {
    if (const Node* node = find(at)) {
      gather(*node, writing, found_);
      covers(*node);
    }
    cuts_.overlapping_siblings(at, [&](RangeId other) {
      const Node* node = find(other);
      if (node == nullptr) return;
      if (cuts_.contains(other, at)) covers(*node);
      gather(*node, writing, found_);
      gather_below(*node, writing, found_);
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

void AccessHistory::forget(Node& node) {
  node.writer = none;
  node.readers = none;
  for (RangeId child = std::exchange(node.used, none); child != none;) {
    Node& below = *find(child);
    forget(below);
    below.listed = false;
    child = std::exchange(below.next, none);
  }
}

void AccessHistory::record(RangeId range, bool writing, StepId step) {
  if (cuts_.empty(range)) return;
  Node& node = find_or_add(range);
  if (writing) {
    forget(node);
    cuts_.overlapping_siblings(range, [&](RangeId other) {
      Node* const within = cuts_.contains(range, other) ? find(other) : nullptr;
      if (within != nullptr) forget(*within);
    });
    node.writer = step;
  } else {
    readers_.push_back({step, node.readers});
    node.readers = static_cast<std::uint32_t>(readers_.size() - 1);
  }
  for (RangeId at = range; at != 0;) {
    Node& below = *find(at);
    if (below.listed) break;
    below.listed = true;
    const RangeId parent = cuts_.range(at).parent;
    below.next = std::exchange(find_or_add(parent).used, at);
    at = parent;
  }
}

}  // namespace fabring
