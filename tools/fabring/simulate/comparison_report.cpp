#include "tools/fabring/simulate/comparison_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/simulate/simulate_report.hpp"

namespace fabring::tools {

std::string comparison_table(const std::vector<Comparison>& rows, const SimulatedWorlds& wanted) {
  constexpr auto line = "{:>10} {:>6} {:>6} {:>20} {:>12} {:>12} {:>6}\n";
  std::string text = fmt::format(line, "size", "ranks", "nodes", "algorithm", "predicted", "measured", "ratio");
  Legend legend;
  for (const Comparison& row : rows) {
    const Forecast& forecast = row.forecast;
    const MeasuredTime& measured = row.measured;
    const auto time = forecast.time();
    const char* const mark = forecast.extrapolated() ? extrapolated_mark : forecast.priced() ? priced_mark : "";
    text +=
        fmt::format(line, size_text(measured.bytes), measured.ranks, forecast.nodes, name(forecast.algorithm),
                    time ? mark + time_text(*time) : "-", time_text(static_cast<Nanoseconds>(measured.time_us * 1e3)),
                    row.known() ? fmt::format("{:.2f}", row.ratio()) : "-");
    if (!forecast.outcome) legend.explain(forecast.algorithm, forecast.note);
    legend.mark(forecast.priced(), forecast.extrapolated());
  }
  const auto within = std::ranges::count_if(rows, &Comparison::within_20_percent);
  return text + legend.text() +
         fmt::format("{} of {} within 20% on {}\n", within, rows.size(), wanted.forecast.machine.name);
}

std::string comparison_json(const std::vector<Comparison>& rows, const SimulatedWorlds& wanted) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Comparison& row : rows) {
    const Forecast& forecast = row.forecast;
    const MeasuredTime& measured = row.measured;
    const auto if_known = [&](double value) { return row.known() ? nlohmann::ordered_json(value) : nullptr; };
    json.push_back({{"collective", name(measured.collective)},
                    {"algorithm", name(forecast.algorithm)},
                    {"machine", wanted.forecast.machine.name},
                    {"nodes", forecast.nodes},
                    {"ranks", measured.ranks},
                    {"bytes", measured.bytes},
                    {"time_us", if_known(row.predicted_us())},
                    {"measured_us", measured.time_us},
                    {"ratio", if_known(row.ratio())},
                    {"within_20_percent", row.within_20_percent()},
                    {"priced", forecast.priced()},
                    {"extrapolated", forecast.extrapolated()}});
    if (!forecast.ranks_of_nodes.empty()) json.back()["ranks_of_nodes"] = forecast.ranks_of_nodes;
    if (!forecast.outcome) json.back()["note"] = forecast.note;
  }
  return json.dump(2) + "\n";
}

}  // namespace fabring::tools
