// What the engine adds to the bytes it moves: the steps of a plan over tiles, driven by hand in one thread so that no
// time is spent waiting, and small calls between two threads that share memory.
//
//   engine_benchmark --benchmark_repetitions=5
//
// per_message: the time of a whole allreduce between two ranks, both in this thread, divided by the messages of one of
// them; segments are short, so it is hardly about bytes. call: a blocking allreduce of two threads through shared
// memory, each way a line of 64 bytes; its real time needs a core for each. flag_round: the least that such a call can
// take, a number written to a line of shared memory until the other thread has answered in another. unwaited: small
// calls whose message is there before it is looked for, both ranks in this thread, for counting instructions.

#include <benchmark/benchmark.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/thread_world.hpp"

namespace {

using namespace fabring;

void per_message(benchmark::State& state, std::size_t segment_bytes) {
  Config config;
  config.algorithm = "ring";
  config.segment_bytes = segment_bytes;
  fixture::ThreadWorld world(2, config);
  const std::size_t tiles = 256, count = 2 * tiles * segment_bytes / sizeof(float);
  std::vector<std::vector<float>> data(2, std::vector<float>(count));
  std::vector<std::shared_ptr<Execution>> running(2);
  for (auto _ : state) {
    for (const Rank rank : {0, 1}) {
      EngineCore& engine = world.engine(rank);
      const auto at = static_cast<std::size_t>(rank);
      auto call =
          make_call(Operation::allreduce(data[at].data(), data[at].data(), count, DataType::float32, ReduceOp::sum),
                    *engine.world(), *engine.choices(engine.world()->shape()), engine.config());
      if (!call) return state.SkipWithError(call.error().message().c_str());
      running[at] = engine.submit(engine.world(), std::move(*call), false);
    }
    while (!running[0]->done() || !running[1]->done())
      for (const Rank rank : {0, 1}) world.engine(rank).drive_once();
  }
  // A reduce-scatter and an all-gather of two ranks: two messages of each rank for a tile.
  state.counters["per_message"] = benchmark::Counter(
      static_cast<double>(2 * 2 * tiles), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(per_message, records_of_1_KiB, std::size_t{1} << 10)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(per_message, granted_16_KiB, std::size_t{16} << 10)->Unit(benchmark::kMicrosecond);

void call(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  fixture::ThreadWorld world(2, {}, fixture::ThreadWorld::Over::shm);
  constexpr int batch = 1000;
  std::vector<float> own(count), other(count);
  std::atomic<int> wanted{0};
  std::atomic<bool> over{false};
  std::thread peer([&] {
    Communicator communicator = world.world(1);
    for (int done = 0;;) {
      while (wanted.load(std::memory_order_acquire) == done)
        if (over.load()) return;
      for (int i = 0; i < batch; ++i)
        (void)communicator.allreduce(other.data(), other.data(), count, DataType::float32, ReduceOp::max);
      ++done;
    }
  });
  Communicator communicator = world.world(0);
  for (auto _ : state) {
    wanted.fetch_add(1, std::memory_order_release);
    for (int i = 0; i < batch; ++i)
      if (const Status status = communicator.allreduce(own.data(), own.data(), count, DataType::float32, ReduceOp::max);
          !status.ok()) {
        state.SkipWithError(status.to_string().c_str());
        break;
      }
  }
  over = true;
  peer.join();
  state.counters["per_call"] =
      benchmark::Counter(batch, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(call)->Arg(4)->Arg(1 << 10)->Arg(16 << 10)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// `calls` reductions to rank 0, each begun by rank 1, which only sends.
void unwaited(benchmark::State& state) {
  const std::int64_t calls = state.range(0);
  fixture::ThreadWorld world(2, {}, fixture::ThreadWorld::Over::shm);
  Communicator receiver = world.world(0), sender = world.world(1);
  float own = 1, sum = 0, other = 2;
  for (auto _ : state) {
    for (std::int64_t i = 0; i < calls; ++i) {
      const Status sent = sender.run(Operation::reduce(&other, &other, 1, DataType::float32, ReduceOp::sum, 0));
      const Status received = receiver.run(Operation::reduce(&own, &sum, 1, DataType::float32, ReduceOp::sum, 0));
      if (!sent.ok() || !received.ok() || sum != 3) return state.SkipWithError("a reduction went wrong");
    }
  }
}
BENCHMARK(unwaited)->Arg(1000)->Arg(11000)->Iterations(1)->Unit(benchmark::kMillisecond);

struct Flags {
  alignas(128) std::atomic<std::uint64_t> asked{0};
  alignas(128) std::atomic<std::uint64_t> answered{0};
};

void flag_round(benchmark::State& state) {
  void* memory = ::mmap(nullptr, sizeof(Flags), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return state.SkipWithError("no shared memory");
  auto* flags = new (memory) Flags;
  constexpr std::uint64_t over = ~std::uint64_t{0};
  constexpr int batch = 1000;
  std::thread peer([flags] {
    for (std::uint64_t seen = 0; seen != over;) {
      const std::uint64_t asked = flags->asked.load(std::memory_order_acquire);
      if (asked == seen) continue;
      seen = asked;
      flags->answered.store(seen, std::memory_order_release);
    }
  });
  std::uint64_t round = 0;
  for (auto _ : state) {
    for (int i = 0; i < batch; ++i) {
      flags->asked.store(++round, std::memory_order_release);
      while (flags->answered.load(std::memory_order_acquire) != round) {
      }
    }
  }
  flags->asked.store(over, std::memory_order_release);
  peer.join();
  ::munmap(memory, sizeof(Flags));
  state.counters["per_round"] =
      benchmark::Counter(batch, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(flag_round)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
