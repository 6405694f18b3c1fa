#include "tools/fabring/perf/perf_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "collectives/cost/fit.hpp"
#include "collectives/ownership.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/bandwidth.hpp"
#include "tools/fabring/perf/choice_lines.hpp"

namespace fabring::tools {
namespace {

// Names of algorithms come from files of plans too.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

/// Two digits at least: "1.06x", "0.0041x".
std::string ratio_text(double ratio) {
  return ratio < 0.1 ? fmt::format("{:.2g}x", ratio) : fmt::format("{:.2f}x", ratio);
}

std::string_view op_word(const PerfOptions& options) { return reduces(options.collective) ? name(options.op) : "none"; }

}  // namespace

std::string microseconds_text(double us) {
  if (us >= 10'000) return fmt::format("{:.0f}", us);
  if (us >= 100) return fmt::format("{:.1f}", us);
  return fmt::format("{:.2f}", us);
}

std::string_view travelling_type(const PerfOptions& options, const JobFacts& facts) {
  return name(facts.wire_type.value_or(options.type));
}

double rounded(double value, double digits) { return std::round(value * digits) / digits; }

std::string job_line(std::string_view what, const JobFacts& facts) {
  return fmt::format("# fabring {}: {} rank{} on {} node{}, transport {}{}", what, facts.ranks,
                     facts.ranks == 1 ? "" : "s", facts.nodes, facts.nodes == 1 ? "" : "s", facts.transport,
                     (facts.memory.empty() ? "" : ", " + facts.memory) +
                         (facts.wire_type ? fmt::format(", travelling as {}", name(*facts.wire_type)) : ""));
}

std::string PredictionLines::add(const Choice& choice, const Measurement& measurement) {
  const std::optional<double> predicted = predicted_us(choice);
  const std::string where = fmt::format("{}{}: {}", size_text(measurement.bytes),
                                        measurement.in_place ? " in place" : "", measurement.algorithm);
  if (!predicted) return where + fmt::format(" measured {} us, no prediction", microseconds_text(measurement.time_us));
  if (!mapped_) {
    const double ratio = *predicted / measurement.time_us;
    ++compared_;
    if (within_20_percent(ratio)) ++close_;
    if (std::max(ratio, 1 / ratio) > std::max(worst_, 1 / worst_)) {
      worst_ = ratio;
      worst_at_ = where;
    }
  }
  return where + prediction_text(*predicted, measurement.time_us, mapped_);
}

std::string prediction_text(double predicted_us, double measured_us, bool mapped) {
  const std::string predicted = microseconds_text(predicted_us), measured = microseconds_text(measured_us);
  if (mapped) return fmt::format(" predicted {} us in ordinary memory, measured {} us in mapped", predicted, measured);
  return fmt::format(" predicted {} us, measured {} us ({})", predicted, measured,
                     ratio_text(predicted_us / measured_us));
}

std::string PredictionLines::summary() const {
  if (mapped_) return "predictions are for ordinary memory, by which algorithms are chosen: mapped memory has no price";
  if (compared_ == 0) return "nothing was predicted";
  return fmt::format("{} of {} predictions within 20% of what was measured; farthest off: {} ({})", close_, compared_,
                     worst_at_.empty() ? "none" : worst_at_, ratio_text(worst_));
}

bool shows_percentiles(Format format) {
  return format == Format::table || format == Format::csv || format == Format::json;
}

Chart bandwidth_chart(const PerfOptions& options, const JobFacts& facts, const std::vector<Measurement>& measurements) {
  Chart chart;
  chart.title = job_line(name(options.collective), facts).substr(2) + fmt::format(", {}", name(options.type));
  chart.x_label = "size (bytes)";
  chart.y_label = "busbw (GB/s)";
  chart.x_is_bytes = true;
  chart.y_is_logarithmic = false;
  for (const bool in_place : {false, true}) {
    Curve curve{in_place ? "in place" : "out of place", {}};
    for (const Measurement& each : measurements)
      if (each.in_place == in_place && each.bytes > 0)  // 0 has no place on a logarithmic axis
        curve.points.emplace_back(
            each.bytes, algorithm_bandwidth(each.bytes, each.time_us) * bus_factor(options.collective, facts.ranks));
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart;
}

const char* const csv_columns =
    "collective,ranks,bytes,count,dtype,op,in_place,transport,algorithm,lanes,time_us,p50_us,p99_us,algbw_GBps,"
    "busbw_GBps,wrong,wire_bytes_per_rank,wire_type,memory,nodes";

std::string csv_fields(const PerfOptions& options, const JobFacts& facts, const Measurement& m) {
  const double bandwidth = algorithm_bandwidth(m.bytes, m.time_us);
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{},{},{},{},{}",
                     name(options.collective), facts.ranks, m.bytes, m.count, name(options.type), op_word(options),
                     m.in_place, facts.transport, csv_field(m.algorithm), facts.lanes, m.time_us, m.p50_us, m.p99_us,
                     bandwidth, bandwidth * bus_factor(options.collective, facts.ranks),
                     options.check ? fmt::format("{}", m.wrong) : "", m.wire_bytes_per_rank,
                     travelling_type(options, facts), memory_word(options), facts.nodes);
}

nlohmann::ordered_json json_object(const PerfOptions& options, const JobFacts& facts, const Measurement& m) {
  const double bandwidth = algorithm_bandwidth(m.bytes, m.time_us);
  nlohmann::ordered_json object{
      {"collective", name(options.collective)},
      {"ranks", facts.ranks},
      {"bytes", m.bytes},
      {"count", m.count},
      {"dtype", name(options.type)},
      {"op", op_word(options)},
      {"in_place", m.in_place},
      {"transport", facts.transport},
      {"algorithm", m.algorithm},
      {"lanes", facts.lanes},
      {"time_us", rounded(m.time_us, 1e3)},
      {"p50_us", rounded(m.p50_us, 1e3)},
      {"p99_us", rounded(m.p99_us, 1e3)},
      {"algbw_GBps", rounded(bandwidth, 1e6)},
      {"busbw_GBps", rounded(bandwidth * bus_factor(options.collective, facts.ranks), 1e6)},
      {"wrong", nullptr},
      {"wire_bytes_per_rank", m.wire_bytes_per_rank},
      {"wire_type", travelling_type(options, facts)},
      {"memory", memory_word(options)},
      {"nodes", facts.nodes},
  };
  if (!facts.ranks_of_nodes.empty()) object["ranks_of_nodes"] = facts.ranks_of_nodes;
  if (options.check) object["wrong"] = m.wrong;
  if (options.repetitions > 0) {
    auto& each = object["repetitions_us"] = nlohmann::ordered_json::array();
    for (const double us : m.repetitions_us) each.push_back(rounded(us, 1e3));
  }
  return object;
}

std::string plain_lines(const Measurement& m, double bus_factor) {
  std::string text;
  for (const double us : m.repetitions_us) {
    const double each = algorithm_bandwidth(m.bytes, us);
    text += fmt::format("{} {:.3f} {:.6f} {:.6f}\n", m.bytes, us, each, each * bus_factor);
  }
  return text;
}

std::string osu_header(std::string_view what, const PerfOptions& options, const JobFacts& facts) {
  return fmt::format("# Fabring {} latency, {} ranks, {}, {}\n# Size       Avg Latency(us)\n", what, facts.ranks,
                     name(options.type), op_word(options));
}

std::string osu_line(const Measurement& m) { return fmt::format("{:<12} {:>16.2f}\n", m.bytes, m.time_us); }

std::string PerfReport::header() const {
  switch (options_.format) {
    case Format::plain:
      return {};
    case Format::json:
      return "[\n";
    case Format::csv:
      return std::string(csv_columns) + "\n";
    case Format::osu:
      return osu_header(name(options_.collective), options_, facts_);
    case Format::table:
      break;
  }
  std::string text = job_line(name(options_.collective), facts_) + fmt::format(", {} warm-up and ", options_.warm_up);
  text += options_.repetitions > 0
              ? fmt::format("{} x {} ms of timed calls", options_.repetitions, options_.target.count())
              : fmt::format("{} timed calls", options_.calls);
  const char* checked =
      facts_.wire_type ? ", every element checked to be within the bound of the error\n" : ", every element checked\n";
  text += options_.check ? checked : ", results not checked\n";
  for (const std::string& line : facts_.report) text += "#   " + line + "\n";
  // Percentiles come last, so that the columns before them are where readers of nccl-tests' tables look for them.
  text += fmt::format("#\n# {:>10} {:>12} {:>9} {:>6} {:>5}  {:^34}  {:^34}  {:^19}  {:^19}\n", "", "", "", "", "",
                      "out-of-place", "in-place", "out-of-place", "in-place");
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}", "size", "count", "type", "redop", "root");
  for (int way = 0; way < 2; ++way)
    text += fmt::format("  {:>9} {:>7} {:>7} {:>8}", "time", "algbw", "busbw", "#wrong");
  for (int way = 0; way < 2; ++way) text += fmt::format("  {:>9} {:>9}", "p50", "p99");
  text += fmt::format("\n# {:>10} {:>12} {:>9} {:>6} {:>5}", "(B)", "(elements)", "", "", "");
  for (int way = 0; way < 2; ++way) text += fmt::format("  {:>9} {:>7} {:>7} {:>8}", "(us)", "(GB/s)", "(GB/s)", "");
  for (int way = 0; way < 2; ++way) text += fmt::format("  {:>9} {:>9}", "(us)", "(us)");
  text += "\n";
  return text;
}

std::string PerfReport::table_line(const std::vector<Measurement>& measurements) const {
  const Measurement& first = measurements.front();
  std::string text = fmt::format("{:>12} {:>12} {:>9} {:>6} {:>5}", first.bytes, first.count, name(options_.type),
                                 op_word(options_), has_root(options_.collective) ? options_.root : -1);
  std::string percentiles;
  for (bool in_place : {false, true}) {
    const Measurement* found = nullptr;
    for (const Measurement& measurement : measurements)
      if (measurement.in_place == in_place) found = &measurement;
    if (found == nullptr) {
      percentiles += fmt::format("  {:>9} {:>9}", "-", "-");
      text += fmt::format("  {:>9} {:>7} {:>7} {:>8}", "-", "-", "-", "-");
      continue;
    }
    const double bandwidth = algorithm_bandwidth(found->bytes, found->time_us);
    text += fmt::format("  {:>9} {:>7.2f} {:>7.2f} {:>8}", microseconds_text(found->time_us), bandwidth,
                        bandwidth * bus_factor(options_.collective, facts_.ranks),
                        options_.check ? fmt::format("{}", found->wrong) : "N/A");
    percentiles += fmt::format("  {:>9} {:>9}", microseconds_text(found->p50_us), microseconds_text(found->p99_us));
  }
  return text + percentiles + "\n";
}

std::string PerfReport::size_done(const std::vector<Measurement>& measurements) {
  const double factor = bus_factor(options_.collective, facts_.ranks);
  std::string text;
  if (options_.format == Format::table) text = table_line(measurements);
  for (const Measurement& m : measurements) {
    wrong_ += m.wrong;
    const double bandwidth = algorithm_bandwidth(m.bytes, m.time_us);
    bus_sum_ += bandwidth * factor;
    ++bus_count_;
    switch (options_.format) {
      case Format::table:
        break;
      case Format::osu:
        text += osu_line(m);
        break;
      case Format::plain:
        text += plain_lines(m, factor);
        break;
      case Format::csv:
        text += csv_fields(options_, facts_, m) + "\n";
        break;
      case Format::json:
        text += (first_ ? "  " : ",\n  ") + json_object(options_, facts_, m).dump();
        break;
    }
    first_ = false;
  }
  return text;
}

std::string PerfReport::footer() const {
  if (options_.format == Format::json) return "\n]\n";
  if (options_.format != Format::table) return {};
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.6g}\n#\n", wrong_,
                     !options_.check ? "NOT CHECKED"
                     : wrong_ == 0   ? "OK"
                                     : "FAILED",
                     bus_count_ == 0 ? 0.0 : bus_sum_ / bus_count_);
}

}  // namespace fabring::tools
