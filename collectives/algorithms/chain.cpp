// Chains: each rank has one predecessor and one successor, and every link carries the whole vector once. n - 1 rounds
// without tiles; with them the chain is a pipeline, and a long vector takes little more than sending it once.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/node_order.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

// From both ends towards the root, so that the operands stay in the order of the ranks: x_0 + x_1 + ... from below and
// ... + x_{n-1} from above.
void reduce_by_chain(PlanBuilder& plan, const PlanRequest& request) {
  const Rank rank = plan.rank();
  const RangeId whole = plan.whole();
  const bool from_below = rank <= plan.root() && rank > 0;
  const bool from_above = rank >= plan.root() && rank + 1 < plan.size();
  Block sum = plan.input(whole);
  if (from_below || from_above) {
    const Block to = plan.is_root() ? plan.output(whole) : plan.scratch(whole);
    if (from_below) {
      plan.recv_reduce(rank - 1, to, sum, /*incoming_first=*/true);
      sum = to;
    }
    if (from_above) {
      plan.recv_reduce(rank + 1, to, sum);
      sum = to;
    }
  }
  if (plan.is_root()) return finish_if_avg(plan, request.op, sum);
  plan.send(rank < plan.root() ? rank + 1 : rank - 1, sum);
}

void broadcast_by_chain(PlanBuilder& plan, const PlanRequest& request) {
  const Group group = from_root(plan, request.node_of);
  if (group.index() > 0) plan.recv(group.previous(), plan.whole());
  if (group.index() + 1 < group.size()) plan.send(group.next(), plan.whole());
}

}  // namespace fabring
