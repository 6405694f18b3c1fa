// Hierarchical alltoall: inside each node every rank hands its blocks for a rank of another node to that rank's
// carrier (carriers.hpp); the carrier sends on what all of its node have for that rank as one message. Two rounds, and
// N - 1 messages between nodes for a rank instead of n - L; the bytes between nodes are those of direct_one_shot.
// Blocks of other ranks pass through, so all must be of one length.

#include <algorithm>
#include <span>

#include "collectives/algorithms/carriers.hpp"
#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// Who passes whose blocks on.
class Carriage {
 public:
  Carriage(Rank self, std::span<const int> node_of) : carriers_(self, node_of) {
    place_ = static_cast<int>(std::find(node(own()).begin(), node(own()).end(), self) - node(own()).begin());
    carried_.resize(node(own()).size());
    for (int home = 0; home < nodes(); ++home) {
      for (int i = 0; i < size_of(home); ++i)
        carried_[at(carriers_.carrying_place(own(), home, i))].push_back(node(home)[at(i)]);
    }
  }

  int nodes() const { return carriers_.nodes(); }
  int own() const { return carriers_.own(); }
  int place() const { return place_; }
  const std::vector<Rank>& node(int index) const { return carriers_.node(index); }
  /// Ranks for which the one at this place of the own node takes the blocks of all, in one order for all; itself too.
  const std::vector<Rank>& carried_by(int place) const { return carried_[at(place)]; }
  /// Who on `node` carries what is for this rank.
  Rank carrier_to_self(int node) const { return carriers_.carrier(node, own(), at(place_)); }

  /// No message on any rank has more blocks: inside a node those for all ranks that one carries for, between nodes
  /// those of all ranks of a node.
  std::uint64_t most_blocks() const {
    int ranks = 0;
    for (int index = 0; index < nodes(); ++index) ranks += size_of(index);
    int most = 1;
    for (int index = 0; index < nodes(); ++index) {
      const int size = size_of(index);
      if (size > 1) most = std::max(most, (ranks + size - 1) / size);
      if (nodes() > 1) most = std::max(most, size);
    }
    return static_cast<std::uint64_t>(most);
  }

 private:
  int size_of(int index) const { return static_cast<int>(node(index).size()); }

  Carriers carriers_;
  int place_ = 0;
  std::vector<std::vector<Rank>> carried_;  // by place in the own node
};

/// As one message; several blocks are put together in scratch.
void send_together(PlanBuilder& plan, Rank peer, std::span<const Block> blocks) {
  if (blocks.size() == 1) return plan.send(peer, blocks.front());
  const RangeId together = plan.blocks(0, static_cast<int>(blocks.size()));
  const Block area = plan.scratch(together);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    plan.copy(PlanBuilder::in(area, plan.block(static_cast<int>(i))), blocks[i]);
  }
  plan.send(peer, PlanBuilder::in(area, together));
}

/// One message with a block from each of these ranks, in this order.
void receive_together(PlanBuilder& plan, Rank peer, const std::vector<Rank>& from) {
  const int n = plan.size();
  const auto count = static_cast<int>(from.size());
  if (count == 1) return plan.recv(peer, plan.output(plan.block(n + from.front())));
  const Block area = plan.scratch(plan.blocks(0, count));
  plan.recv(peer, area);
  for (int i = 0; i < count; ++i)
    plan.copy(plan.output(plan.block(n + from[at(i)])), PlanBuilder::in(area, plan.block(i)));
}

}  // namespace

void alltoall_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const int n = plan.size();
  const Carriage carriage(plan.rank(), request.node_of);
  plan.bound_messages(carriage.most_blocks() * message_unit);
  const std::vector<Rank>& locals = carriage.node(carriage.own());
  const auto local_count = static_cast<int>(locals.size());

  std::vector<Block> together;
  for (int k = 1; k < local_count; ++k) {
    const int place = modulo(carriage.place() + k, local_count);
    together.clear();
    for (const Rank rank : carriage.carried_by(place)) together.push_back(plan.input(plan.block(rank)));
    send_together(plan, locals[at(place)], together);
  }
  const std::vector<Rank>& carried = carriage.carried_by(carriage.place());
  const bool passes_on = carried.size() > 1;
  std::vector<Block> arrived(at(local_count));  // by place: the blocks for `carried`
  for (int k = 1; k < local_count; ++k) {
    const int place = modulo(carriage.place() - k, local_count);
    const Rank from = locals[at(place)];
    if (!passes_on) {
      plan.recv(from, plan.output(plan.block(n + from)));
      continue;
    }
    arrived[at(place)] = plan.scratch(plan.blocks(0, static_cast<int>(carried.size())));
    plan.recv(from, arrived[at(place)]);
  }

  // Each node begins with the one after it, so that not all send to one at a time.
  std::vector<int> order(carried.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto own = std::find(carried.begin(), carried.end(), plan.rank());
  std::rotate(order.begin(), order.begin() + (own - carried.begin()), order.end());
  for (const int index : order) {
    const Rank rank = carried[at(index)];
    const auto block_from = [&](int place) {
      return place == carriage.place() ? plan.input(plan.block(rank))
                                       : PlanBuilder::in(arrived[at(place)], plan.block(index));
    };
    if (rank == plan.rank()) {
      for (int place = 0; passes_on && place < local_count; ++place) {
        if (place != carriage.place()) plan.copy(plan.output(plan.block(n + locals[at(place)])), block_from(place));
      }
      continue;
    }
    together.clear();
    for (int place = 0; place < local_count; ++place) together.push_back(block_from(place));
    send_together(plan, rank, together);
  }
  for (int k = 1; k < carriage.nodes(); ++k) {
    const int node = carriage.own() - k;
    receive_together(plan, carriage.carrier_to_self(modulo(node, carriage.nodes())), carriage.node(node));
  }
}

}  // namespace fabring
