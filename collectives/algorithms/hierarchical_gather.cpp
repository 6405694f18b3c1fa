// Hierarchical gather and scatter: a block of another node crosses between the nodes once, to or from its carrier on
// the root's node (carriers.hpp), which passes it on inside the node. So all ranks of the root's node, and their cards,
// share what one rank would carry. Blocks do not lie together, so each is a message.
//
//   node 1:  r4  r5  r6  r7        r5's block: r5 > r1 > r0, the root. The other way round it is a scatter.
//             |   |   |   |
//   node 0:  r0 < r1  r2  r3       Two rounds; (n-L) B into the root's node, (N-1) B of it by each of its ranks.
//               <-----'   |
//               <---------'
//
// A carrier keeps at most four blocks in scratch.

#include <array>
#include <optional>

#include "collectives/algorithms/carriers.hpp"
#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// Scratch for what comes and goes on, one block after the other.
class PassedOn {
 public:
  explicit PassedOn(PlanBuilder& plan) : plan_(plan) {}
  void from_to(Rank from, Rank to, RangeId block) {
    std::optional<Block>& area = areas_[next_++ % areas_.size()];
    const Block passed = area ? PlanBuilder::in(*area, block) : plan_.scratch(block);
    if (!area) area = passed;
    plan_.recv(from, passed);
    plan_.send(to, passed);
  }

 private:
  PlanBuilder& plan_;
  std::array<std::optional<Block>, 4> areas_;
  std::size_t next_ = 0;
};

/// Calls visit(rank, its carrier on the root's node) for every rank on other nodes, from the node after the root's on.
template <class Visit>
void for_ranks_elsewhere(const Carriers& carriers, int roots_node, Visit visit) {
  for (int k = 1; k < carriers.nodes(); ++k) {
    const auto& node = carriers.node(roots_node + k);
    for (std::size_t i = 0; i < node.size(); ++i) visit(node[i], carriers.carrier(roots_node, roots_node + k, i));
  }
}

}  // namespace

void gather_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan.rank(), request.node_of);
  const int roots_node = carriers.node_with(request.node_of, plan.root());
  const Rank self = plan.rank();
  const bool beside_root = carriers.own() == roots_node;
  if (beside_root && !plan.is_root()) plan.send(plan.root(), plan.block(self));
  if (plan.is_root()) {
    for (const Rank rank : carriers.node(roots_node))
      if (rank != self) plan.recv(rank, plan.block(rank));
  }
  PassedOn passed(plan);
  for_ranks_elsewhere(carriers, roots_node, [&](Rank rank, Rank carrier) {
    if (rank == self) plan.send(carrier, plan.block(self));
    if (plan.is_root()) plan.recv(carrier == self ? rank : carrier, plan.block(rank));
    if (!plan.is_root() && carrier == self) passed.from_to(rank, plan.root(), plan.block(rank));
  });
}

void scatter_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const Carriers carriers(plan.rank(), request.node_of);
  const int roots_node = carriers.node_with(request.node_of, plan.root());
  const Rank self = plan.rank();
  const bool beside_root = carriers.own() == roots_node;
  PassedOn passed(plan);
  for_ranks_elsewhere(carriers, roots_node, [&](Rank rank, Rank carrier) {
    if (plan.is_root()) plan.send(carrier == self ? rank : carrier, plan.block(rank));
    if (!plan.is_root() && carrier == self) passed.from_to(plan.root(), rank, plan.block(rank));
    if (rank == self) plan.recv(carrier, plan.block(self));
  });
  if (beside_root && !plan.is_root()) plan.recv(plan.root(), plan.block(self));
  if (plan.is_root()) {  // after what takes longer
    for (const Rank rank : carriers.node(roots_node))
      if (rank != self) plan.send(rank, plan.block(rank));
  }
}

}  // namespace fabring
