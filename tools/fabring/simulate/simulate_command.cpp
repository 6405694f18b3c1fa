// `fabring simulate`: what collectives would take on machines and at scales that nobody has at hand. The real plans run
// on a described machine; nothing is sent.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "collectives/choice/table.hpp"
#include "collectives/describe.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/whole_file.hpp"
#include "runtime/startup/machine_file.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/models.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/progress_line.hpp"
#include "tools/fabring/simulate/comparison.hpp"
#include "tools/fabring/simulate/comparison_report.hpp"
#include "tools/fabring/simulate/measured_times.hpp"
#include "tools/fabring/simulate/prices.hpp"
#include "tools/fabring/simulate/scaling.hpp"
#include "tools/fabring/simulate/scaling_report.hpp"
#include "tools/fabring/simulate/simulate_options.hpp"
#include "tools/fabring/simulate/simulate_report.hpp"
#include "tools/fabring/time_limit.hpp"

namespace fabring::tools {
namespace {

constexpr int most_drawn_nodes = 64;
constexpr int most_drawn_ranks = 4096;  // every rank's plan is made

struct Files {
  Output out, plot, links;
};

Status save(Output& file, const std::string& text) {
  file.write(text);
  return file.finish();
}

/// Says which forecast is under way, as one of a large world takes seconds, and nothing more once it is destroyed.
class Telling {
 public:
  /// `most`: how many there will be at most; 0: nobody knows.
  explicit Telling(std::size_t most = 0) : most_(most) {}
  /// What a Forecaster calls.
  std::function<void(const Forecast&)> begins() {
    return [this](const Forecast& next) { tell(next); };
  }

 private:
  void tell(const Forecast& next) {
    const std::string place = most_ == 0 ? "" : fmt::format(" of {}", most_);
    line_.show(fmt::format("{}{}: {}, {} ranks, {}", ++begun_, place, name(next.algorithm), next.ranks,
                           size_text(next.bytes)));
  }
  ProgressLine line_{"simulate"};
  const std::size_t most_;
  std::size_t begun_ = 0;
};

std::string world_text(const SimulatedWorlds& wanted) {
  return fmt::format("{} on {}", wanted.world.text(), wanted.forecast.machine.name);
}

/// "allreduce of 1 MiB"; a barrier has no size.
std::string call_text(Collective collective, std::uint64_t bytes) {
  return collective == Collective::barrier ? std::string(name(collective))
                                           : fmt::format("{} of {}", name(collective), size_text(bytes));
}

/// Of every size in every world.
std::string explanations(const SimulatedWorlds& wanted) {
  const std::vector<NodeLayout> worlds = wanted.scale.empty() ? std::vector<NodeLayout>{wanted.world} : wanted.scale;
  std::string text;
  for (const std::uint64_t bytes : wanted.sizes)
    for (const NodeLayout& world : worlds)
      text += (text.empty() ? "" : "\n") + prices_text(wanted.forecast.collective,
                                                       call_bytes(wanted.forecast, world.ranks(), bytes),
                                                       shape_of(world.node_of()), wanted.forecast.machine);
  if (wanted.forecast.stragglers.probability > 0) text += "(prices know nothing of ranks that are late)\n";
  return text;
}

// In a world; where there are several the tables say it of each.
void tell_changed_sizes(const SimulatedWorlds& wanted) {
  const int ranks = wanted.world.ranks();
  for (const std::uint64_t bytes : wanted.sizes)
    if (wanted.scale.empty() && call_bytes(wanted.forecast, ranks, bytes) != bytes)
      complain("simulate", changed_call(wanted.forecast, ranks, bytes));
}

Status tables(const SimulateOptions& options, const SimulatedWorlds& wanted, Files& files) {
  std::vector<std::vector<Forecast>> shown;
  const Rows what = wanted.scale.empty() ? Rows::sizes : Rows::ranks;
  std::optional<Telling> telling(
      std::in_place, wanted.algorithms.size() * wanted.sizes.size() * std::max<std::size_t>(wanted.scale.size(), 1));
  Forecaster forecaster(wanted.forecast, telling->begins());
  tell_changed_sizes(wanted);
  std::string text;
  const std::string collective(name(wanted.forecast.collective));
  std::string title;
  if (what == Rows::sizes) {
    std::set<std::uint64_t> seen;  // small sizes may be the same call
    for (const std::uint64_t bytes : wanted.sizes)
      if (seen.insert(call_bytes(wanted.forecast, wanted.world.ranks(), bytes)).second)
        shown.push_back(forecaster.all(wanted.algorithms, wanted.world, bytes));
    title = collective + ", " + world_text(wanted) + stragglers_title(wanted.forecast.stragglers);
    text = title + "\n" + forecast_table(shown, what) +
           stragglers_line(wanted.forecast.stragglers, {wanted.world.ranks()});
  } else {
    for (const std::uint64_t bytes : wanted.sizes) {
      std::vector<std::vector<Forecast>> rows;
      std::vector<int> worlds;
      for (const NodeLayout& world : wanted.scale) {
        rows.push_back(forecaster.all(wanted.algorithms, world, bytes));
        worlds.push_back(world.ranks());
      }
      const std::string heading =
          fmt::format("{}, {} on {}{}", call_text(wanted.forecast.collective, bytes), wanted.nodes_text(),
                      wanted.forecast.machine.name, stragglers_title(wanted.forecast.stragglers));
      title = heading;
      text += heading + "\n" + forecast_table(rows, what) + stragglers_line(wanted.forecast.stragglers, worlds);
      for (const auto& row : rows)
        if (row.front().bytes != bytes)
          text += fmt::format("({} ranks: {})\n", row.front().ranks,
                              changed_call(wanted.forecast, row.front().ranks, bytes));
      text += bytes == wanted.sizes.back() ? "" : "\n";
      shown.insert(shown.end(), rows.begin(), rows.end());
    }
  }
  telling.reset();
  const std::string prices = options.explain ? explanations(wanted) : "";
  files.out.write(options.json ? forecast_json(shown, wanted.forecast) : text + (prices.empty() ? "" : "\n" + prices));
  if (options.json) std::cerr << prices;  // stdout is JSON and nothing else
  // What was asked for by name and has none is an error, but the others' picture is drawn.
  const Status missing = options.algorithm.empty() ? Status() : without_forecast(shown);
  if (options.plot.empty()) return missing;
  // One picture shows one size: the last, as that of --links does.
  if (what == Rows::ranks) shown.erase(shown.begin(), shown.end() - static_cast<std::ptrdiff_t>(wanted.scale.size()));
  FABRING_TRY(save(files.plot, draw(forecast_chart(shown, what, title))));
  return missing;
}

Status links(const SimulateOptions& options, const SimulatedWorlds& wanted, Output& file) {
  std::vector<Shades> squares;
  const std::uint64_t bytes = call_bytes(wanted.forecast, wanted.world.ranks(), wanted.sizes.back());
  const auto add = [&](Algorithm algorithm) -> Status {
    auto loads =
        link_loads(wanted.forecast.collective, algorithm, wanted.world.node_of(), bytes, wanted.forecast.element_bytes);
    if (!loads) return loads.error();
    squares.push_back(std::move(*loads));
    return {};
  };
  std::vector<Algorithm> drawn = wanted.algorithms;
  if (options.algorithm.empty()) {  // the parameter server beside what replaces it
    drawn.clear();
    for (const Algorithm each : {Algorithm::star, Algorithm::ring, Algorithm::hierarchical, Algorithm::circulant})
      if (has_algorithm(wanted.forecast.collective, each)) drawn.push_back(each);
    std::vector<std::string_view> names;
    for (const Algorithm each : drawn) names.push_back(name(each));
    complain("simulate", fmt::format("--links: drawn are {}; --algorithm names others", fmt::join(names, ", ")));
  }
  for (const Algorithm each : drawn) FABRING_TRY(add(each));
  return save(file, draw(fmt::format("{} of {}: bytes from node to node, {}", name(wanted.forecast.collective),
                                     size_text(bytes), world_text(wanted)),
                         "the most between any two nodes", squares));
}

Result<Training> training_of(const SimulateOptions& options, std::uint32_t element_bytes) {
  const auto gradients = model_gradients(options.model);
  if (!gradients) return gradients.error().with_prefix("--model: ");
  const auto bucket = parse_size(options.bucket);
  if (!bucket) return bucket.error().with_prefix("--bucket: ");
  return Training{options.model, total_elements(*gradients), fused_buckets(*gradients, element_bytes, *bucket),
                  options.compute_ms};
}

Status model_scaling(const SimulateOptions& options, const SimulatedWorlds& wanted, Files& files) {
  const auto training = training_of(options, wanted.forecast.element_bytes);
  if (!training) return training.error();
  const auto rows = scaling(wanted, *training, Telling().begins());
  files.out.write(options.json ? scaling_json(rows, wanted, *training) : scaling_table(rows, wanted, *training));
  return options.plot.empty() ? Status() : save(files.plot, draw(scaling_chart(rows, wanted, *training)));
}

/// Predicted beside what `fabring perf --format json` measured.
Status comparison(const SimulateOptions& options, const SimulatedWorlds& wanted, Output& out) {
  constexpr std::size_t most_bytes = 256u << 20;
  const std::string option = "--measured " + options.measured + ": ";
  const auto file = read_whole_file(options.measured, most_bytes);
  if (!file) return file.error().with_prefix(option);
  const auto times = measured_times(*file);
  if (!times) return Status(ErrorCode::unavailable, option + times.error().message());  // the file is wrong
  const auto rows = compare(*times, wanted, Telling().begins());
  if (!rows) return rows.error().with_prefix(option);
  std::set<std::string> unknown;
  for (const MeasuredTime& each : *times)
    if (each.collective == wanted.forecast.collective && !each.algorithm) unknown.insert(each.algorithm_name);
  if (!unknown.empty())
    warn("simulate", fmt::format("{}left out what was measured by {}: no algorithm that is known here", option,
                                 fmt::join(unknown, ", ")));
  out.write(options.json ? comparison_json(*rows, wanted) : comparison_table(*rows, wanted));
  return {};
}

// Before anything is simulated: the arguments, then the files.
Status open_files(const SimulateOptions& options, const SimulatedWorlds& wanted, Files& files) {
  if (!options.plot.empty() && (options.show_machine || !options.measured.empty()))
    return wrong_argument(fmt::format("--plot draws what is predicted: leave out {}",
                                      options.show_machine ? "--show-machine" : "--measured"));
  for (const auto& [option, path] : {std::pair{"--plot", options.plot}, {"--links", options.links}})
    if (path == "-") return wrong_argument(fmt::format("{} -: stdout is for the table; name a file", option));
  if (!options.plot.empty() && options.plot == options.output)
    return wrong_argument("--output and --plot name the same file");
  if (!options.links.empty() && (options.links == options.output || options.links == options.plot))
    return wrong_argument(
        fmt::format("{} and --links name the same file", options.links == options.plot ? "--plot" : "--output"));
  if (wanted.forecast.collective == Collective::barrier && !options.links.empty())
    return wrong_argument("--links: a barrier sends no bytes");
  if (wanted.forecast.collective == Collective::barrier && !options.plot.empty() && wanted.scale.empty())
    return wrong_argument("--plot: a barrier has no sizes to draw; give --scale");
  if (!options.links.empty() && (wanted.world.nodes() > most_drawn_nodes || wanted.world.nodes() < 2))
    return wrong_argument(fmt::format("--links draws 2 to {} nodes", most_drawn_nodes));
  if (const int ranks = wanted.world.ranks(); !options.links.empty() && ranks > most_drawn_ranks)
    return wrong_argument(fmt::format("--links draws up to {} ranks, not {}: give fewer --nodes or --ranks-per-node",
                                      most_drawn_ranks, ranks));
  FABRING_TRY(files.out.open(options.output));
  FABRING_TRY(files.plot.open(options.plot, "--plot"));
  return files.links.open(options.links, "--links");
}

int run(const SimulateOptions& options, const Session& session) {
  auto wanted =
      session.command.empty() ? understand(options) : Result<SimulatedWorlds>(wrong_argument("nothing may follow --"));
  Status status = wanted ? Status() : wanted.error();
  Files files;
  if (status.ok()) status = open_files(options, *wanted, files);
  if (status.ok()) {
    if (options.show_machine) {
      files.out.write(machine_to_json(wanted->forecast.machine));
    } else if (!options.measured.empty()) {
      status = comparison(options, *wanted, files.out);
    } else if (!options.model.empty()) {
      status = model_scaling(options, *wanted, files);
    } else {
      status = tables(options, *wanted, files);
    }
  }
  if (status.ok() && !options.links.empty()) status = links(options, *wanted, files.links);
  if (status.ok()) status = files.out.finish();
  if (status.ok()) return exit_fine;
  const bool usage = status.code() == ErrorCode::invalid_argument;
  complain("simulate", status.message() + (usage ? "\nTry `fabring simulate --help`." : ""));
  return usage ? exit_usage : exit_could_not_run;
}

}  // namespace

void add_simulate(CLI::App& app, Session& session) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "Predict times on a described machine at any scale");
  const auto option = [&](const char* name, auto& value, const std::string& help, const char* type) {
    return command->add_option(name, value, help)->type_name(type);
  };
  option("collective", options->collective, "allreduce (also without the word, of --model), broadcast, ...",
         "COLLECTIVE");
  option("--nodes", options->nodes,
         fmt::format("How many nodes (1), or the ranks of each (8,8,1): {} ranks at most", most_simulated_ranks),
         "N|LIST");
  option("--ranks-per-node", options->ranks_per_node, "Ranks of each, where --nodes says how many (8)", "R")
      ->check(between(1, 4096));
  option("--machine", options->machine, fmt::format("{}, or a JSON file (100g)", fmt::join(machine_names(), ", ")),
         "NAME|F");
  option("--sizes", options->sizes, "Bytes of the whole vector (1K,16K,256K,4M,64M)", "LIST");
  option("--algorithm", options->algorithm, "Which to compare (all)", "LIST");
  option("--scale", options->scale, "Worlds of so many ranks instead of --nodes", "LIST");
  CLI::Option* stragglers =
      option("--stragglers", options->stragglers,
             "Each rank is late with probability P by US microseconds; simulates every rank (with --model a late rank "
             "delays the whole step once)",
             "P:US");
  option("--seed", options->seed, "Which ranks are late (1)", "S")
      ->check(between(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->needs(stragglers);
  CLI::Option* model =
      option("--model", options->model, "Scaling efficiency of training resnet50, vgg16, bert-base or gpt2", "NAME");
  option("--compute-ms", options->compute_ms, "With --model: computing time of a step on one rank", "MS")
      ->check(between(0.001, 1e6))
      ->needs(model);
  option("--bucket", options->bucket, "With --model: gradients are fused to this size (25M)", "SIZE")->needs(model);
  option("--measured", options->measured,
         "Compare with what fabring perf --format json wrote, on as many nodes as that had", "F");
  option("--plot", options->plot, "Write the table as an SVG chart (with --scale that of the last size)", "F.svg");
  option("--links", options->links,
         "Write the bytes of the last size from node to node as an SVG picture (of star, ring, hierarchical and "
         "circulant, or of --algorithm)",
         "F.svg");
  add_common_options(*command, *options,
                     {.json = "JSON instead of a table", .explain = "Also the prices, and why the fastest wins"});
  command->add_flag("--show-machine", options->show_machine, "Print the machine as JSON, to start a description from");
  command->footer(
      "Nothing is sent. Symmetric worlds are simulated by one node that stands for all.\n"
      "Example: fabring simulate allreduce --scale 8,64,512,4096,16384 --machine efa-400 --sizes 64M --plot scale.svg");
  command->callback([options, &session] {
    session.exit_code = run_within(options->timeout_s, "simulate", [&] { return run(*options, session); });
  });
}

}  // namespace fabring::tools
