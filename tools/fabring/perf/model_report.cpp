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
  return bus_factor(Collective::allreduce, facts.ranks) * static_cast<double>(step.bytes) * travelling /
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
      return "model,ranks,tensors,parameters,bytes,dtype,op,bucket,kind,calls,transport,lanes,time_us,p50_us,p99_us,"
             "slowest_rank,algbw_GBps,busbw_GBps,wire_bytes_per_rank,least_wire_bytes,wrong\n";
    default:
      break;
  }
  const std::uint64_t bytes = size_.parameters * size_of(options_.type);
  std::string text =
      job_line("model " + options_.model, facts_) +
      fmt::format(", {} warm-up and {} timed steps{}\n# {} tensors, {} parameters, {:.1f} MiB of {}, {}\n",
                  options_.warm_up, options_.calls,
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
  const double bandwidth = algorithm_bandwidth(step.bytes, step.time_us);
  const double bus = bandwidth * bus_factor(Collective::allreduce, facts_.ranks);
  const double least = least_bytes(step, options_.type, facts_);
  switch (options_.format) {
    case Format::csv:
      return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{},{:.6f},{:.6f},{},{:.0f},{}\n",
                         options_.model, facts_.ranks, size_.tensors, size_.parameters, step.bytes, name(options_.type),
                         name(options_.op), step.bucket, kind_word(step.kind), step.calls, facts_.transport,
                         facts_.lanes, step.time_us, step.p50_us, step.p99_us, step.slowest_rank, bandwidth, bus,
                         step.wire_bytes_per_rank, least, options_.check ? fmt::format("{}", step.wrong) : "");
    case Format::json: {
      nlohmann::ordered_json object{
          {"model", options_.model},
          {"ranks", facts_.ranks},
          {"tensors", size_.tensors},
          {"parameters", size_.parameters},
          {"bytes", step.bytes},
          {"dtype", name(options_.type)},
          {"op", name(options_.op)},
          {"bucket", step.bucket},
          {"kind", kind_word(step.kind)},
          {"calls", step.calls},
          {"transport", facts_.transport},
          {"lanes", facts_.lanes},
          {"time_us", rounded(step.time_us, 1e3)},
          {"p50_us", rounded(step.p50_us, 1e3)},
          {"p99_us", rounded(step.p99_us, 1e3)},
          {"slowest_rank", step.slowest_rank},
          {"algbw_GBps", rounded(bandwidth, 1e6)},
          {"busbw_GBps", rounded(bus, 1e6)},
          {"wire_bytes_per_rank", step.wire_bytes_per_rank},
          {"least_wire_bytes", rounded(least, 1)},
          {"wrong", nullptr},
      };
      if (options_.check) object["wrong"] = step.wrong;
      return (first ? "  " : ",\n  ") + object.dump();
    }
    default:
      break;
  }
  return fmt::format("  {:>14} {:>6} {:>10} {:>10} {:>10} {:>7} {:>7.2f} {:>7.2f} {:>13} {:>8} {:>8}\n",
                     step.bucket > 0 ? size_text(step.bucket) : calls_text(step.kind), step.calls,
                     microseconds_text(step.time_us), microseconds_text(step.p50_us), microseconds_text(step.p99_us),
                     step.slowest_rank, bandwidth, bus, step.wire_bytes_per_rank,
                     least > 0 ? fmt::format("{:.3f}", static_cast<double>(step.wire_bytes_per_rank) / least) : "-",
                     options_.check ? fmt::format("{}", step.wrong) : "N/A");
}

std::string ModelReport::footer() const { return options_.format == Format::json ? "\n]\n" : ""; }

}  // namespace fabring::tools
