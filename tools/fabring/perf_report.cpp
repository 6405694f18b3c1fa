#include "tools/fabring/perf_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace fabring::tools {
namespace {

// Times as nccl-tests prints them: as many decimals as fit.
std::string time_text(double us) {
  if (us >= 10'000) return fmt::format("{:.0f}", us);
  if (us >= 100) return fmt::format("{:.1f}", us);
  return fmt::format("{:.2f}", us);
}

bool has_operation(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}
bool has_root(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast ||
         collective == Collective::gather || collective == Collective::scatter;
}

// JSON writes all digits of a double; nobody measured those.
double rounded(double value, double digits) { return std::round(value * digits) / digits; }

}  // namespace

double algorithm_bandwidth(std::size_t bytes, double time_us) {
  return time_us > 0 ? static_cast<double>(bytes) / time_us * 1e-3 : 0.0;
}

double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::allreduce:
      return 2 * share;
    case Collective::broadcast:
    case Collective::reduce:
      return 1;
    default:
      return share;
  }
}

std::string PerfReport::header() const {
  switch (options_.format) {
    case Format::plain:
      return {};
    case Format::json:
      return "[\n";
    case Format::csv:
      return "collective,ranks,bytes,count,dtype,op,in_place,transport,algorithm,lanes,time_us,p50_us,p99_us,algbw_"
             "GBps,"
             "busbw_GBps,wrong,wire_bytes_per_rank\n";
    case Format::osu:
      return fmt::format("# Fabring {} latency, {} ranks, {}, {}\n# Size       Avg Latency(us)\n",
                         name(options_.collective), facts_.ranks, name(options_.type), name(options_.op));
    case Format::table:
      break;
  }
  std::string text = fmt::format("# fabring {}: {} rank{} on {} node{}, transport {}, {} warm-up and ",
                                 name(options_.collective), facts_.ranks, facts_.ranks == 1 ? "" : "s", facts_.nodes,
                                 facts_.nodes == 1 ? "" : "s", facts_.transport, options_.warm_up);
  text += options_.repetitions > 0
              ? fmt::format("{} x {} ms of timed calls", options_.repetitions, options_.target.count())
              : fmt::format("{} timed calls", options_.calls);
  text += options_.check ? ", every element checked\n" : ", results not checked\n";
  for (const std::string& line : facts_.report) text += "#   " + line + "\n";
  text += fmt::format("#\n# {:>10} {:>12} {:>9} {:>6} {:>5}  {:^34}  {:^34}\n", "", "", "", "", "", "out-of-place",
                      "in-place");
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}  {:>9} {:>7} {:>7} {:>8}  {:>9} {:>7} {:>7} {:>8}\n", "size",
                      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                      "#wrong");
  text += fmt::format("# {:>10} {:>12} {:>9} {:>6} {:>5}  {:>9} {:>7} {:>7} {:>8}  {:>9} {:>7} {:>7} {:>8}\n", "(B)",
                      "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  return text;
}

std::string PerfReport::table_line(const std::vector<Measurement>& measurements) const {
  const Measurement& first = measurements.front();
  std::string text = fmt::format("{:>12} {:>12} {:>9} {:>6} {:>5}", first.bytes, first.count, name(options_.type),
                                 has_operation(options_.collective) ? name(options_.op) : "none",
                                 has_root(options_.collective) ? options_.root : -1);
  for (bool in_place : {false, true}) {
    const Measurement* found = nullptr;
    for (const Measurement& measurement : measurements)
      if (measurement.in_place == in_place) found = &measurement;
    if (found == nullptr) {
      text += fmt::format("  {:>9} {:>7} {:>7} {:>8}", "-", "-", "-", "-");
      continue;
    }
    const double bandwidth = algorithm_bandwidth(found->bytes, found->time_us);
    text += fmt::format("  {:>9} {:>7.2f} {:>7.2f} {:>8}", time_text(found->time_us), bandwidth,
                        bandwidth * bus_factor(options_.collective, facts_.ranks),
                        options_.check ? fmt::format("{}", found->wrong) : "N/A");
  }
  return text + "\n";
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
        text += fmt::format("{:<12} {:>16.2f}\n", m.bytes, m.time_us);
        break;
      case Format::plain:
        for (double us : m.repetitions_us) {
          const double each = algorithm_bandwidth(m.bytes, us);
          text += fmt::format("{} {:.3f} {:.6f} {:.6f}\n", m.bytes, us, each, each * factor);
        }
        break;
      case Format::csv:
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.6f},{},{}\n",
                            name(options_.collective), facts_.ranks, m.bytes, m.count, name(options_.type),
                            name(options_.op), m.in_place, facts_.transport, m.algorithm, facts_.lanes, m.time_us,
                            m.p50_us, m.p99_us, bandwidth, bandwidth * factor,
                            options_.check ? fmt::format("{}", m.wrong) : "", m.wire_bytes_per_rank);
        break;
      case Format::json: {
        nlohmann::ordered_json object{
            {"collective", name(options_.collective)},
            {"ranks", facts_.ranks},
            {"bytes", m.bytes},
            {"count", m.count},
            {"dtype", name(options_.type)},
            {"op", name(options_.op)},
            {"in_place", m.in_place},
            {"transport", facts_.transport},
            {"algorithm", m.algorithm},
            {"lanes", facts_.lanes},
            {"time_us", rounded(m.time_us, 1e3)},
            {"p50_us", rounded(m.p50_us, 1e3)},
            {"p99_us", rounded(m.p99_us, 1e3)},
            {"algbw_GBps", rounded(bandwidth, 1e6)},
            {"busbw_GBps", rounded(bandwidth * factor, 1e6)},
            {"wrong", nullptr},
            {"wire_bytes_per_rank", m.wire_bytes_per_rank},
        };
        if (options_.check) object["wrong"] = m.wrong;
        text += (first_ ? "  " : ",\n  ") + object.dump();
        break;
      }
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
