#pragma once
// Tree: who is whose neighbour on the control plane at the start. Rank r's parent is (r - 1) / arity. Pure.

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
};

}  // namespace fabring
