#include "collectives/range_cuts.hpp"

#include "runtime/base/check.hpp"

namespace fabring {

std::uint32_t RangeCuts::find_or_add_cut(RangeId parent, std::uint32_t parts) {
  for (std::uint32_t c = places_[parent].first_cut; c != none; c = cuts_[c].next) {
    if (cuts_[c].parts == parts) return c;
  }
  const auto index = static_cast<std::uint32_t>(cuts_.size());
  cuts_.push_back({parts, places_[parent].first_cut, {}, {}});
  places_[parent].first_cut = index;
  return index;
}

RangeId RangeCuts::find_or_add(Range wanted) {
  FABRING_CHECK(wanted.parent < ranges_.size());
  FABRING_CHECK(wanted.first <= wanted.last && wanted.last <= wanted.parts && wanted.parts > 0);
  if (wanted.first == 0 && wanted.last == wanted.parts) return wanted.parent;

  const std::uint32_t index = find_or_add_cut(wanted.parent, wanted.parts);
  Cut& cut = cuts_[index];
  const auto id = static_cast<RangeId>(ranges_.size());
  if (wanted.last - wanted.first == 1) {
    if (cut.single.size() <= wanted.first) cut.single.resize(wanted.parts, none);
    RangeId& known = cut.single[wanted.first];
    if (known != none) return known;
    known = id;
  } else {
    for (const RangeId other : cut.several) {
      if (ranges_[other].first == wanted.first && ranges_[other].last == wanted.last) return other;
    }
    cut.several.push_back(id);
  }
  ranges_.push_back(wanted);
  places_.push_back({none, index});
  return id;
}

}  // namespace fabring
