// Recursive halving, then doubling (Rabenseifner): partners exchange halves of what they still share and reduce their
// own, so that each ends with a share of the sum; the way back collects them. 2 log2 n rounds, 2(n-1)/n S bytes; where
// n is no power of two, two more rounds of S.
//
//   rank     0      1      2      3          Neighbours first, so that every element is the same balanced tree in the
//   round 1  abcd   abcd   abcd   abcd       order of the ranks, as with recursive doubling: after round 1 ranks 0 and
//            ab     cd     ab     cd         2 have the first half of their pair, after round 2 each a quarter of all.
//   round 2  a      c      b      d

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

void allreduce_by_halving_doubling(PlanBuilder& plan, const PlanRequest& request) {
  const RangeId all = plan.whole();
  const Folded folded(plan);
  plan.bound_messages(folded.all_alone() ? (message_unit + 1) / 2 : message_unit);
  if (!folded.acts()) {
    plan.send(folded.partner(), all);
    plan.recv(folded.partner(), all);
    return;
  }
  if (folded.partner() >= 0) plan.recv_reduce(folded.partner(), all, /*incoming_first=*/true);

  const auto half = [&](RangeId range, bool second) { return plan.part(range, second ? 1 : 0, 2); };
  std::vector<RangeId> shared{all};  // what this rank shares with its partner of each round
  for (int mask = 1; mask < folded.positions(); mask *= 2) {
    const bool second = (folded.position() & mask) != 0;
    const Rank partner = folded.rank_at(folded.position() ^ mask);
    plan.send(partner, half(shared.back(), !second));
    shared.push_back(half(shared.back(), second));
    plan.recv_reduce(partner, shared.back(), /*incoming_first=*/second);
  }
  finish_if_avg(plan, request.op, shared.back());
  for (int mask = folded.positions() / 2; mask > 0; mask /= 2) {
    const bool second = (folded.position() & mask) != 0;
    const Rank partner = folded.rank_at(folded.position() ^ mask);
    plan.send(partner, shared.back());
    shared.pop_back();
    plan.recv(partner, half(shared.back(), !second));
  }
  if (folded.partner() >= 0) plan.send(folded.partner(), all);
}

// With the farthest first each half is a run of neighbouring parts.
std::vector<Exchange> halving_rounds(int index, int n) {
  std::vector<Exchange> rounds;
  for (int mask = n / 2; mask > 0; mask /= 2) {
    const int partner = index ^ mask;
    rounds.push_back({partner, partner, {partner & ~(mask - 1), mask}, {index & ~(mask - 1), mask}});
  }
  return rounds;
}

// The halving alone.
void reduce_scatter_by_halving_doubling(PlanBuilder& plan, const PlanRequest& request) {
  packed_reduce_scatter(plan, halving_rounds(plan.rank(), plan.size()));
  finish_if_avg(plan, request.op, plan.block(plan.rank()));
}

}  // namespace fabring
