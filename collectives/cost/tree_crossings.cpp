#include "collectives/cost/tree_crossings.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace fabring::cost {
namespace {

// Goes to the root from every rank.
Crossings count_crossings(std::int64_t n, std::int64_t nodes, std::int64_t most, std::int64_t trees) {
  const auto above = [&](std::int64_t position) {
    const std::int64_t bit = position & -position;
    if (trees == 1) return position - bit;
    const std::int64_t parent = (position - bit) | (2 * bit);
    return parent < n ? parent : position - bit;
  };
  Crossings found;
  std::vector<std::int64_t> edges(static_cast<std::size_t>(nodes));
  for (std::int64_t tree = 0; tree < trees; ++tree) {
    const auto node = [&](std::int64_t position) {
      const std::int64_t rank = tree == 0 ? position : n % 2 == 0 ? n - 1 - position : (position + 1) % n;
      if (rank < most) return std::size_t{0};
      return static_cast<std::size_t>(1 + (rank - most) * (nodes - 1) / (n - most));
    };
    for (std::int64_t position = 1; position < n; ++position) {
      std::int64_t way = 0;
      for (std::int64_t at = position; at != 0; at = above(at)) {
        if (node(at) == node(above(at))) continue;
        ++way;
        if (at != position) continue;
        ++edges[node(at)];
        ++edges[node(above(at))];
      }
      found.on_a_way = std::max(found.on_a_way, way);
    }
  }
  found.of_a_node = *std::max_element(edges.begin(), edges.end());
  return found;
}

}  // namespace

const Crossings& crossings(std::int64_t n, std::int64_t nodes, std::int64_t most, std::int64_t trees) {
  struct Counted {
    std::array<std::int64_t, 3> shape{};
    Crossings crossings;
  };
  thread_local std::array<Counted, 2> counted;  // one tree, two trees
  Counted& known = counted[trees == 1 ? 0 : 1];
  if (const std::array<std::int64_t, 3> shape{n, nodes, most}; known.shape != shape)
    known = {shape, count_crossings(n, nodes, most, trees)};
  return known.crossings;
}

}  // namespace fabring::cost
