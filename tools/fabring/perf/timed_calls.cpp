#include "tools/fabring/perf/timed_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "tools/fabring/command.hpp"

namespace fabring::tools {

Result<Rank> time_calls(Stopwatch& stopwatch, const Stopwatch::Call& call, const PerfOptions& options, bool steps,
                        Measurement& into) {
  Filling filling{options.calls, 1};
  if (options.repetitions > 0) {
    const auto agreed = stopwatch.filling(call, options.target, options.repetitions, options.cap);
    if (!agreed) return agreed.error();
    filling = *agreed;
  }
  std::vector<double> each;
  std::vector<Rank> slowest;
  double seconds = 0;
  for (int repetition = 0; repetition < filling.repetitions; ++repetition) {
    const auto total = stopwatch.time(call, filling.calls, steps ? &each : nullptr);
    if (!total) return total.error();
    seconds = total->seconds;
    slowest.push_back(total->slowest);
    into.repetitions_us.push_back(total->seconds / filling.calls * 1e6);
    into.wire_bytes_per_rank = static_cast<std::uint64_t>(std::llround(total->wire_bytes_sent / filling.calls));
  }
  std::vector<double> repetitions = into.repetitions_us;
  into.time_us = percentile(repetitions, 0.50);
  const auto middle = std::ranges::find(into.repetitions_us, into.time_us) - into.repetitions_us.begin();
  const Rank slowest_of_median = slowest[static_cast<std::size_t>(middle)];
  if (options.repetitions > 0) {
    into.p50_us = into.time_us;
    into.p99_us = percentile(repetitions, 0.99);
    return slowest_of_median;
  }
  if (!shows_percentiles(options.format)) return slowest_of_median;
  if (!steps) {
    // Calls of their own: looks at the clock between those above would be part of what is measured. All ranks have the
    // same `seconds`, so all of them make as many.
    const auto timed = stopwatch.time(call, calls_timed_singly(filling.calls, seconds), &each);
    if (!timed) return timed.error();
  }
  into.p50_us = percentile(each, 0.50) * 1e6;
  into.p99_us = percentile(each, 0.99) * 1e6;
  return slowest_of_median;
}

void tell_fewer_repetitions(const Measurement& measurement, const PerfOptions& options, const std::string& what) {
  const auto made = static_cast<int>(measurement.repetitions_us.size());
  if (made < options.repetitions)
    complain("perf", fmt::format("{}: {} of {} repetitions: a call takes {:.3g} s, and --cap-s is {:g}", what, made,
                                 options.repetitions, measurement.time_us * 1e-6,
                                 std::chrono::duration<double>(options.cap).count()));
}

}  // namespace fabring::tools
