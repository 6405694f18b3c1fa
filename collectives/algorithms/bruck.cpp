// Bruck: ceil(log2 n) rounds for any n. All-gather: in the round of distance d a rank sends the first d blocks it has,
// its own and those after it, to rank r-d. Alltoall: the block for rank r+i makes its way in hops of the powers of two
// in i; in the round of distance d all blocks with that bit in i travel together. A block travels up to log2 n times, so
// this is for short ones; blocks of other ranks pass through, so all must be of one length.

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void all_gather_by_bruck(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  std::vector<Exchange> exchanges;
  for (int distance = 1; distance < n; distance *= 2) {
    const int count = std::min(distance, n - distance);
    exchanges.push_back({modulo(plan.rank() - distance, n),
                         (plan.rank() + distance) % n,
                         {plan.rank(), count},
                         {plan.rank() + distance, count}});
  }
  packed_all_gather(plan, exchanges);
}

void alltoall_by_bruck(PlanBuilder& plan, const PlanRequest&) {
  const int n = plan.size();
  // Where the block with i ranks to go at the start is now; at the end it is that of rank r - i.
  std::vector<Block> place;
  for (int i = 0; i < n; ++i) place.push_back(plan.input(plan.block((plan.rank() + i) % n)));

  for (int distance = 1; distance < n; distance *= 2) {
    std::vector<int> travelling;
    for (int i = distance; i < n; ++i) {
      if ((i & distance) != 0) travelling.push_back(i);
    }
    const RangeId together = plan.blocks(0, static_cast<int>(travelling.size()));
    const Block out = plan.scratch(together);
    const Block in = plan.scratch(together);
    int next = 0;
    for (const int i : travelling) plan.copy(PlanBuilder::in(out, plan.block(next++)), place[at(i)]);
    plan.send((plan.rank() + distance) % n, out);
    plan.recv(modulo(plan.rank() - distance, n), in);
    next = 0;
    for (const int i : travelling) place[at(i)] = PlanBuilder::in(in, plan.block(next++));
  }
  for (int i = 1; i < n; ++i) plan.copy(plan.output(plan.block(n + modulo(plan.rank() - i, n))), place[at(i)]);
}

}  // namespace fabring
