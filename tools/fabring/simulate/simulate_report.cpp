#include "tools/fabring/simulate/simulate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "collectives/ownership.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/bandwidth.hpp"

namespace fabring::tools {
namespace {

std::optional<std::size_t> fastest(const std::vector<Forecast>& row) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto time = row[i].time();
    if (time && *time < longest_time && (!best || *time < *row[*best].time())) best = i;
  }
  return best;
}

/// With three digits or four: "1013 MiB", "31.5 GiB".
std::string rounded_size(double bytes) {
  for (const auto& [unit, suffix] :
       {std::pair{std::uint64_t{1} << 40, "TiB"}, {1u << 30, "GiB"}, {1u << 20, "MiB"}, {1u << 10, "KiB"}}) {
    const double value = bytes / static_cast<double>(unit);
    if (value >= 100) return fmt::format("{:.0f} {}", value, suffix);
    if (value >= 1) return fmt::format("{:.3g} {}", value, suffix);
  }
  return fmt::format("{:.0f} B", bytes);
}

}  // namespace

std::string time_text(Nanoseconds time) {
  const auto ns = static_cast<double>(time);
  const auto text = [](double value, const char* unit) {
    return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
  };
  if (time >= longest_time) return "> 36 years";
  if (ns < 1e6) return text(ns / 1e3, "us");
  if (ns < 1e9) return text(ns / 1e6, "ms");
  return text(ns / 1e9, "s");
}

std::string stragglers_title(const simulation::Stragglers& stragglers) {
  if (stragglers.probability <= 0) return "";
  return fmt::format(", {:g}% of ranks {} late", 100 * stragglers.probability, time_text(stragglers.late_ns));
}

std::string stragglers_line(const simulation::Stragglers& stragglers, const std::vector<int>& worlds) {
  if (stragglers.probability <= 0) return "";
  std::vector<std::string> late;
  for (const int ranks : worlds)
    late.push_back(
        fmt::format("{} of {}{}", simulation::late_ranks(stragglers, ranks), ranks, late.empty() ? " ranks" : ""));
  return fmt::format("({} late, by --seed {}: {})\n", time_text(stragglers.late_ns), stragglers.seed,
                     fmt::join(late, ", "));
}

void Legend::mark(bool priced, bool extrapolated) {
  priced_ |= priced;
  extrapolated_ |= extrapolated;
}

void Legend::explain(Algorithm algorithm, std::string_view why) {
  reasons_.insert(fmt::format("({}: {})\n", name(algorithm), why));
}

std::string Legend::text() const {
  std::string text;
  if (priced_) text += fmt::format("({}: price in closed form, not simulated)\n", priced_mark);
  for (const std::string& reason : reasons_) text += reason;
  if (extrapolated_)
    text += fmt::format("({}: the first tiles simulated, the rest added at their pace)\n", extrapolated_mark);
  return text;
}

std::string forecast_table(const std::vector<std::vector<Forecast>>& rows, Rows what) {
  if (rows.empty()) return {};
  std::string text = fmt::format("{:>10}", what == Rows::sizes ? "size" : "ranks");
  for (const Forecast& column : rows.front())
    text += fmt::format(" {:>{}}", name(column.algorithm), std::max<std::size_t>(12, name(column.algorithm).size()));
  text += "\n";
  Legend legend;
  for (const auto& row : rows) {
    const auto best = fastest(row);
    text += fmt::format("{:>10}",
                        what == Rows::sizes ? size_text(row.front().bytes) : fmt::format("{}", row.front().ranks));
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto time = row[i].time();
      std::string cell = time ? time_text(*time) : "-";
      if (row[i].priced()) cell = priced_mark + cell;
      if (row[i].extrapolated()) cell = extrapolated_mark + cell;
      legend.mark(row[i].priced(), row[i].extrapolated());
      if (!row[i].outcome && row[i].note != far_behind) legend.explain(row[i].algorithm, row[i].note);
      if (best == i) cell = "*" + cell;
      text += fmt::format(" {:>{}}", cell, std::max<std::size_t>(12, name(row[i].algorithm).size()));
    }
    text += "\n";
  }
  return text + "(*: fastest)\n" + legend.text();
}

Status without_forecast(const std::vector<std::vector<Forecast>>& rows) {
  for (std::size_t i = 0; !rows.empty() && i < rows.front().size(); ++i) {
    if (std::ranges::any_of(rows, [i](const auto& row) { return row[i].time().has_value(); })) continue;
    const Forecast& first = rows.front()[i];
    return {ErrorCode::unsupported, fmt::format("there is no forecast of {}: {}", name(first.algorithm), first.note)};
  }
  return {};
}

std::string forecast_json(const std::vector<std::vector<Forecast>>& rows, const ForecastOptions& options) {
  std::string text = "[\n";
  bool first = true;
  for (const auto& row : rows) {
    for (const Forecast& each : row) {
      nlohmann::ordered_json object{{"collective", name(options.collective)},
                                    {"algorithm", name(each.algorithm)},
                                    {"machine", options.machine.name},
                                    {"nodes", each.nodes},
                                    {"ranks", each.ranks}};
      if (!each.ranks_of_nodes.empty()) object["ranks_of_nodes"] = each.ranks_of_nodes;
      if (options.stragglers.probability > 0) {
        object["late_ranks"] = simulation::late_ranks(options.stragglers, each.ranks);
        object["late_us"] = microseconds(options.stragglers.late_ns);
      }
      object["bytes"] = each.bytes;
      const bool priced = each.predicted && *each.predicted < longest_time;
      object["predicted_us"] = priced ? nlohmann::ordered_json(microseconds(*each.predicted)) : nullptr;
      object["time_us"] = each.outcome ? nlohmann::ordered_json(microseconds(each.outcome->time_ns)) : nullptr;
      if (each.outcome) {
        const simulation::Outcome& outcome = *each.outcome;
        object["busbw_GBps"] = algorithm_bandwidth(each.bytes, std::max(microseconds(outcome.time_ns), 1e-3)) *
                               bus_factor(options.collective, each.ranks);
        object["tiles"] = outcome.tiles;
        object["tiles_simulated"] = outcome.tiles_simulated;
        object["ranks_simulated"] = outcome.finished_ns.size();
        object["messages"] = outcome.messages;
        object["busiest_card_us"] = microseconds(outcome.busiest_card_ns);
        object["busiest_rank_us"] = microseconds(outcome.busiest_rank_ns);
      } else {
        object["note"] = each.note;
      }
      text += (first ? "  " : ",\n  ") + object.dump();
      first = false;
    }
  }
  return text + "\n]\n";
}

void explain_markers(Chart& chart) {
  chart.circles = "price, not simulated";
  chart.squares = "rest added at its pace";
}

Marker marker_of(bool priced, bool extrapolated) {
  return priced ? Marker::circle : extrapolated ? Marker::square : Marker::dot;
}

Chart forecast_chart(const std::vector<std::vector<Forecast>>& rows, Rows what, const std::string& title) {
  Chart chart;
  chart.title = title;
  chart.x_label = what == Rows::sizes ? "bytes" : "ranks";
  chart.y_label = "time, microseconds";
  chart.x_is_bytes = what == Rows::sizes;
  explain_markers(chart);
  for (const auto& row : rows) {
    chart.curves.resize(std::max(chart.curves.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      chart.curves[i].name = name(row[i].algorithm);
      const auto time = row[i].time();
      if (!time || *time >= longest_time) continue;
      chart.curves[i].points.emplace_back(
          static_cast<double>(what == Rows::sizes ? row[i].bytes : static_cast<std::uint64_t>(row[i].ranks)),
          microseconds(*time));
      chart.curves[i].markers.push_back(marker_of(row[i].priced(), row[i].extrapolated()));
    }
  }
  return chart;
}

Result<Shades> link_loads(Collective collective, Algorithm algorithm, const std::vector<int>& node_of,
                          std::uint64_t bytes, std::uint32_t element_bytes) {
  Shades shades;
  const auto nodes = static_cast<std::size_t>(*std::max_element(node_of.begin(), node_of.end()) + 1);
  shades.values.assign(nodes, std::vector<double>(nodes));
  PlanRequest request;
  request.algorithm = algorithm;
  request.collective = collective;
  request.node_of = node_of;
  double most = 0;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    request.rank = static_cast<Rank>(rank);
    const auto plan = make_plan(request);
    if (!plan) return plan.error();
    const auto sent = bytes_sent_to(*plan, bytes / element_bytes / blocks_of_call(*plan), element_bytes);
    auto& row = shades.values[static_cast<std::size_t>(node_of[rank])];
    for (std::size_t peer = 0; peer < sent.size(); ++peer) {
      if (node_of[peer] != node_of[rank])
        row[static_cast<std::size_t>(node_of[peer])] += static_cast<double>(sent[peer]);
    }
    for (const double value : row) most = std::max(most, value);
  }
  double busiest = 0;  // what one node sends or receives
  for (std::size_t node = 0; node < nodes; ++node) {
    double out = 0, in = 0;
    for (std::size_t other = 0; other < nodes; ++other) {
      out += shades.values[node][other];
      in += shades.values[other][node];
    }
    busiest = std::max({busiest, out, in});
  }
  shades.title = fmt::format("{}: busiest node {}", name(algorithm), rounded_size(busiest));
  return shades;
}

}  // namespace fabring::tools
