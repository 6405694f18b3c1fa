#include "collectives/written_ranges.hpp"

namespace fabring {

void WrittenRanges::mark(RangeId range) {
  nodes_.resize(cuts_.size());
  cut_states_.resize(cuts_.cut_count());
  if (cuts_.empty(range)) return;
  for (RangeId at = range;; at = cuts_.range(at).parent) {
    nodes_[at].touched = true;
    if (at == 0) break;
  }
  for (RangeId at = range; !nodes_[at].all; at = cuts_.range(at).parent) {
    nodes_[at].all = true;
    if (at == 0) return;
    const Range& shape = cuts_.range(at);
    CutState& cut = cut_states_[cuts_.place(at).cut];
    cut.written.resize(shape.parts);
    for (std::uint32_t i = shape.first; i < shape.last; ++i) {
      if (!cut.written[i]) ++cut.count;
      cut.written[i] = true;
    }
    if (cut.count < shape.parts) return;
  }
}

bool WrittenRanges::cells_written(RangeId range, bool any) const {
  const CutState& cut = cut_states_[cuts_.place(range).cut];
  const Range& shape = cuts_.range(range);
  if (cut.count == 0) return false;
  for (std::uint32_t i = shape.first; i < shape.last; ++i) {
    if (cut.written[i] == any) return any;
  }
  return !any;
}

Written WrittenRanges::of(RangeId range) {
  nodes_.resize(cuts_.size());
  cut_states_.resize(cuts_.cut_count());
  if (cuts_.empty(range)) return Written::nothing;
  bool touched = nodes_[range].touched;
  for (RangeId at = range;; at = cuts_.range(at).parent) {
    if (nodes_[at].all) return Written::all;
    if (at == 0) break;
    if (cells_written(at, false)) return Written::all;
    touched = touched || cells_written(at, true);
    cuts_.overlapping_siblings(at, [&](RangeId other) { touched = touched || nodes_[other].touched; });
  }
  return touched ? Written::partly : Written::nothing;
}

}  // namespace fabring
