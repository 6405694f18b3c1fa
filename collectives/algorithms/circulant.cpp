// Circulant graphs (Traeff: Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms): reduce-scatter and
// all-gather in ceil(log2 n) rounds each with exactly n - 1 parts sent, for any n. The skips are n halved and rounded
// up until 1. In the round of skip s, after that of skip t, rank r sends the partial sums of parts r+s to r+t-1 to rank
// r+s and adds those of parts r to r+t-s-1 that come from rank r-s; part numbers are in a circle. Rank 0 of five:
//
//   skip 3   sends 3 4 to rank 3     adds 0 1 from rank 2       still has 0 1 2
//   skip 2   sends 2   to rank 2     adds 0   from rank 3                 0 1
//   skip 1   sends 1   to rank 1     adds 0   from rank 4                 0: the sum of all five
//
// The all-gather is the same backwards. Parts that go past the last one travel as two messages.

#include <algorithm>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// The second round of an odd number sends a part that the first did not touch, which is still in the input; it travels
/// alone.
std::vector<Run> runs_of_round(Arc arc, int n, std::size_t round) {
  if (round != 1 || n % 2 == 0 || arc.count < 2) return runs_around(arc, n);
  auto runs = runs_around(arc.first, arc.count - 1, n);
  runs.push_back(runs_around(arc.first + arc.count - 1, 1, n).front());
  return runs;
}

}  // namespace

std::vector<Exchange> circulant_rounds(int index, int n) {
  std::vector<Exchange> rounds;
  for (int before = n; before > 1;) {
    const int skip = (before + 1) / 2;
    const int count = before - skip;
    rounds.push_back({(index + skip) % n, modulo(index - skip, n), {index + skip, count}, {index, count}});
    before = skip;
  }
  return rounds;
}

void reduce_scatter_in_rounds(PlanBuilder& plan, const Group& group, RangeId range, std::span<const Exchange> rounds) {
  const int n = group.size();
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    const Exchange& exchange = rounds[round];
    for (const Run run : runs_of_round(exchange.send, n, round)) {
      plan.send(group.at(exchange.to), plan.parts(range, run.first, run.last, n));
    }
    for (const Run run : runs_of_round(exchange.receive, n, round)) {
      plan.recv_reduce(group.at(exchange.from), plan.parts(range, run.first, run.last, n), /*incoming_first=*/true);
    }
  }
}

void all_gather_in_rounds(PlanBuilder& plan, const Group& group, RangeId range, std::span<const Exchange> rounds) {
  const int n = group.size();
  for (const Exchange& exchange : reversed(rounds)) {
    for (const Run run : runs_around(exchange.send, n)) {
      plan.send(group.at(exchange.to), plan.parts(range, run.first, run.last, n));
    }
    for (const Run run : runs_around(exchange.receive, n)) {
      plan.recv(group.at(exchange.from), plan.parts(range, run.first, run.last, n));
    }
  }
}

void allreduce_by_circulant(PlanBuilder& plan, const PlanRequest& request) {
  const Group all = Group::all(plan.rank(), plan.size());
  const auto rounds = circulant_rounds(plan.rank(), plan.size());
  const auto ranks = static_cast<std::uint64_t>(plan.size());
  plan.bound_messages(longest_message(rounds, (message_unit + ranks - 1) / ranks));
  reduce_scatter_in_rounds(plan, all, plan.whole(), rounds);
  finish_if_avg(plan, request.op, plan.part(plan.whole(), plan.rank(), plan.size()));
  all_gather_in_rounds(plan, all, plan.whole(), rounds);
}

void reduce_scatter_by_circulant(PlanBuilder& plan, const PlanRequest& request) {
  packed_reduce_scatter(plan, circulant_rounds(plan.rank(), plan.size()));
  finish_if_avg(plan, request.op, plan.block(plan.rank()));
}

void all_gather_by_circulant(PlanBuilder& plan, const PlanRequest&) {
  packed_all_gather(plan, reversed(circulant_rounds(plan.rank(), plan.size())));
}

}  // namespace fabring
