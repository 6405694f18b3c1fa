// What stands between a call and its first message, beside the messages: choosing an algorithm, finding its plan again,
// and, once for a communicator, building a plan and pricing the table.
//
//   plan_benchmark --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/choice/table.hpp"
#include "runtime/engine/plans/plan_cache.hpp"

namespace {

using namespace fabring;

std::vector<int> nodes_of(int ranks, int local) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank / local);
  return nodes;
}

void choose_algorithm(benchmark::State& state) {
  const ChoiceTable table = ChoiceTable::make({64, 8, 8, 8}, *find_machine("100g"));
  std::uint64_t bytes = 4;
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.choose(Collective::allreduce, bytes));
    bytes = bytes > (std::uint64_t{1} << 28) ? 4 : bytes * 4;
  }
}
BENCHMARK(choose_algorithm);

void find_plan_again(benchmark::State& state) {
  const std::vector<int> nodes = nodes_of(64, 8);
  PlanCache cache;
  Call call;
  call.collective = Collective::allreduce;
  call.count = 1024;
  call.type = DataType::float32;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::hierarchical, Algorithm::recursive_doubling}) {
    call.algorithm = algorithm;
    if (!cache.find_or_make(call, 0, nodes)) return state.SkipWithError("no such plan");
  }
  for (auto _ : state) benchmark::DoNotOptimize(cache.find_or_make(call, 0, nodes));
}
BENCHMARK(find_plan_again);

void build_plan(benchmark::State& state, Algorithm algorithm, Collective collective = Collective::allreduce) {
  PlanRequest request;
  request.collective = collective;
  request.algorithm = algorithm;
  request.node_of = nodes_of(static_cast<int>(state.range(0)), 8);
  request.rank = static_cast<Rank>(state.range(0) / 2 + 3);
  std::size_t steps = 0;
  for (auto _ : state) {
    const auto plan = make_plan(request);
    if (!plan) return state.SkipWithError(plan.error().message().c_str());
    steps = plan->steps.size();
  }
  state.counters["steps"] = static_cast<double>(steps);
}
BENCHMARK_CAPTURE(build_plan, ring, Algorithm::ring)->Arg(64)->Arg(4096)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(build_plan, hierarchical, Algorithm::hierarchical)->Arg(64)->Arg(4096)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(build_plan, circulant, Algorithm::circulant)->Arg(64)->Arg(4096)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(build_plan, recursive_doubling, Algorithm::recursive_doubling)
    ->Arg(64)
    ->Arg(4096)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(build_plan, alltoall_hierarchical, Algorithm::hierarchical, Collective::alltoall)
    ->Arg(64)
    ->Arg(4096)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(build_plan, alltoall_bruck, Algorithm::bruck, Collective::alltoall)
    ->Arg(64)
    ->Arg(4096)
    ->Unit(benchmark::kMicrosecond);

void price_table(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(ChoiceTable::make({ranks, ranks / 8, 8, 8}, *find_machine("efa-400")));
}
BENCHMARK(price_table)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
