#include "tools/fabring/perf/guard.hpp"

#include <algorithm>

#include "tools/fabring/median.hpp"

namespace fabring::tools {

std::size_t guard_elements(std::size_t bytes, DataType type, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return std::max<std::size_t>(bytes / size_of(type) / n, 1) * n;
}

std::vector<GuardPair> guard_pairs(const GuardBuffers& buffers, std::size_t elements, DataType type, Rank rank,
                                   int ranks, bool with_barrier) {
  constexpr Rank root = 0;
  const std::size_t block = elements / static_cast<std::size_t>(ranks);
  const ReduceOp sum = type == DataType::boolean ? ReduceOp::logical_or : ReduceOp::sum;
  std::byte *in = buffers.in, *middle = buffers.middle, *out = buffers.out;
  std::byte* own = middle + static_cast<std::size_t>(rank) * block * size_of(type);

  const auto allreduce = Operation::allreduce(in, out, elements, type, sum);
  const auto reduce = Operation::reduce(in, out, elements, type, sum, root);
  const auto reduce_scatter = Operation::reduce_scatter(in, out, block, type, sum);
  const auto all_gather = Operation::all_gather(in, out, block, type);
  const auto broadcast = Operation::broadcast(middle, middle, elements, type, root);
  const auto gather = Operation::gather(in, out, block, type, root);
  const auto scatter = Operation::scatter(in, out, block, type, root);

  // The steps of a composition hand their results on in `middle`.
  const auto reduce_first = Operation::reduce(in, middle, elements, type, sum, root);
  const auto reduce_scatter_first = Operation::reduce_scatter(in, own, block, type, sum);
  const auto all_gather_last = Operation::all_gather(own, middle, block, type);

  const auto alltoall = Operation::alltoall(in, out, block, type);
  std::vector<Operation> scatters;
  for (Rank from = 0; from < ranks; ++from) {
    std::byte* place = out + static_cast<std::size_t>(from) * block * size_of(type);
    scatters.push_back(Operation::scatter(in, place, block, type, from));
  }

  std::vector<GuardPair> pairs{
      {"allreduce", "reduce + broadcast", {allreduce}, {reduce_first, broadcast}},
      {"allreduce", "reduce_scatter + all_gather", {allreduce}, {reduce_scatter_first, all_gather_last}},
      {"reduce",
       "reduce_scatter + gather",
       {reduce},
       {reduce_scatter_first, Operation::gather(own, out, block, type, root)}},
      {"reduce", "allreduce", {reduce}, {allreduce}},
      {"reduce_scatter",
       "reduce + scatter",
       {reduce_scatter},
       {reduce_first, Operation::scatter(middle, out, block, type, root)}},
      {"reduce_scatter", "allreduce", {reduce_scatter}, {allreduce}},
      {"all_gather", "gather + broadcast", {all_gather}, {Operation::gather(in, middle, block, type, root), broadcast}},
      {"broadcast",
       "scatter + all_gather",
       {broadcast},
       {Operation::scatter(in, own, block, type, root), all_gather_last}},
      {"broadcast", "allreduce", {broadcast}, {allreduce}},  // of zeros elsewhere
      {"gather", "all_gather", {gather}, {all_gather}},
      {"scatter", "broadcast", {scatter}, {broadcast}},
      {"all_gather", "alltoall", {all_gather}, {alltoall}},
      {"alltoall", "a scatter from every rank", {alltoall}, scatters},
  };
  if (with_barrier)
    pairs.push_back(
        {"barrier", "allreduce of one element", {Operation::barrier()}, {Operation::allreduce(in, out, 1, type, sum)}});
  return pairs;
}

Result<GuardVerdict> guard_verdict(const std::function<Result<GuardTimes>()>& measure, double margin, int attempts) {
  GuardVerdict best;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    auto times = measure();
    if (!times) return times.error();
    GuardVerdict verdict{median(std::move(times->one)), median(std::move(times->composed)), attempt, false};
    verdict.slow = verdict.one > margin * verdict.composed;
    if (attempt == 1 || verdict.ratio() < best.ratio()) best = verdict;
    best.attempts = attempt;
    if (!verdict.slow) return verdict;
  }
  return best;
}

}  // namespace fabring::tools
