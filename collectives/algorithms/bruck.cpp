// Bruck: ceil(log2 n) rounds for any n. All-gather: in the round of distance d a rank sends the first d blocks it has,
// its own and those after it, to rank r-d. Alltoall: the block for rank r+i makes its way in hops of the powers of two
// in i; in the round of distance d all blocks with that bit in i travel together. A block travels up to log2 n times,
// so this is for short ones; blocks of other ranks pass through, so all must be of one length.

#include <algorithm>
#include <array>

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
  place.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) place.push_back(plan.input(plan.block((plan.rank() + i) % n)));

  const RangeId most = plan.blocks(0, n / 2);  // every bit is set in half of the numbers at most
  std::array<Block, 2> outgoing;               // in turn
  for (int distance = 1, round = 0; distance < n; distance *= 2, ++round) {
    Block& out = outgoing[at(round % 2)];
    if (round < 2) out = plan.scratch(most);
    int count = 0;
    const auto travels = [&](int i) { return (i & distance) != 0; };
    for (int i = distance; i < n; ++i) {
      if (travels(i)) plan.copy(PlanBuilder::in(out, plan.block(count++)), place[at(i)]);
    }
    const RangeId together = plan.blocks(0, count);
    const Block in = plan.scratch(together);
    plan.send((plan.rank() + distance) % n, PlanBuilder::in(out, together));
    plan.recv(modulo(plan.rank() - distance, n), in);
    for (int i = n - 1; i >= distance; --i) {
      if (travels(i)) place[at(i)] = PlanBuilder::in(in, plan.block(--count));
    }
  }
  for (int i = 1; i < n; ++i) plan.copy(plan.output(plan.block(n + modulo(plan.rank() - i, n))), place[at(i)]);
}

}  // namespace fabring
