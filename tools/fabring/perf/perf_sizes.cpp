// A collective over sizes: the report, what --explain adds, and the picture.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/call_sizes.hpp"
#include "tools/fabring/perf/choice_lines.hpp"
#include "tools/fabring/perf/perf_job.hpp"
#include "tools/fabring/perf/perf_measure.hpp"
#include "tools/fabring/perf/timed_calls.hpp"
#include "tools/fabring/svg.hpp"

namespace fabring::tools {
namespace {

// Each once as it is measured: of blocks, sizes of less than an element of each are all the same. Of sizes that nobody
// named, but which are the steps between two, one stands for all.
std::vector<std::size_t> measured_sizes(const Measuring& measuring, const PerfOptions& options, bool tells) {
  std::vector<std::size_t> sizes;
  std::vector<std::string> changed;
  for (const std::size_t asked : options.sizes) {
    const std::size_t bytes = measuring.measured_bytes(asked);
    if (bytes != asked)
      changed.push_back(changed_size(asked, bytes, measuring.blocks(), "measured", name(options.type)));
    if (std::find(sizes.begin(), sizes.end(), bytes) == sizes.end()) sizes.push_back(bytes);
  }
  if (!options.sizes_are_named && changed.size() > 1) {
    changed.front() += fmt::format("; {} more sizes from -b to -e are rounded too", changed.size() - 1);
    changed.resize(1);
  }
  for (const std::string& each : changed)
    if (tells) complain("perf", each);
  return sizes;
}

void explain_choices(const Measuring& measuring, const std::vector<std::size_t>& sizes) {
  for (const std::size_t bytes : sizes) tell_choice(size_text(bytes), measuring.explain(bytes));
}

}  // namespace

Result<std::uint64_t> measure_sizes(PerfJob& job) {
  const PerfOptions& options = job.options();
  const bool picture = !options.plot.empty();
  const bool both_ways = (options.format == Format::table || picture) && !options.in_place;
  auto measuring = Measuring::prepare(job.engine(), job.measured(), options, both_ways, job.device());
  if (!measuring) return measuring.error();
  const std::vector<std::size_t> sizes = measured_sizes(*measuring, options, job.writes());
  if (options.explain && job.writes()) explain_choices(*measuring, sizes);
  PerfReport report(options, job.facts());
  job.write(report.header());
  PredictionLines predictions(options.mapped);
  std::vector<Measurement> all;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string size = size_text(sizes[i]);
    job.tell_progress(fmt::format("{} of {} sizes measured; now {}", i, sizes.size(), size));
    std::vector<Measurement> measurements;
    for (const bool in_place : {false, true}) {
      if (!both_ways && in_place != options.in_place) continue;
      auto measurement = measuring->run(sizes[i], in_place);
      if (!measurement) return measurement.error().with_prefix(fmt::format("at {}: ", size));
      wrong += measurement->wrong;
      if (job.writes()) tell_fewer_repetitions(*measurement, options, size + (in_place ? " in place" : ""));
      all.push_back(*measurement);
      // What has no column for it shows one way only; the other is for the picture.
      if (both_ways && in_place && (options.format == Format::osu || options.format == Format::plain)) continue;
      measurements.push_back(std::move(*measurement));
    }
    job.write(report.size_done(measurements));
    if (options.explain && job.writes())
      for (const Measurement& each : measurements)
        complain("perf", predictions.add(measuring->explain(sizes[i]), each));
  }
  if (options.explain && job.writes()) complain("perf", predictions.summary());
  job.write(report.footer());
  FABRING_TRY(job.finish(picture && job.writes() ? draw(bandwidth_chart(options, job.facts(), all)) : ""));
  return wrong;
}

}  // namespace fabring::tools
