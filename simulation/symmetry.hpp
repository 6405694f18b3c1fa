#pragma once
// Symmetry of a world: ranks that do the same thing at the same time. In a ring over equal nodes every node does what
// the first does, one node further; in recursive doubling, what rank r does with rank p, rank r^x does with rank p^x.
// Then the plans of one unit (the ranks of one node, or of one leaf switch) stand for all, and simulating one unit
// whose outgoing messages come back as its incoming ones gives the times of the whole world. make_schedule() does not
// assume this of an algorithm: it compares plans.

#include <cstdint>

#include "fabring/types.hpp"

namespace fabring::simulation {

/// Element e moves rank r to r + e * unit (modulo ranks), or to r xor e * unit.
struct Symmetry {
  enum class Action : std::uint8_t { none, shift, exclusive_or };
  Action action = Action::none;
  int ranks = 1;
  int unit = 1;  ///< ranks [0, unit) stand for all; without symmetry, all ranks

  int class_of(Rank rank) const { return rank % unit; }
  int element_of(Rank rank) const { return rank / unit; }
  Rank move(int element, Rank rank) const { return moved(element * unit, rank); }
  /// By the element that moves rank 0 to `first`.
  Rank moved(Rank first, Rank rank) const {
    if (action == Action::exclusive_or) return rank ^ first;
    const std::int64_t sum = std::int64_t{rank} + first;
    return static_cast<Rank>(sum < ranks ? sum : sum - ranks);
  }
  int inverse(int element) const {
    const int elements = ranks / unit;
    return action == Action::exclusive_or ? element : (elements - element) % elements;
  }
};

}  // namespace fabring::simulation
