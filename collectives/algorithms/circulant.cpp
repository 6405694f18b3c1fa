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

/// The rounds of the reduce-scatter.
std::vector<Exchange> halving_skips(Rank rank, int n) {
  std::vector<Exchange> exchanges;
  for (int before = n; before > 1;) {
    const int skip = (before + 1) / 2;
    const int count = before - skip;
    exchanges.push_back({(rank + skip) % n, modulo(rank - skip, n), {rank + skip, count}, {rank, count}});
    before = skip;
  }
  return exchanges;
}

/// Those of the all-gather: backwards, and what was sent is received.
std::vector<Exchange> reversed(std::span<const Exchange> exchanges) {
  std::vector<Exchange> result;
  for (auto at = exchanges.rbegin(); at != exchanges.rend(); ++at) {
    result.push_back({at->from, at->to, at->receive, at->send});
  }
  return result;
}

/// The second round of an odd number sends a part that the first did not touch, which is still in the input; it travels
/// alone.
std::vector<Run> runs_of_round(Arc arc, int n, std::size_t round) {
  if (round != 1 || n % 2 == 0 || arc.count < 2) return runs_around(arc, n);
  auto runs = runs_around(arc.first, arc.count - 1, n);
  runs.push_back(runs_around(arc.first + arc.count - 1, 1, n).front());
  return runs;
}

}  // namespace

void allreduce_by_circulant(PlanBuilder& plan, const PlanRequest& request) {
  const int n = plan.size();
  const auto exchanges = halving_skips(plan.rank(), n);
  const auto parts = [&](Run run) { return plan.parts(plan.whole(), run.first, run.last, n); };
  const auto ranks = static_cast<std::uint64_t>(n);
  plan.bound_messages(longest_message(exchanges, (message_unit + ranks - 1) / ranks));

  for (std::size_t round = 0; round < exchanges.size(); ++round) {
    const Exchange& exchange = exchanges[round];
    for (const Run run : runs_of_round(exchange.send, n, round)) plan.send(exchange.to, parts(run));
    for (const Run run : runs_of_round(exchange.receive, n, round)) plan.recv_reduce(exchange.from, parts(run));
  }
  finish_if_avg(plan, request.op, parts({plan.rank(), plan.rank() + 1}));
  for (const Exchange& exchange : reversed(exchanges)) {
    for (const Run run : runs_around(exchange.send, n)) plan.send(exchange.to, parts(run));
    for (const Run run : runs_around(exchange.receive, n)) plan.recv(exchange.from, parts(run));
  }
}

void reduce_scatter_by_circulant(PlanBuilder& plan, const PlanRequest& request) {
  packed_reduce_scatter(plan, halving_skips(plan.rank(), plan.size()));
  finish_if_avg(plan, request.op, plan.block(plan.rank()));
}

void all_gather_by_circulant(PlanBuilder& plan, const PlanRequest&) {
  packed_all_gather(plan, reversed(halving_skips(plan.rank(), plan.size())));
}

}  // namespace fabring
