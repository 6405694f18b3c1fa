#include "tools/fabring/perf/model_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/bandwidth.hpp"

namespace fabring::tools {
namespace {

// What no algorithm can go below: every rank sends its share of the reduction, and of the result.
double least_bytes(const ModelStep& step, DataType type, const JobFacts& facts) {
  const double travelling = static_cast<double>(size_of(facts.wire_type.value_or(type)));
  return bus_factor(Collective::allreduce, facts.ranks) * static_cast<double>(step.measured.bytes) * travelling /
         static_cast<double>(size_of(type));
}

// For programs.
std::string_view kind_word(Calls calls) {
  constexpr std::string_view words[] = {"buckets", "together", "in_turn", "grouped"};
  return words[static_cast<std::size_t>(calls)];
}

}  // namespace

std::string calls_text(Calls calls) {
  switch (calls) {
    case Calls::buckets:
      return "buckets";
    case Calls::together:
      return "one tensor";
    case Calls::in_turn:
      return "one, in turn";
    case Calls::grouped:
      break;
  }
  return "all, grouped";
}

std::string ModelReport::header() const {
  switch (options_.format) {
    case Format::json:
      return "[\n";
    case Format::csv:
      return std::string(csv_columns) + ",model,tensors,parameters,bucket,kind,calls,slowest_rank,least_wire_bytes\n";
    case Format::plain:
      return {};
    case Format::osu:
      return osu_header("model " + options_.model, options_, facts_);
    default:
      break;
  }
  const std::uint64_t bytes = size_.parameters * size_of(options_.type);
  std::string text =
      job_line("model " + options_.model, facts_) +
      fmt::format(", {} warm-up and {} timed steps{}\n# {} tensors, {} parameters, {:.1f} MiB of {}, {}\n",
                  options_.warm_up,
                  options_.repetitions > 0 ? fmt::format("{} x {} ms of", options_.repetitions, options_.target.count())
                                           : fmt::format("{}", options_.calls),
                  options_.check ? ", every element checked once" : ", results not checked", size_.tensors,
                  size_.parameters, static_cast<double>(bytes) / 1048576, name(options_.type), name(options_.op));
  for (const std::string& line : facts_.report) text += "#   " + line + "\n";
  constexpr const char* columns = "# {:>14} {:>6} {:>10} {:>10} {:>10} {:>7} {:>7} {:>7} {:>13} {:>8} {:>8}\n";
  text += "#\n";
  text += fmt::format(columns, "buckets of", "calls", "step", "p50", "p99", "slowest", "algbw", "busbw",
                      "sent per rank", "of least", "#wrong");
  text += fmt::format(columns, "", "", "(us)", "(us)", "(us)", "rank", "(GB/s)", "(GB/s)", "(B)", "", "");
  return text;
}

std::string ModelReport::row(const ModelStep& step, bool first) const {
  const Measurement& measured = step.measured;
  const double factor = bus_factor(options_.collective, facts_.ranks);
  const double least = least_bytes(step, options_.type, facts_);
  const bool of_buckets = step.kind == Calls::buckets;
  switch (options_.format) {
    case Format::plain:
      return of_buckets ? plain_lines(measured, factor) : "";
    case Format::osu:
      return of_buckets ? osu_line(measured) : "";
    case Format::csv:
      return csv_fields(options_, facts_, measured) +
             fmt::format(",{},{},{},{},{},{},{},{:.0f}\n", options_.model, size_.tensors, size_.parameters, step.bucket,
                         kind_word(step.kind), step.calls, step.slowest_rank, least);
    case Format::json: {
      nlohmann::ordered_json object = json_object(options_, facts_, measured);
      object.update({{"model", options_.model},
                     {"tensors", size_.tensors},
                     {"parameters", size_.parameters},
                     {"bucket", step.bucket},
                     {"kind", kind_word(step.kind)},
                     {"calls", step.calls},
                     {"slowest_rank", step.slowest_rank},
                     {"least_wire_bytes", rounded(least, 1)}});
      return (first ? "  " : ",\n  ") + object.dump();
    }
    case Format::table:
      break;
  }
  const double bandwidth = algorithm_bandwidth(measured.bytes, measured.time_us);
  return fmt::format("  {:>14} {:>6} {:>10} {:>10} {:>10} {:>7} {:>7.2f} {:>7.2f} {:>13} {:>8} {:>8}\n",
                     step.bucket > 0 ? size_text(step.bucket) : calls_text(step.kind), step.calls,
                     microseconds_text(measured.time_us), microseconds_text(measured.p50_us),
                     microseconds_text(measured.p99_us), step.slowest_rank, bandwidth, bandwidth * factor,
                     measured.wire_bytes_per_rank,
                     least > 0 ? fmt::format("{:.3f}", static_cast<double>(measured.wire_bytes_per_rank) / least) : "-",
                     options_.check ? fmt::format("{}", measured.wrong) : "N/A");
}

std::string ModelReport::footer() const { return options_.format == Format::json ? "\n]\n" : ""; }

}  // namespace fabring::tools
