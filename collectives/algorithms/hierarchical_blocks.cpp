// Hierarchical all-gather and reduce-scatter: each block crosses between nodes N - 1 times, along a ring of the nodes.
// On every node one rank, its carrier, takes and passes it: the one at the same place in its node as the block's own
// rank, so that all local ranks share the work. N - 1 rounds between nodes and one inside, or the same backwards.

#include <algorithm>
#include <array>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

class Carriers {
 public:
  Carriers(const PlanBuilder& plan, std::span<const int> node_of) : nodes_(make_lanes(node_of).nodes) {
    while (node_of[at(nodes_[at(own_)].front())] != node_of[at(plan.rank())]) ++own_;
  }

  int nodes() const { return static_cast<int>(nodes_.size()); }
  const std::vector<Rank>& node(int index) const { return nodes_[at(modulo(index, nodes()))]; }
  int own() const { return own_; }
  /// The rank on `node` that carries the block of the rank at place `local` of node `home`.
  Rank carrier(int node, int home, std::size_t local) const {
    if (modulo(node - home, nodes()) == 0) return this->node(home)[local];
    return this->node(node)[local * this->node(node).size() / this->node(home).size()];
  }

 private:
  std::vector<std::vector<Rank>> nodes_;
  int own_ = 0;
};

}  // namespace

void all_gather_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan, request.node_of);
  const int own = carriers.own();
  for (int hop = 0; hop < carriers.nodes(); ++hop) {  // blocks that have come this far
    const int home = own - hop;
    for (std::size_t i = 0; i < carriers.node(home).size(); ++i) {
      const RangeId block = plan.block(carriers.node(home)[i]);
      const Rank carrier = carriers.carrier(own, home, i);
      if (carrier != plan.rank()) {
        plan.recv(carrier, block);
        continue;
      }
      if (hop > 0) plan.recv(carriers.carrier(own - 1, home, i), block);
      if (hop + 1 < carriers.nodes()) plan.send(carriers.carrier(own + 1, home, i), block);
      for (const Rank local : carriers.node(own)) {
        if (local != plan.rank()) plan.send(local, block);
      }
    }
  }
}

// A block's sum starts on the node after its own and ends there. Partial sums wait in a few areas in turn.
void reduce_scatter_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan, request.node_of);
  const int own = carriers.own();
  std::array<Block, 4> areas;
  std::size_t used = 0;
  for (int hop = 1; hop <= carriers.nodes(); ++hop) {
    const int home = own - hop;
    const bool at_home = hop == carriers.nodes();
    for (std::size_t i = 0; i < carriers.node(home).size(); ++i) {
      const RangeId block = plan.block(carriers.node(home)[i]);
      const Rank carrier = carriers.carrier(own, home, i);
      if (carrier != plan.rank()) {
        plan.send(carrier, plan.input(block));
        continue;
      }
      const bool computes = carriers.node(own).size() > 1 || hop > 1;
      Block to = plan.output(block);
      if (!at_home && computes) {
        Block& area = areas[used % areas.size()];
        if (used++ < areas.size()) area = plan.scratch(block);
        to = PlanBuilder::in(area, block);
      }
      Block sum = plan.input(block);
      for (const Rank local : carriers.node(own)) {
        if (local == plan.rank()) continue;
        plan.recv_reduce(local, to, sum, local < plan.rank());
        sum = to;
      }
      if (hop > 1) {
        plan.recv_reduce(carriers.carrier(own - 1, home, i), to, sum, /*incoming_first=*/true);
        sum = to;
      }
      if (at_home) {
        finish_if_avg(plan, request.op, to);
      } else {
        plan.send(carriers.carrier(own + 1, home, i), sum);
      }
    }
  }
}

}  // namespace fabring
