// In round k everybody exchanges the whole vector with the rank whose number differs in bit k, and both reduce with the
// lower rank's value on the left: log2 n rounds of S bytes.

#include <array>
#include <bit>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

// With m = the largest power of two in n and extra = n - m, ranks 2j and 2j+1 (j < extra) act as one: 2j hands its
// value to 2j+1 and gets the result from it. So position p always stands for neighbouring ranks, and the operands stay
// in the order of the ranks.
Rank rank_at(int position, int extra) { return position < extra ? 2 * position + 1 : position + extra; }

}  // namespace

void allreduce_by_recursive_doubling(PlanBuilder& plan, const PlanRequest& request) {
  const Rank rank = plan.rank();
  const auto m = static_cast<int>(std::bit_floor(static_cast<unsigned>(plan.size())));
  const int extra = plan.size() - m;
  const RangeId all = plan.whole();

  const bool paired = rank < 2 * extra;
  if (paired && rank % 2 == 0) {
    plan.send(rank + 1, all);
    plan.recv(rank + 1, all);
    return;
  }
  if (paired) plan.recv_reduce(rank - 1, all, /*incoming_first=*/true);

  // Both partners send before either may overwrite what it sends, so the incoming value waits in scratch; two areas in
  // turn let a round's receive be ready while the round before it is reduced.
  const int position = paired ? rank / 2 : rank - extra;
  std::array<Block, 2> areas;
  int round = 0;
  for (int mask = 1; mask < m; mask *= 2, ++round) {
    Block& incoming = areas[at(round % 2)];
    if (round < 2) incoming = plan.scratch(all);
    const Rank partner = rank_at(position ^ mask, extra);
    plan.send(partner, all);
    plan.recv(partner, incoming);
    const Block own = plan.value(all);
    const auto ordered = partner < rank ? std::array{incoming, own} : std::array{own, incoming};
    plan.reduce(plan.output(all), ordered);
  }
  finish_if_avg(plan, request.op, all);
  if (paired) plan.send(rank - 1, all);
}

}  // namespace fabring
