#pragma once
// Carriers: which rank of a node passes on the blocks of other nodes' ranks. Internal to collectives/algorithms/.

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

/// The nodes in the order of their lowest ranks, seen from `self`'s. On every node one rank carries a block. Blocks are
/// dealt to a node's ranks in turn, node by node, so that each carries as many as the others, or one less, however
/// unequal nodes are. A rank carries its own; on nodes of one size, blocks of its place in all of them.
class Carriers {
 public:
  Carriers(Rank self, std::span<const int> node_of) : nodes_(make_lanes(node_of).nodes) {
    for (const auto& node : nodes_) before_.push_back(before_.back() + static_cast<int>(node.size()));
    own_ = node_with(node_of, self);
  }

  int nodes() const { return static_cast<int>(nodes_.size()); }
  int own() const { return own_; }
  int node_with(std::span<const int> node_of, Rank rank) const {
    int index = 0;
    while (node_of[at(nodes_[at(index)].front())] != node_of[at(rank)]) ++index;
    return index;
  }
  /// Its ranks; `index` modulo the number of nodes.
  const std::vector<Rank>& node(int index) const { return nodes_[at(modulo(index, nodes()))]; }
  /// What nodes exchange to reduce and scatter: arcs of nodes whose blocks travel.
  std::vector<Exchange> rounds() const {
    std::size_t largest = 0;
    for (const auto& node : nodes_) largest = std::max(largest, node.size());
    return ring_between(nodes(), static_cast<std::int64_t>(largest)) ? ring_rounds(own_, nodes())
                                                                     : circulant_rounds(own_, nodes());
  }
  /// The rank on `node` that carries the block of the rank at place `local` of node `home`.
  Rank carrier(int node, int home, std::size_t local) const {
    return this->node(node)[at(carrying_place(node, home, static_cast<int>(local)))];
  }
  int carrying_place(int node, int home, int local) const {
    const int turn = before_[at(modulo(home, nodes()))] + local - before_[at(modulo(node, nodes()))];
    return modulo(turn, static_cast<int>(this->node(node).size()));
  }
  /// Calls visit(rank of the block, its carrier on this node, its carrier on `node`) for the blocks of a node's ranks.
  template <class Visit>
  void for_blocks_of(int home, int node, Visit visit) const {
    for (std::size_t i = 0; i < this->node(home).size(); ++i) {
      visit(this->node(home)[i], carrier(own_, home, i), carrier(node, home, i));
    }
  }

 private:
  std::vector<std::vector<Rank>> nodes_;
  std::vector<int> before_ = {0};  // ranks of earlier nodes
  int own_ = 0;
};

}  // namespace fabring
