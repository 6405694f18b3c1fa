#include "collectives/cost/tree_crossings.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace fabring::cost {
namespace {

class Counting {
 public:
  explicit Counting(const NodeBlocks& blocks)
      : blocks_(blocks), edges_(at(blocks.nodes)), to_children_(at(blocks.nodes)) {}

  Crossings count(Trees trees) {
    const std::int64_t below = trees == Trees::two_binary_below_root ? 1 : 0;  // this rank
    const std::int64_t positions = blocks_.ranks - below;
    for (std::int64_t tree = 0; tree < (trees == Trees::binomial ? 1 : 2); ++tree) {
      const auto rank = [&](std::int64_t position) {
        if (tree == 0) return below + position;
        return below + (positions % 2 == 0 ? positions - 1 - position : (position + 1) % positions);
      };
      const auto above = [&](std::int64_t position) {
        const std::int64_t bit = position & -position;
        if (trees == Trees::binomial) return position - bit;
        const std::int64_t parent = (position - bit) | (2 * bit);
        return parent < positions ? parent : position - bit;
      };
      std::vector<Way> ways(at(positions));
      if (below == 1) ways[0] = step({}, 0, rank(0));
      found_.depth = std::max(found_.depth, ways[0].edges);
      // What is above a position has a higher lowest bit.
      for (auto bit = static_cast<std::int64_t>(std::bit_floor(at(positions - 1))); bit > 0; bit /= 2) {
        for (std::int64_t position = bit; position < positions; position += 2 * bit) {
          const std::int64_t parent = above(position);
          ways[at(position)] = step(ways[at(parent)], rank(parent), rank(position));
        }
      }
    }
    found_.of_a_node = *std::max_element(edges_.begin(), edges_.end());
    found_.to_children = *std::max_element(to_children_.begin(), to_children_.end());
    return found_;
  }

 private:
  struct Way {
    std::int64_t edges = 0, crossing = 0;
  };

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  /// The way to a rank below one that ends this way.
  Way step(Way way, std::int64_t from, std::int64_t to) {
    const std::size_t above = blocks_.node(from);
    const std::size_t below = blocks_.node(to);
    ++way.edges;
    if (above != below) {
      ++way.crossing;
      ++edges_[above];
      ++edges_[below];
      ++to_children_[above];
    }
    found_.on_a_way = std::max(found_.on_a_way, way.crossing);
    found_.depth = std::max(found_.depth, way.edges);
    return way;
  }

  const NodeBlocks& blocks_;
  std::vector<std::int64_t> edges_, to_children_;  // by node
  Crossings found_;
};

}  // namespace

const Crossings& crossings(const NodeBlocks& blocks, Trees trees) {
  struct Counted {
    NodeBlocks blocks{.ranks = 0};
    Crossings crossings;
  };
  thread_local std::array<Counted, 3> counted;
  Counted& known = counted[static_cast<std::size_t>(trees)];
  if (!(known.blocks == blocks)) known = {blocks, Counting(blocks).count(trees)};
  return known.crossings;
}

}  // namespace fabring::cost
