#pragma once
// Timing the calls of one measurement as --reps, --target-ms and -i say.

#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/perf/perf_report.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tools {

/// Fills in times, percentiles and wire_bytes_per_rank. `steps`: each call is a step of many, long enough for a look at
/// the clock after each. Returns which rank was the slowest of what is `time_us`. All ranks call it together.
Result<Rank> time_calls(Stopwatch& stopwatch, const Stopwatch::Call& call, const PerfOptions& options, bool steps,
                        Measurement& into);

/// Says, where it is so, that --cap-s left room for fewer repetitions than --reps asks for. `what`: "4 MiB".
void tell_fewer_repetitions(const Measurement& measurement, const PerfOptions& options, const std::string& what);

}  // namespace fabring::tools
