// Recursive doubling: in round k everybody exchanges all it has with the rank whose number differs in bit k. Allreduce:
// both reduce with the lower rank's value on the left, so a balanced tree in the order of the ranks; log2 n rounds of S
// bytes, two more where n is no power of two. All-gather: what a rank has doubles; log2 n rounds, n - 1 blocks.

#include <array>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void allreduce_by_recursive_doubling(PlanBuilder& plan, const PlanRequest& request) {
  const RangeId all = plan.whole();
  const Folded folded(plan);
  if (!folded.acts()) {
    plan.send(folded.partner(), all);
    plan.recv(folded.partner(), all);
    return;
  }
  if (folded.partner() >= 0) plan.recv_reduce(folded.partner(), all, /*incoming_first=*/true);

  // Both partners send before either may overwrite what it sends, so the incoming value waits in scratch; two areas in
  // turn let a round's receive be ready while the round before it is reduced.
  std::array<Block, 2> areas;
  int round = 0;
  for (int mask = 1; mask < folded.positions(); mask *= 2, ++round) {
    Block& incoming = areas[at(round % 2)];
    if (round < 2) incoming = plan.scratch(all);
    const Rank partner = folded.rank_at(folded.position() ^ mask);
    plan.send(partner, all);
    plan.recv(partner, incoming);
    const Block own = plan.value(all);
    const auto ordered = partner < plan.rank() ? std::array{incoming, own} : std::array{own, incoming};
    plan.reduce(plan.output(all), ordered);
  }
  finish_if_avg(plan, request.op, all);
  if (folded.partner() >= 0) plan.send(folded.partner(), all);
}

void all_gather_by_recursive_doubling(PlanBuilder& plan, const PlanRequest&) {
  std::vector<Exchange> exchanges;
  for (int mask = 1; mask < plan.size(); mask *= 2) {
    const Rank partner = plan.rank() ^ mask;
    exchanges.push_back({partner, partner, {plan.rank() & ~(mask - 1), mask}, {partner & ~(mask - 1), mask}});
  }
  packed_all_gather(plan, exchanges);
}

}  // namespace fabring
