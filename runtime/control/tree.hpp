#pragma once
// Tree: who is whose neighbour on the control plane. Rank r's parent is (r - 1) / arity. Pure.

#include <vector>

#include "fabring/types.hpp"

namespace fabring {

struct Tree {
  static constexpr int arity = 8;
  int world_size = 1;

  Rank parent(Rank rank) const { return rank == 0 ? -1 : (rank - 1) / arity; }

  std::vector<Rank> children(Rank rank) const {
    std::vector<Rank> found;
    for (int i = 1; i <= arity; ++i) {
      const auto child = static_cast<std::int64_t>(rank) * arity + i;
      if (child < world_size) found.push_back(static_cast<Rank>(child));
    }
    return found;
  }

  std::vector<Rank> neighbours(Rank rank) const {
    std::vector<Rank> found;
    if (rank > 0) found.push_back(parent(rank));
    for (Rank child : children(rank)) found.push_back(child);
    return found;
  }

  bool is_in_subtree(Rank rank, Rank top) const {
    while (rank > top) rank = parent(rank);
    return rank == top;
  }

  /// The neighbour of `self` on the way to another rank.
  Rank towards(Rank self, Rank other) const {
    if (!is_in_subtree(other, self)) return parent(self);
    while (parent(other) != self) other = parent(other);
    return other;
  }

  /// Messages of `origin` come to `self` by way of `neighbour` only.
  bool comes_by(Rank self, Rank neighbour, Rank origin) const {
    if (origin < 0 || origin >= world_size || origin == self) return false;
    return neighbour == parent(self) ? !is_in_subtree(origin, self) : is_in_subtree(origin, neighbour);
  }

  /// By rank: is there still a way from `self`, when the ranks marked in `gone` pass nothing on? A rank that is gone
  /// counts as not reachable, `self` as reachable.
  std::vector<bool> reachable(Rank self, const std::vector<bool>& gone) const {
    std::vector<bool> found(static_cast<std::size_t>(world_size));
    std::vector<Rank> next{self};
    found[static_cast<std::size_t>(self)] = true;
    while (!next.empty()) {
      const Rank rank = next.back();
      next.pop_back();
      for (Rank other : neighbours(rank)) {
        const auto index = static_cast<std::size_t>(other);
        if (found[index] || gone[index]) continue;
        found[index] = true;
        next.push_back(other);
      }
    }
    return found;
  }
};

}  // namespace fabring
