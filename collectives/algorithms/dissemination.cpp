// Dissemination: in round k everybody tells the rank 2^k after it, having heard from the one 2^k before it in the round
// before. After ceil(log2 n) rounds all have heard of all, for any n. No data.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void barrier_by_dissemination(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  for (int distance = 1; distance < n; distance *= 2) {
    plan.send((plan.rank() + distance) % n, plan.nothing());
    plan.recv(modulo(plan.rank() - distance, n), plan.nothing());
    plan.fence();
  }
}

}  // namespace fabring
