// `fabring perf --guard`: measures the pairs of guard.hpp on the ranks of a job, a repetition of each in turn, so that
// both have the same weather.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/perf/choice_lines.hpp"
#include "tools/fabring/perf/guard.hpp"
#include "tools/fabring/perf/measured_memory.hpp"
#include "tools/fabring/perf/perf_job.hpp"
#include "tools/fabring/stopwatch.hpp"

namespace fabring::tools {
namespace {

class Guard {
 public:
  explicit Guard(PerfJob& job) : world_(job.world()), stopwatch_(job.engine()), options_(job.options()) {}

  Result<GuardVerdict> judge(const GuardPair& pair) {
    return guard_verdict([&] { return measure(pair); }, options_.margin);
  }
  Choice choice(const GuardPair& pair) const { return world_.explain(pair.operations.front()); }

 private:
  Status run(const std::vector<Operation>& operations) {
    for (const Operation& each : operations) FABRING_TRY(world_.run(each));
    return {};
  }

  Result<GuardTimes> measure(const GuardPair& pair) {
    const auto one = [&] { return run(pair.operations); };
    const auto composed = [&] { return run(pair.composed_of); };
    for (int i = 0; i < options_.warm_up; ++i) {
      FABRING_TRY(one());
      FABRING_TRY(composed());
    }
    const auto filling = stopwatch_.filling(composed, options_.target, 2 * options_.repetitions, options_.cap);
    if (!filling) return filling.error();
    GuardTimes times;
    for (int repetition = 0; repetition < std::max(filling->repetitions / 2, 1); ++repetition) {
      const auto first = stopwatch_.time(one, filling->calls);
      if (!first) return first.error();
      const auto second = stopwatch_.time(composed, filling->calls);
      if (!second) return second.error();
      times.one.push_back(first->seconds / filling->calls * 1e6);
      times.composed.push_back(second->seconds / filling->calls * 1e6);
    }
    return times;
  }

  Communicator world_;
  Stopwatch stopwatch_;
  const PerfOptions& options_;
};

/// One pair at one size.
struct Row {
  std::size_t bytes = 0;
  const GuardPair& pair;
  const GuardVerdict& verdict;
  std::string algorithm;
};

std::string header(const PerfOptions& options, const JobFacts& facts) {
  if (options.format == Format::json) return "[\n";
  std::string text =
      job_line("guard", facts) + fmt::format(", medians of {} x {} ms, margin {:g}\n", options.repetitions,
                                             options.target.count(), options.margin);
  for (const std::string& line : facts.report) text += "#   " + line + "\n";
  text += fmt::format("#\n# {:>10} {:<14} {:<20} {:>10}  {:<27} {:>10} {:>6} {:>8}\n", "size (B)", "collective",
                      "algorithm", "time (us)", "composed of", "time (us)", "ratio", "");
  return text;
}

std::string text_of(const Row& row, const PerfOptions& options, const JobFacts& facts, bool first) {
  const GuardVerdict& verdict = row.verdict;
  if (options.format == Format::json) {
    const nlohmann::ordered_json object{
        {"collective", row.pair.collective},
        {"composition", row.pair.composition},
        {"ranks", facts.ranks},
        {"bytes", row.bytes},
        {"dtype", name(options.type)},
        {"transport", facts.transport},
        {"algorithm", row.algorithm},
        {"time_us", rounded(verdict.one, 1e3)},
        {"composed_us", rounded(verdict.composed, 1e3)},
        {"ratio", rounded(verdict.ratio(), 1e3)},
        {"margin", options.margin},
        {"attempts", verdict.attempts},
        {"slow", verdict.slow},
        {"wire_type", travelling_type(options, facts)},
        {"memory", memory_word(options)},
        {"nodes", facts.nodes},
    };
    return (first ? "  " : ",\n  ") + object.dump();
  }
  return fmt::format("  {:>10} {:<14} {:<20} {:>10}  {:<27} {:>10} {:>6.2f} {:>8}\n", row.bytes, row.pair.collective,
                     row.algorithm, microseconds_text(verdict.one), row.pair.composition,
                     microseconds_text(verdict.composed), verdict.ratio(), verdict.slow ? "SLOW" : "ok");
}

/// With candidates where these were not told yet.
void explain_row(const Row& row, const Choice& choice, bool with_candidates, PredictionLines& predictions) {
  tell_choice(row.pair.collective, choice, with_candidates);
  Measurement one;
  one.bytes = row.bytes;
  one.time_us = row.verdict.one;
  one.algorithm = fmt::format("{} by {}", row.pair.collective, row.algorithm);
  complain("perf", predictions.add(choice, one));
}

}  // namespace

Result<std::uint64_t> measure_guard(PerfJob& job) {
  const PerfOptions& options = job.options();
  const int ranks = job.facts().ranks;
  if (ranks < 2) return Status(ErrorCode::invalid_argument, "--guard needs 2 ranks or more: one has nobody to talk to");
  std::size_t largest = 0;
  for (const std::size_t bytes : options.sizes) largest = std::max(largest, guard_elements(bytes, options.type, ranks));
  largest *= size_of(options.type);
  std::array<MeasuredMemory, 3> buffers;
  for (MeasuredMemory& buffer : buffers) {
    auto memory = measured_memory(job.engine(), options, largest);
    if (!memory) return memory.error();
    buffer = std::move(*memory);
    std::memset(buffer.get(), 0, largest);
  }

  Guard guard(job);
  job.write(header(options, job.facts()));
  PredictionLines predictions(options.mapped);
  std::uint64_t slow = 0, pairs = 0;
  for (const std::size_t size : options.sizes) {
    const std::size_t elements = guard_elements(size, options.type, ranks), bytes = elements * size_of(options.type);
    std::set<std::string_view> told;  // a collective is in several pairs
    for (const GuardPair& pair : guard_pairs({buffers[0].get(), buffers[1].get(), buffers[2].get()}, elements,
                                             options.type, job.world().rank(), ranks, size == options.sizes.front())) {
      job.tell_progress(fmt::format("now {} of {}", pair.collective, size_text(bytes)));
      const auto verdict = guard.judge(pair);
      if (!verdict) return verdict.error().with_prefix(fmt::format("{} at {}: ", pair.collective, size_text(bytes)));
      const bool barrier = pair.operations.front().collective == Collective::barrier;
      const Choice choice = guard.choice(pair);
      const Row row{barrier ? 0 : bytes, pair, *verdict, choice.algorithm};
      job.write(text_of(row, options, job.facts(), pairs == 0));
      if (options.explain && job.writes()) explain_row(row, choice, told.insert(pair.collective).second, predictions);
      slow += verdict->slow ? 1 : 0;
      ++pairs;
    }
  }
  if (options.explain && job.writes()) complain("perf", predictions.summary());
  job.write(options.format == Format::json
                ? "\n]\n"
                : fmt::format("# {} of {} collectives slower than their composition\n", slow, pairs));
  FABRING_TRY(job.finish());
  return slow;
}

}  // namespace fabring::tools
