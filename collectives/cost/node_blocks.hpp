#pragma once
// Where a rank is if each node's ranks are neighbours, the largest node first and the others as if of one size: all
// that a shape tells.

#include <cstddef>
#include <cstdint>

namespace fabring::cost {

struct NodeBlocks {
  std::int64_t ranks = 1, nodes = 1, most = 1;

  std::size_t node(std::int64_t rank) const {
    return static_cast<std::size_t>(rank < most ? 0 : 1 + (rank - most) * (nodes - 1) / (ranks - most));
  }
  friend bool operator==(const NodeBlocks&, const NodeBlocks&) = default;
};

}  // namespace fabring::cost
