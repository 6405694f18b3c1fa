#pragma once
// JoinedTree: who is whose parent on the control plane now. It begins as the Tree; where ranks have gone, those below
// them take another parent, always one of a lower number, so that there is no ring at any moment, whatever two ranks
// believe. A living ancestor is best, the nearest first; else the lowest living rank, under which all end together, and
// which needs no parent. Pure; the caller locks.

#include <algorithm>
#include <vector>

#include "runtime/control/tree.hpp"

namespace fabring {

class JoinedTree {
 public:
  explicit JoinedTree(int world_size)
      : tree_{world_size}, parent_(static_cast<std::size_t>(world_size)), gone_(static_cast<std::size_t>(world_size)) {
    for (Rank rank = 0; rank < world_size; ++rank) parent_[index(rank)] = tree_.parent(rank);
  }

  bool is_rank(Rank rank) const { return rank >= 0 && rank < tree_.world_size; }
  bool is_gone(Rank rank) const { return gone_[index(rank)]; }
  /// Has none gone yet, none moved, and no connection been made anew? Then it is the Tree. One may move first: it has
  /// noticed before this rank that its parent has gone.
  bool is_whole() const { return whole_; }
  void mark_gone(Rank rank) {
    whole_ = false;
    gone_[index(rank)] = true;
  }

  /// Two ranks have a new connection, and say again what they know; or another believes that one has moved. Messages
  /// may come by other ways.
  void mark_mended() { whole_ = false; }

  Rank parent(Rank rank) const { return parent_[index(rank)]; }
  /// False, and nothing changes: a parent has a lower number.
  bool set_parent(Rank child, Rank parent) {
    if (!is_rank(child) || parent < 0 || parent >= child) return false;
    parent_[index(child)] = parent;
    whole_ = whole_ && !has_moved(child);
    return true;
  }
  /// Has another parent than it began with?
  bool has_moved(Rank rank) const { return parent(rank) != tree_.parent(rank); }

  /// Its parent has gone. The lowest living rank may be one for good.
  bool is_orphan(Rank rank) const { return !is_gone(rank) && parent(rank) >= 0 && is_gone(parent(rank)); }

  /// Whom a rank asks to be its parent, best first. None: it is the lowest that lives.
  std::vector<Rank> parents_for(Rank rank) const {
    std::vector<Rank> found;
    for (Rank up = tree_.parent(rank); up >= 0; up = tree_.parent(up))
      if (!is_gone(up)) found.push_back(up);
    const std::size_t ancestors = found.size();
    for (Rank lower = 0; lower < rank; ++lower)
      if (!is_gone(lower) && std::find(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(ancestors), lower) ==
                                 found.begin() + static_cast<std::ptrdiff_t>(ancestors))
        found.push_back(lower);
    return found;
  }

  /// The first of parents_for: who sees to it that this orphan is found, or found dead. -1: nobody.
  Rank guardian(Rank rank) const {
    for (Rank up = tree_.parent(rank); up >= 0; up = tree_.parent(up))
      if (!is_gone(up)) return up;
    for (Rank lower = 0; lower < rank; ++lower)
      if (!is_gone(lower)) return lower;
    return -1;
  }

  /// Is there a way from one to the other? Not to one that has gone.
  bool reaches(Rank from, Rank to) const {
    if (is_gone(to)) return false;
    return is_whole() || top(from) == top(to);
  }

  /// The neighbour of `self` on the way to another rank; -1: none.
  Rank towards(Rank self, Rank other) const {
    if (!reaches(self, other)) return -1;
    for (Rank below = other; below > self; below = parent(below))
      if (parent(below) == self) return below;
    return parent(self);
  }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  Rank top(Rank rank) const {
    while (parent(rank) >= 0 && !is_gone(parent(rank))) rank = parent(rank);
    return rank;
  }

  const Tree tree_;
  std::vector<Rank> parent_;
  std::vector<bool> gone_;
  bool whole_ = true;
};

}  // namespace fabring
