// Star: everybody sends everything to rank 0, which reduces it in one step and sends the result to everybody: what a
// parameter server does, and the baseline for the others. Two rounds; rank 0 moves (n-1) S each way.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void allreduce_by_star(PlanBuilder& plan, const PlanRequest& request) {
  direct_reduce(plan, 0);
  if (plan.rank() == 0) finish_if_avg(plan, request.op, plan.whole());
  direct_scatter(plan, Group::all(plan.rank(), plan.size()), std::vector<RangeId>(at(plan.size()), plan.whole()));
}

}  // namespace fabring
