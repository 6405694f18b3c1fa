// Hierarchical all-gather and reduce-scatter: each block crosses between nodes N - 1 times, along a ring of the nodes
// or a circulant graph over them. On every node one rank, its carrier, takes and passes it (carriers.hpp), so that all
// local ranks share the work. Blocks of ranks do not lie together, so each is a message. N - 1 or log2 N rounds between
// nodes and one inside, or the same backwards.

#include <utility>

#include "collectives/algorithms/carriers.hpp"
#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// Scratch areas of a block each. What is sent in one round is free again after the next: a rank that had to wait for
/// its own send before it takes in what others send in the same round could wait for itself.
class BlockAreas {
 public:
  explicit BlockAreas(PlanBuilder& plan) : plan_(plan) {}
  Block take(RangeId block) {
    if (free_.empty()) return plan_.scratch(block);
    const Block area = free_.back();
    free_.pop_back();
    return PlanBuilder::in(area, block);
  }
  void give_back(const Block& area) { sent_.push_back(area); }
  void next_round() {
    free_.insert(free_.end(), sent_before_.begin(), sent_before_.end());
    sent_before_ = std::exchange(sent_, {});
  }

 private:
  PlanBuilder& plan_;
  std::vector<Block> free_, sent_before_, sent_;
};

/// The sums this rank carries, by the rank whose block it is.
class CarriedSums {
 public:
  CarriedSums(PlanBuilder& plan, const Carriers& carriers)
      : plan_(plan), carriers_(carriers), areas_(plan), begun_(at(carriers.nodes())), sums_(at(plan.size())) {}

  /// This node's share of the sums of a node's blocks, unless it is there.
  void begin(int home) {
    const std::size_t node = at(modulo(home, carriers_.nodes()));
    if (begun_[node]) return;
    begun_[node] = true;
    const int own = carriers_.own();
    carriers_.for_blocks_of(home, own, [&](Rank rank, Rank carrier, Rank) {
      const RangeId block = plan_.block(rank);
      if (carrier != plan_.rank()) return plan_.send(carrier, plan_.input(block));
      sums_[at(rank)] = plan_.input(block);
      for (const Rank local : carriers_.node(own)) {
        if (local != plan_.rank()) add(rank, local, /*incoming_first=*/local < plan_.rank());
      }
    });
  }

  /// Takes a part of the sum of this rank's block from `peer`.
  void add(Rank rank, Rank peer, bool incoming_first) {
    Block& sum = sums_[at(rank)];
    const Block before = sum;
    if (sum.space == Space::input) sum = rank == plan_.rank() ? plan_.output(sum.range) : areas_.take(sum.range);
    plan_.recv_reduce(peer, sum, before, incoming_first);
  }

  void send(Rank rank, Rank peer) {
    const Block& sum = sums_[at(rank)];
    plan_.send(peer, sum);
    if (sum.space == Space::scratch) areas_.give_back(sum);
  }
  void next_round() { areas_.next_round(); }

 private:
  PlanBuilder& plan_;
  const Carriers& carriers_;
  BlockAreas areas_;
  std::vector<bool> begun_;  // by node
  std::vector<Block> sums_;  // by rank
};

}  // namespace

void all_gather_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan.rank(), request.node_of);
  const int own = carriers.own();
  const auto share_inside = [&](Arc homes) {
    for (int k = 0; k < homes.count; ++k) {
      carriers.for_blocks_of(homes.first + k, own, [&](Rank rank, Rank carrier, Rank) {
        if (carrier != plan.rank()) return plan.recv(carrier, plan.block(rank));
        for (const Rank local : carriers.node(own)) {
          if (local != plan.rank()) plan.send(local, plan.block(rank));
        }
      });
    }
  };
  Arc arrived{own, 1};
  for (const Exchange& exchange : reversed(carriers.rounds())) {
    for (int k = 0; k < exchange.send.count; ++k) {
      carriers.for_blocks_of(exchange.send.first + k, exchange.to, [&](Rank rank, Rank carrier, Rank next) {
        if (carrier == plan.rank()) plan.send(next, plan.block(rank));
      });
    }
    share_inside(arrived);  // after what goes to other nodes, which takes longer
    arrived = exchange.receive;
    for (int k = 0; k < arrived.count; ++k) {
      carriers.for_blocks_of(arrived.first + k, exchange.from, [&](Rank rank, Rank carrier, Rank previous) {
        if (carrier == plan.rank()) plan.recv(previous, plan.block(rank));
      });
    }
  }
  share_inside(arrived);
}

// A block's sum ends on its own node.
void reduce_scatter_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan.rank(), request.node_of);
  CarriedSums sums(plan, carriers);
  for (const Exchange& exchange : carriers.rounds()) {
    for (int k = 0; k < exchange.send.count; ++k) {
      const int home = exchange.send.first + k;
      sums.begin(home);
      carriers.for_blocks_of(home, exchange.to, [&](Rank rank, Rank carrier, Rank next) {
        if (carrier == plan.rank()) sums.send(rank, next);
      });
    }
    for (int k = 0; k < exchange.receive.count; ++k) {
      const int home = exchange.receive.first + k;
      sums.begin(home);
      carriers.for_blocks_of(home, exchange.from, [&](Rank rank, Rank carrier, Rank previous) {
        if (carrier == plan.rank()) sums.add(rank, previous, /*incoming_first=*/true);
      });
    }
    sums.next_round();
  }
  sums.begin(carriers.own());  // one node has no rounds
  finish_if_avg(plan, request.op, plan.block(plan.rank()));
}

}  // namespace fabring
