// Reduce kernels against memcpy.
//
// Every figure is a ratio of neighbours in time: a repetition runs memcpy and the kernel in turn on the same memory,
// many times, and reports the median of each, so that a busy machine slows both. Columns: payload GB/s of either (bytes
// of one operand per second), `ratio` (kernel / memcpy, payload) and `traffic` (the same by bytes read and written: a
// binary reduction reads twice what it writes, a copy once).
//
//   reduce_benchmark --benchmark_filter='sum/float32' [--instruction_set=AVX2]    of those that targets.hpp names

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/reduce/reduce.hpp"
#include "collectives/reduce/targets.hpp"

namespace {

using fabring::DataType;
using fabring::ReduceOp;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Small buffers are run many times per reading of the clock.
template <class Body>
double time_of(std::size_t bytes, Body body) {
  const std::size_t times = std::max<std::size_t>(1, (256 << 10) / bytes);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < times; ++i) {
    body();
    benchmark::ClobberMemory();
  }
  return seconds(Clock::now() - start) / static_cast<double>(times);
}

struct Case {
  DataType type;
  ReduceOp op;
  std::size_t sources;
  bool in_place;  // the first source is the output, as when a received segment is added to what is there
};

void run(benchmark::State& state, Case what) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t count = bytes / fabring::size_of(what.type);
  std::vector<std::vector<std::byte>> memory(what.sources + 1, std::vector<std::byte>(bytes));
  std::vector<const void*> sources;
  for (std::size_t i = 0; i < what.sources; ++i) sources.push_back(memory[i].data());
  std::byte* to = memory[what.in_place ? 0 : what.sources].data();
  std::vector<double> copy_times, reduce_times;
  for (auto _ : state) {
    copy_times.push_back(time_of(bytes, [&] { std::memcpy(to, sources.back(), bytes); }));
    reduce_times.push_back(time_of(bytes, [&] { fabring::reduce(what.type, what.op, to, sources, count); }));
    state.SetIterationTime(reduce_times.back());
  }
  const double copy_time = median(copy_times), reduce_time = median(reduce_times);
  state.counters["memcpy_GBps"] = static_cast<double>(bytes) / copy_time / 1e9;
  state.counters["reduce_GBps"] = static_cast<double>(bytes) / reduce_time / 1e9;
  state.counters["ratio"] = copy_time / reduce_time;
  state.counters["traffic"] = copy_time / reduce_time * static_cast<double>(what.sources + 1) / 2;
}

void add(Case what) {
  const std::string label = std::string(name(what.op)) + "/" + std::string(name(what.type)) + "/" +
                            std::to_string(what.sources) + (what.in_place ? "/in_place" : "");
  auto* registered = benchmark::RegisterBenchmark(label.c_str(), run, what);
  for (std::int64_t bytes = 4 << 10; bytes <= 16 << 20; bytes *= 4) registered->Arg(bytes);
  registered->Arg(64 << 20)->UseManualTime()->MinTime(0.1)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const bool in_place : {true, false}) {
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16,
                                DataType::float8_e4m3, DataType::int8, DataType::int32, DataType::int64}) {
      add({type, ReduceOp::sum, 2, in_place});
    }
    for (const ReduceOp op : {ReduceOp::prod, ReduceOp::min, ReduceOp::max}) add({DataType::float32, op, 2, in_place});
    for (const std::size_t sources : {3, 4, 8}) add({DataType::float32, ReduceOp::sum, sources, in_place});
  }
  add({DataType::int8, ReduceOp::prod, 2, true});
  add({DataType::int64, ReduceOp::prod, 2, true});
  add({DataType::bfloat16, ReduceOp::max, 2, true});
  const std::string option = "--instruction_set=";
  if (argc > 1 && std::string(argv[argc - 1]).starts_with(option) &&
      fabring::force_reduce_target(argv[argc - 1] + option.size())) {
    --argc;
  }
  benchmark::AddCustomContext("instruction_set", fabring::reduce_target());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
