// What `fabring perf --format json` wrote, as `fabring simulate --measured` reads it.

#include "tests/fuzz/targets.hpp"
#include "tools/fabring/simulate/measured_times.hpp"

namespace fabring::fuzz::measurements {

void run(std::string_view input) {
  const auto times = tools::measured_times(input);
  if (!times) return require(times.error().code() == ErrorCode::invalid_argument, "what is refused says why");
  for (const tools::MeasuredTime& one : *times) {
    require(!one.algorithm || has_algorithm(one.collective, *one.algorithm), "the collective has the algorithm");
    require(one.nodes <= one.ranks, "no node is without ranks");
    require(one.ranks >= 1 && one.ranks <= tools::most_measured_ranks, "ranks are in their bounds");
    require(one.bytes <= tools::most_measured_bytes, "so are bytes");
    require(one.time_us > 0 && one.time_us <= tools::longest_measured_us, "and times");
  }
}

Seeds seeds() {
  return {R"([{"collective": "allreduce", "bytes": 1024, "ranks": 4, "algorithm": "ring", "time_us": 12.5, "wrong": 0},
 {"collective": "broadcast", "bytes": 8, "ranks": 2, "algorithm": "chain", "time_us": 1},
 {"collective": "reduce", "bytes": 8, "ranks": 2, "algorithm": "x", "time_us": 1, "nodes": 2, "wire_type": "float16", "memory": "mapped"}])",
          "[]", R"([{"bytes": 1, "ranks": 1, "algorithm": "?", "time_us": 1e300}])"};
}

}  // namespace fabring::fuzz::measurements
