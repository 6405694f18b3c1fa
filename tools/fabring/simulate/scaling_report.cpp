#include "tools/fabring/simulate/scaling_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tools/fabring/simulate/simulate_report.hpp"

namespace fabring::tools {
namespace {

/// Of a step: why it was priced, or why there is none; empty where all of it was simulated.
std::string note_on(const Result<TrainingStep>& step) { return step ? step->priced : step.error().message(); }

std::string cell_of(const TrainingStep& step) {
  return fmt::format("{}{}{} {:5.1f}%", step.extrapolated ? extrapolated_mark : "",
                     step.priced.empty() ? "" : priced_mark, time_text(step.step_ns), 100 * step.efficiency());
}

}  // namespace

std::string scaling_table(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted,
                          const Training& training) {
  std::string text = fmt::format("{}: {} parameters in {} buckets, {:g} ms of computing a step, {} on {}\n{:>10}",
                                 training.model, training.parameters, training.buckets.size(), training.compute_ms,
                                 wanted.nodes_text(), wanted.forecast.machine.name, "ranks");
  for (const Algorithm each : wanted.algorithms) text += fmt::format(" {:>19}", name(each));
  text += "   (step time, percent of linear)\n";
  Legend legend;
  std::vector<int> worlds;
  for (const ScalingRow& row : rows) {
    worlds.push_back(row.world.ranks());
    text += fmt::format("{:>10}", row.world.ranks());
    for (std::size_t i = 0; i < row.steps.size(); ++i) {
      const Result<TrainingStep>& step = row.steps[i];
      text += fmt::format(" {:>19}", step ? cell_of(*step) : "-");
      if (const std::string why = note_on(step); !why.empty()) legend.explain(wanted.algorithms[i], why);
      if (step) legend.mark(!step->priced.empty(), step->extrapolated);
    }
    text += "\n";
  }
  if (wanted.forecast.stragglers.probability > 0)
    text += "(who is late begins the step late, and the others wait for it once)\n";
  text += stragglers_line(wanted.forecast.stragglers, worlds);
  return text + legend.text();
}

std::string scaling_json(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted, const Training& training) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ScalingRow& row : rows) {
    for (std::size_t i = 0; i < row.steps.size(); ++i) {
      const Result<TrainingStep>& step = row.steps[i];
      nlohmann::ordered_json object{{"model", training.model},
                                    {"algorithm", name(wanted.algorithms[i])},
                                    {"machine", wanted.forecast.machine.name},
                                    {"ranks", row.world.ranks()},
                                    {"compute_us", microseconds(training.compute_ns())},
                                    {"late_us", microseconds(row.late_ns)}};
      if (wanted.forecast.stragglers.probability > 0)
        object["late_ranks"] = simulation::late_ranks(wanted.forecast.stragglers, row.world.ranks());
      if (!row.world.equal_nodes()) object["ranks_of_nodes"] = row.world.ranks_of_nodes();
      if (step) {
        object["communication_us"] = microseconds(step->communication_ns);
        object["step_us"] = microseconds(step->step_ns);
        object["efficiency"] = step->efficiency();
        object["priced"] = !step->priced.empty();
        object["extrapolated"] = step->extrapolated;
      } else {
        object["step_us"] = object["efficiency"] = nullptr;
      }
      if (std::string why = note_on(step); !why.empty()) object["note"] = std::move(why);
      json.push_back(std::move(object));
    }
  }
  return json.dump(2) + "\n";
}

Chart scaling_chart(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted, const Training& training) {
  Chart chart;
  chart.title =
      fmt::format("{}: scaling efficiency, {:g} ms of computing a step, {}{}", training.model, training.compute_ms,
                  wanted.forecast.machine.name, stragglers_title(wanted.forecast.stragglers));
  chart.x_label = "ranks";
  chart.y_label = "percent of linear speed-up";
  chart.y_is_logarithmic = false;
  explain_markers(chart);
  for (const Algorithm each : wanted.algorithms) chart.curves.push_back({std::string(name(each)), {}});
  for (const ScalingRow& row : rows) {
    for (std::size_t i = 0; i < row.steps.size(); ++i) {
      const Result<TrainingStep>& step = row.steps[i];
      if (!step) continue;
      chart.curves[i].points.emplace_back(row.world.ranks(), 100 * step->efficiency());
      chart.curves[i].markers.push_back(marker_of(!step->priced.empty(), step->extrapolated));
    }
  }
  return chart;
}

}  // namespace fabring::tools
