// Pairwise exchange: round k sends to the k-th rank after and receives from the k-th before, and starts when the round
// before it has been received. n - 1 rounds of one block; nobody ever has two senders at a time.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void alltoall_by_pairwise(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  for (int k = 1; k < n; ++k) {
    const Rank to = (plan.rank() + k) % n;
    const Rank from = modulo(plan.rank() - k, n);
    plan.send(to, plan.input(plan.block(to)));
    plan.recv(from, plan.output(plan.block(n + from)));
    plan.fence();
  }
}

}  // namespace fabring
