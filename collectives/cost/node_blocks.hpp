#pragma once
// Where a rank is if each node's ranks are neighbours: all that a shape tells. As many nodes have `most` ranks as leave
// the others `least`, and the others are as if of one size; they come after `full_before` of the full ones.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/cost/machine.hpp"

namespace fabring::cost {

struct NodeBlocks {
  std::int64_t ranks = 1, nodes = 1, most = 1, full = 1, full_before = 1;

  static NodeBlocks of(const WorldShape& shape) {
    NodeBlocks blocks{shape.ranks, shape.nodes, shape.most, shape.nodes, shape.nodes};
    if (shape.least == shape.most) return blocks;
    blocks.full = (blocks.ranks - blocks.nodes * shape.least) / (shape.most - shape.least);
    blocks.full_before = std::min<std::int64_t>(shape.full_before, blocks.full);
    return blocks;
  }

  std::size_t node(std::int64_t rank) const {
    const std::int64_t in_smaller = ranks - full * most;
    const std::int64_t past = rank - full_before * most;
    if (past < 0) return static_cast<std::size_t>(rank / most);
    if (past >= in_smaller) return static_cast<std::size_t>(nodes - 1 - (ranks - 1 - rank) / most);
    return static_cast<std::size_t>(full_before + past * (nodes - full) / in_smaller);
  }
  friend bool operator==(const NodeBlocks&, const NodeBlocks&) = default;
};

}  // namespace fabring::cost
