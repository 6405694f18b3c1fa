#pragma once
// Lanes: how a hierarchical allreduce shares the vector among the ranks of each node. The vector is cut into `count`
// lanes; lane k of every node belongs to one rank of it, and these ranks reduce the lane among the nodes. A value,
// the same on all ranks.

#include <cstdint>
#include <span>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

struct Lanes {
  int count = 1;
  std::vector<std::vector<Rank>> nodes;  ///< ranks of each node; nodes by their lowest rank

  /// Lanes [first, last) of the rank at position `local` of a node with `ranks` ranks; none if there are more ranks
  /// than lanes. Neighbouring lanes, in the order of the ranks, and as even as possible.
  int first_lane(int local, int ranks) const {
    return static_cast<int>((std::int64_t{local} * count + ranks - 1) / ranks);
  }
  int last_lane(int local, int ranks) const { return first_lane(local + 1, ranks); }
  /// Position in its node of the rank that has this lane.
  int position_of(int lane, int ranks) const { return static_cast<int>(std::int64_t{lane} * ranks / count); }
};

/// Lanes for nodes of `fewest` to `most` ranks: as many as leave the fewest bytes between nodes for the rank that sends
/// the most, ceil(count / fewest) lanes on the smallest node; among those, the most (docs/algorithms.md says why).
std::int64_t lane_count(std::int64_t fewest, std::int64_t most);

Lanes make_lanes(std::span<const int> node_of);

inline constexpr std::int64_t most_nodes_in_a_ring = 4;
/// Do nodes pass data around a ring? More nodes take a circulant graph: as many bytes in log2 N rounds. Nodes of one
/// rank are a ring however many they are, since there `circulant` is the graph (docs/algorithms.md says why).
constexpr bool ring_between(std::int64_t nodes, std::int64_t ranks_of_largest) {
  return nodes <= most_nodes_in_a_ring || ranks_of_largest == 1;
}

}  // namespace fabring
