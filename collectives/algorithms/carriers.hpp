#pragma once
// Carriers: which rank of a node passes on the blocks of other nodes' ranks. Internal to collectives/algorithms/.

#include <algorithm>
#include <span>
#include <vector>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

/// The nodes in the order of their lowest ranks, seen from plan.rank()'s. On every node one rank carries a block: the
/// one at the same place in its node as the block's own rank, so that all local ranks share the work.
class Carriers {
 public:
  Carriers(const PlanBuilder& plan, std::span<const int> node_of) : nodes_(make_lanes(node_of).nodes) {
    own_ = node_with(node_of, plan.rank());
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
    if (modulo(node - home, nodes()) == 0) return this->node(home)[local];
    return this->node(node)[local * this->node(node).size() / this->node(home).size()];
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
  int own_ = 0;
};

}  // namespace fabring
