#include "tools/fabring/simulate/simulate_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "collectives/describe.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/operand_words.hpp"

namespace fabring::tools {
namespace {

Result<std::vector<Algorithm>> read_algorithms(const std::string& text, Collective collective) {
  std::vector<Algorithm> algorithms;
  std::vector<std::string_view> known;
  for (const Algorithm each : all_algorithms()) {
    if (!has_algorithm(collective, each)) continue;
    known.push_back(name(each));
    if (text.empty()) algorithms.push_back(each);
  }
  if (text.empty()) return algorithms;
  auto items = parse_list(text);
  if (!items) return items.error().with_prefix("--algorithm: ");
  for (const std::string& item : *items) {
    const auto algorithm = parse_algorithm(item, collective);
    if (!algorithm)
      return wrong_argument(
          fmt::format("--algorithm '{}' is not one of {}{}", item, fmt::join(known, ", "), did_you_mean(item, known)));
    algorithms.push_back(*algorithm);
  }
  return algorithms;
}

Status read_stragglers(const std::string& text, std::uint64_t seed, simulation::Stragglers& into) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  const std::string shape = "--stragglers '" + text +
                            "': write PROBABILITY:MICROSECONDS, as in 0.01:500; a probability "
                            "is 0 to 1, and microseconds are whole and 10000000 at most";
  if (colon == std::string::npos) return wrong_argument(shape);
  char* end = nullptr;
  const std::string probability = text.substr(0, colon);
  into.probability = std::strtod(probability.c_str(), &end);
  auto late = parse_integer(text.substr(colon + 1), 0, 10'000'000);
  if (probability.empty() || *end != '\0' || !(into.probability >= 0 && into.probability <= 1) || !late)
    return wrong_argument(shape);
  into.late_ns = *late * 1000;
  into.seed = seed;
  return {};
}

/// The nodes of the world, and with --scale of the worlds.
Status read_nodes(const SimulateOptions& options, SimulatedWorlds& wanted) {
  wanted.nodes_are_given = !options.nodes.empty();
  wanted.ranks_of_nodes_are_given = lists_nodes(options.nodes);
  if (wanted.ranks_of_nodes_are_given) {
    if (options.ranks_per_node > 0)
      return wrong_argument(
          fmt::format("--nodes {} says how many ranks are on each node: leave out --ranks-per-node, "
                      "or give --nodes how many nodes there are",
                      options.nodes));
    if (!options.scale.empty())
      return wrong_argument(
          fmt::format("--nodes {} is one world, and --scale names several of equal nodes: leave one "
                      "out",
                      options.nodes));
    auto listed = listed_nodes(options.nodes, most_simulated_ranks, "the most that are simulated: give fewer");
    if (!listed) return listed.error();
    wanted.world = std::move(*listed);
    return {};
  }
  constexpr int usual_ranks_per_node = 8;
  const int ranks_per_node = options.ranks_per_node > 0 ? options.ranks_per_node : usual_ranks_per_node;
  const auto nodes = parse_integer(options.nodes.empty() ? "1" : options.nodes, 1, most_simulated_ranks);
  if (!nodes) return nodes.error().with_prefix("--nodes: ");
  if (*nodes * ranks_per_node > most_simulated_ranks)
    return wrong_argument(
        fmt::format("{} nodes of {} ranks are more than {} ranks", *nodes, ranks_per_node, most_simulated_ranks));
  wanted.world = NodeLayout(static_cast<int>(*nodes), ranks_per_node);
  if (options.scale.empty()) return {};
  if (wanted.nodes_are_given && options.links.empty())
    return wrong_argument(
        "--nodes would do nothing: --scale says how many ranks, and --ranks-per-node how many are on a node; leave it "
        "out");
  const auto scale = parse_list(options.scale);
  if (!scale) return scale.error().with_prefix("--scale: ");
  for (const std::string& each : *scale) {
    const auto ranks = parse_integer(each, 1, most_simulated_ranks);
    if (!ranks) return ranks.error().with_prefix("--scale: ");
    if (*ranks % ranks_per_node != 0)
      return wrong_argument(fmt::format("--scale: {} ranks do not fill nodes of {}", *ranks, ranks_per_node));
    wanted.scale.emplace_back(static_cast<int>(*ranks) / ranks_per_node, ranks_per_node);
  }
  return {};
}

}  // namespace

std::string SimulatedWorlds::nodes_text() const {
  if (!world.equal_nodes()) return world.text();
  return "nodes of " + counted(static_cast<std::size_t>(world.ranks_of_nodes().front()), "rank");
}

Result<SimulatedWorlds> understand(const SimulateOptions& options) {
  SimulatedWorlds wanted;
  if (options.collective.empty() && options.model.empty() && !options.show_machine)  // a model's is allreduce
    return wrong_argument(which_collective());
  const auto collective = read_collective(options.collective.empty() ? "allreduce" : options.collective);
  if (!collective) return collective.error();
  wanted.forecast.collective = *collective;
  auto machine = read_priced_machine(options.machine);
  if (!machine) return machine.error();
  wanted.forecast.machine = *machine;
  auto algorithms = read_algorithms(options.algorithm, *collective);
  if (!algorithms) return algorithms.error();
  wanted.algorithms = *algorithms;
  auto sizes = parse_list(options.sizes);
  if (!sizes) return sizes.error().with_prefix("--sizes: ");
  for (const std::string& each : *sizes) {
    auto bytes = parse_size(each);
    if (!bytes) return bytes.error().with_prefix("--sizes: ");
    if (*bytes > (std::uint64_t{1} << 40)) return wrong_argument("--sizes: at most 1T");
    wanted.sizes.push_back(*bytes);
  }
  if (*collective == Collective::barrier) wanted.sizes = {0};
  FABRING_TRY(read_nodes(options, wanted));
  if (Status status = read_stragglers(options.stragglers, options.seed, wanted.forecast.stragglers); !status)
    return status;
  if (!options.model.empty() && *collective != Collective::allreduce)
    return wrong_argument(fmt::format("--model is about the allreduce of gradients, not {}", options.collective));
  if (!options.model.empty() && !options.measured.empty())
    return wrong_argument("--model and --measured are two questions: take one");
  const SimulateOptions left_out;
  if (!options.measured.empty() &&
      (!options.algorithm.empty() || options.sizes != left_out.sizes || !options.scale.empty() || options.explain))
    return wrong_argument("--measured takes what was measured: leave out --algorithm, --sizes, --scale and --explain");
  if (!options.measured.empty() && options.ranks_per_node > 0 && options.links.empty())
    return wrong_argument("--ranks-per-node would do nothing: --measured has the ranks of each call; leave it out");
  if (!options.model.empty() && (options.sizes != left_out.sizes || options.explain))
    return wrong_argument("--model takes the sizes of its gradients: leave out --sizes and --explain");
  if (!options.model.empty() && options.compute_ms <= 0)
    return wrong_argument("--model needs --compute-ms: how long one rank computes for a step");
  return wanted;
}

}  // namespace fabring::tools
