#pragma once
// RangeCuts: the ranges of a plan under construction, found by what they are: (parent, parts) is a cut, and a range is
// some neighbouring parts of one. Owned by a PlanBuilder. Whether two ranges overlap is decided from these numbers
// alone, since element counts come later; two different cuts of one range count as overlapping everywhere (their
// bounds cross differently for different counts: 3/7 lies before 1/2 of 13 elements and after 1/2 of 10).

#include <cstdint>
#include <vector>

#include "collectives/plan.hpp"

namespace fabring {

class RangeCuts {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Cut {
    std::uint32_t parts = 1;
    std::uint32_t next = none;     // another cut of the same range
    std::vector<RangeId> single;   // single[i]: the range of part i alone, or none
    std::vector<RangeId> several;  // ranges of several parts or of no part
  };
  struct Place {
    std::uint32_t first_cut = none;  // first cut of this range
    std::uint32_t cut = none;        // the cut it is a part of
  };

  explicit RangeCuts(std::vector<Range>& ranges) : ranges_(ranges), places_(1) {}

  /// The id of this range; added if new. All parts of a range are the range itself.
  RangeId find_or_add(Range wanted);

  const Range& range(RangeId id) const { return ranges_[id]; }
  const Place& place(RangeId id) const { return places_[id]; }
  const Cut& cut(std::uint32_t index) const { return cuts_[index]; }
  std::size_t size() const { return places_.size(); }
  std::size_t cut_count() const { return cuts_.size(); }
  bool empty(RangeId id) const { return ranges_[id].first == ranges_[id].last; }

  /// Calls visit(other) for every other range with the same parent that overlaps `id` or may.
  template <class Visit>
  void overlapping_siblings(RangeId id, Visit visit) const {
    if (id == 0) return;
    const Range& range = ranges_[id];
    const Cut& own = cuts_[places_[id].cut];
    for (std::uint32_t i = range.first; i < range.last && i < own.single.size(); ++i) {
      if (own.single[i] != none && own.single[i] != id) visit(own.single[i]);
    }
    for (const RangeId other : own.several) {
      if (other != id && ranges_[other].first < range.last && range.first < ranges_[other].last) visit(other);
    }
    for (std::uint32_t c = places_[range.parent].first_cut; c != none; c = cuts_[c].next) {
      if (c == places_[id].cut) continue;
      for (const RangeId other : cuts_[c].single) {
        if (other != none) visit(other);
      }
      for (const RangeId other : cuts_[c].several) {
        if (!empty(other)) visit(other);
      }
    }
  }

  /// Both are of the same cut, and every part of `inner` is one of `outer`.
  bool contains(RangeId outer, RangeId inner) const {
    return places_[outer].cut == places_[inner].cut && ranges_[outer].first <= ranges_[inner].first &&
           ranges_[inner].last <= ranges_[outer].last;
  }

 private:
  std::uint32_t find_or_add_cut(RangeId parent, std::uint32_t parts);

  std::vector<Range>& ranges_;
  std::vector<Place> places_;  // by range
  std::vector<Cut> cuts_;
};

}  // namespace fabring
