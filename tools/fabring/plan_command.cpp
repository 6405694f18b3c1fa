// `fabring plan`: prints the plans of an algorithm, what they send where, and their proof. Nothing is run.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <numeric>
#include <optional>

#include "collectives/algorithms.hpp"
#include "collectives/check.hpp"
#include "collectives/describe.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/node_layout.hpp"

namespace fabring::tools {
namespace {

struct Options {
  std::string collective, nodes, algorithm = "auto", type = "float32", op = "sum", count = "1M", output;
  int ranks = 0, rank = -1;
  bool check_only = false;
};

Status wrong(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

struct World {
  std::vector<int> node_of;
  Algorithm algorithm = Algorithm::ring;
  std::string reason;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int ranks() const { return static_cast<int>(node_of.size()); }
  int nodes() const { return node_of.back() + 1; }
};

Result<World> understand(const Options& options) {
  World world;
  const std::string_view collectives[] = {"allreduce"};
  if (options.collective != "allreduce")
    return wrong(fmt::format("'{}' has no plans in this version{}; these have: allreduce", options.collective,
                             did_you_mean(options.collective, collectives)));
  auto node_of = node_layout(options.nodes, options.ranks);
  if (!node_of) return node_of.error();
  world.node_of = std::move(*node_of);
  if (options.rank >= world.ranks())
    return wrong(fmt::format("--rank {}: there are {} ranks, 0 to {}", options.rank, world.ranks(), world.ranks() - 1));
  const auto type = parse_data_type(options.type);
  const auto op = parse_reduce_op(options.op);
  if (!type) return wrong(fmt::format("-d '{}' is not a data type", options.type));
  if (!op) return wrong(fmt::format("-o '{}' is not a reduction", options.op));
  if (!supports(*type, *op)) return wrong(fmt::format("-o {}: {} has no such operation", name(*op), name(*type)));
  world.type = *type;
  world.op = *op;
  auto count = parse_size(options.count);
  if (!count) return count.error().with_prefix("--count: ");
  world.count = static_cast<std::size_t>(*count);
  if (options.algorithm == "auto") {
    const AlgorithmChoice choice = choose_allreduce({world.count * size_of(*type), world.ranks(), world.nodes()});
    world.algorithm = choice.algorithm;
    world.reason = choice.reason;
  } else if (const auto algorithm = parse_algorithm(options.algorithm)) {
    world.algorithm = *algorithm;
    world.reason = "asked for";
  } else {
    std::vector<std::string_view> known{"auto"};
    for (Algorithm each : all_algorithms()) known.push_back(name(each));
    return wrong(fmt::format("--algorithm '{}' is not one of {}{}", options.algorithm, fmt::join(known, ", "),
                             did_you_mean(options.algorithm, known)));
  }
  return world;
}

int show(const Options& options, const World& world) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < world.ranks(); ++rank) {
    auto plan = make_plan({world.algorithm, rank, world.node_of, world.op});
    if (!plan) {
      complain("plan", plan.error().to_string());
      return exit_could_not_run;
    }
    plans.push_back(std::move(*plan));
  }
  Output out;
  if (Status status = out.open(options.output); !status) {
    complain("plan", status.message());
    return exit_could_not_run;
  }
  out.write(fmt::format("allreduce by {} ({}), {} ranks on {} node{}, {} x {}, {}\n", name(world.algorithm),
                        world.reason, world.ranks(), world.nodes(), world.nodes() == 1 ? "" : "s", world.count,
                        name(world.type), name(world.op)));
  if (!options.check_only) {
    constexpr int most_printed = 8;  // ranks; more of them say nothing new
    for (Rank rank = 0; rank < world.ranks(); ++rank) {
      if (options.rank >= 0 ? rank != options.rank : world.ranks() > most_printed) continue;
      out.write(fmt::format("\nrank {} on node {}:\n{}", rank, world.node_of[static_cast<std::size_t>(rank)],
                            describe_steps(plans[static_cast<std::size_t>(rank)])));
    }
    if (options.rank < 0 && world.ranks() > most_printed)
      out.write(fmt::format("\n(steps of {} ranks not printed; choose one with --rank)\n", world.ranks()));
    out.write("\n" + describe_world(plans, world.node_of, world.count, size_of(world.type)));
  }
  auto proof = check_plans(plans, world.count, world.op);
  if (proof)
    out.write(
        fmt::format("\nproved: {} steps, {} messages, {} rounds; every output is the same ordered reduction of every "
                    "input exactly once, no deadlock, no races, in bounds\n",
                    proof->steps, proof->messages, proof->critical_path));
  else
    complain("plan", "not proved: " + proof.error().message());
  if (Status status = out.finish(); !status) {
    complain("plan", status.message());
    return exit_could_not_run;
  }
  return proof ? exit_fine : exit_wrong;
}

int run(const Options& options, const Session& session) {
  auto world = session.command.empty() ? understand(options) : Result<World>(wrong("nothing may follow --"));
  if (!world) {
    complain("plan", world.error().message() + "\nTry `fabring plan --help`.");
    return exit_usage;
  }
  return show(options, *world);
}

}  // namespace

Result<std::vector<int>> node_layout(const std::string& nodes, int ranks) {
  constexpr std::int64_t most_ranks = 4096;  // the proof is quadratic
  std::vector<int> node_of;
  if (nodes.empty() || nodes.find(',') == std::string::npos) {
    auto count = parse_integer(nodes.empty() ? "1" : nodes, 1, most_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    if (ranks < 1) return wrong("how many ranks? give -n N, or --nodes with the ranks of each node (--nodes 2,2)");
    if (*count > ranks) return wrong(fmt::format("--nodes {} is more than the {} ranks", *count, ranks));
    for (int rank = 0; rank < ranks; ++rank) node_of.push_back(static_cast<int>(rank * *count / ranks));
    return node_of;
  }
  auto items = parse_list(nodes);
  if (!items) return items.error().with_prefix("--nodes: ");
  for (std::size_t node = 0; node < items->size(); ++node) {
    auto count = parse_integer((*items)[node], 1, most_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    if (node_of.size() + static_cast<std::size_t>(*count) > most_ranks) return wrong("--nodes: more than 4096 ranks");
    node_of.insert(node_of.end(), static_cast<std::size_t>(*count), static_cast<int>(node));
  }
  if (ranks > 0 && ranks != static_cast<int>(node_of.size()))
    return wrong(fmt::format("--nodes {} has {} ranks, but -n says {}", nodes, node_of.size(), ranks));
  return node_of;
}

void add_plan(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "Print a plan, its bytes per link, and its proof");
  command->add_option("collective", options->collective, "allreduce")->required()->type_name("COLLECTIVE");
  command->add_option("-n", options->ranks, "How many ranks (also -np)")->check(CLI::Range(1, 4096))->type_name("N");
  command
      ->add_option("--nodes", options->nodes, "Ranks of each node (2,2,1), or into how many nodes to divide them (2)")
      ->type_name("LIST|K");
  command
      ->add_option("--algorithm", options->algorithm,
                   "auto (by size, ranks and nodes), ring, hierarchical, recursive_doubling, direct_one_shot, ...")
      ->type_name("NAME");
  command->add_option("--count", options->count, "Elements (1M)")->type_name("COUNT");
  command->add_option("-d,--datatype", options->type, "Element type (float32)")->type_name("TYPE");
  command->add_option("-o,--op", options->op, "sum (the default), prod, min, max, avg")->type_name("OP");
  command->add_option("--rank", options->rank, "Print the steps of this rank only")
      ->check(CLI::Range(0, 4095))
      ->type_name("R");
  command->add_flag("--check", options->check_only, "Print the proof only");
  command->add_option("--output", options->output, "Write to a file")->type_name("FILE");
  command->footer(
      "Exit code 1: the plans are wrong (the proof says where).\n"
      "Example: fabring plan allreduce --nodes 2,2 --algorithm hierarchical --rank 0");
  command->callback([options, &session] { session.exit_code = run(*options, session); });
}

}  // namespace fabring::tools
