// `fabring plan`: prints the plans of a collective by an algorithm, or those of a file, what they send where, and their
// proof; or writes them as JSON. Nothing is run.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

#include "collectives/algorithms.hpp"
#include "collectives/check.hpp"
#include "collectives/choice/table.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"
#include "collectives/plan_json.hpp"
#include "collectives/prove.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/whole_file.hpp"
#include "simulation/schedule.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/node_layout.hpp"
#include "tools/fabring/operand_words.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/plan/proof_json.hpp"
#include "tools/fabring/simulate/prices.hpp"
#include "tools/fabring/time_limit.hpp"

namespace fabring::tools {
namespace {

struct PlanOptions : CommonOptions {
  std::string collective, nodes, algorithm = "auto", type = "float32", op, count, load, machine = "loopback-tcp";
  int ranks = 0, rank = -1, root = 0;
  bool check_only = false, all = false;
};

struct World {
  std::vector<int> node_of;
  std::string title;
  std::string prices;  // why this algorithm, if that was asked for
  std::vector<Plan> plans;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  int ranks() const { return static_cast<int>(node_of.size()); }
  int nodes() const { return node_of.back() + 1; }
};

struct AlgorithmChoice {
  Algorithm algorithm = Algorithm::ring;
  std::string reason;
};

// Of the vector or of all blocks together, as algorithms are priced.
std::size_t priced_bytes(Collective collective, const World& world) {
  return world.count * size_of(world.type) * (block_count(collective, 2) == 0 ? 1 : world.node_of.size());
}

Result<AlgorithmChoice> choose(const PlanOptions& options, Collective collective, const World& world,
                               const Machine& machine) {
  if (options.algorithm == "auto") {
    const WorldShape shape = shape_of(world.node_of);
    const std::size_t bytes = priced_bytes(collective, world);
    const auto table = ChoiceTable::make(shape, machine);
    const Chosen chosen = table.choose(collective, bytes);
    return AlgorithmChoice{chosen.algorithm, reason_text(chosen, collective, bytes, shape)};
  }
  if (const auto algorithm = parse_algorithm(options.algorithm, collective)) {
    return AlgorithmChoice{*algorithm, "asked for"};
  }
  return no_such_algorithm(options.algorithm, collective);
}

Status read_operands(const PlanOptions& options, World& world) {
  const auto type = read_type(options.type);
  if (!type) return type.error();
  const auto op = read_operation(options.op.empty() ? "sum" : options.op);
  if (!op) return op.error();
  world.type = *type;
  world.op = *op;
  auto count = parse_size(options.count.empty() ? "1M" : options.count);
  if (!count)
    return wrong_argument(fmt::format(
        "--count: '{}' is not a number of elements, 9000000000000000 at most: write 1000, 64K or 1M (K is 1024)",
        options.count));
  world.count = static_cast<std::size_t>(*count);
  return {};
}

/// ", 1000 x float32"; of a barrier nothing.
std::string elements_text(Collective collective, const World& world) {
  return collective == Collective::barrier ? "" : fmt::format(", {} x {}", world.count, name(world.type));
}

/// Of plans that are there: what their bytes cannot be counted for, or their elements cannot be reduced by, is refused.
Status check_operands(const World& world) {
  if (reduces(world.plans[0].collective) && !supports(world.type, world.op))
    return wrong_argument(fmt::format("-o {}: {} has no such operation", name(world.op), name(world.type)));
  std::uint64_t moves = 1;  // each of all elements at most
  for (const Plan& plan : world.plans) moves += plan.steps.size() + plan.scratch.size();
  const std::uint64_t most =
      (std::uint64_t{1} << 62) / moves / std::max<std::size_t>(world.plans[0].blocks, 1) / size_of(world.type);
  if (world.count > most)
    return wrong_argument(fmt::format("--count {}: the bytes of {} {} elements are too many to be counted; at most {}",
                                      world.count, world.count, name(world.type), most));
  return {};
}

constexpr std::string_view no_elements = "a barrier has no elements: leave out --count";

/// Plans that are made here.
Result<World> make_world(const PlanOptions& options) {
  World world;
  if (options.collective.empty()) return wrong_argument(which_collective() + "; or --load a file with plans");
  const auto collective = read_collective(options.collective);
  if (!collective) return collective.error();
  auto node_of = node_layout(options.nodes, options.ranks);
  if (!node_of) return node_of.error();
  world.node_of = std::move(*node_of);
  for (const auto& [option, rank] : {std::pair{"--rank", options.rank}, std::pair{"--root", options.root}}) {
    if (rank < world.ranks()) continue;
    return wrong_argument(
        fmt::format("{} {}: there are {} ranks, 0 to {}", option, rank, world.ranks(), world.ranks() - 1));
  }
  if (options.root != 0 && !has_root(*collective)) return wrong_argument(options.collective + " has no --root");
  if (!options.count.empty() && *collective == Collective::barrier) return wrong_argument(std::string(no_elements));
  if (Status status = read_operands(options, world); !status) return status;
  if (*collective == Collective::barrier) world.count = 0;  // it has no elements
  const auto machine = read_priced_machine(options.machine);
  if (!machine) return machine.error();
  const auto choice = choose(options, *collective, world, *machine);
  if (!choice) return choice.error();
  if (options.explain)
    world.prices =
        fmt::format("priced for {}: {}", machine->name,
                    prices_text(*collective, priced_bytes(*collective, world), shape_of(world.node_of), *machine));
  std::uint64_t steps = 0;
  for (Rank rank = 0; rank < world.ranks(); ++rank) {
    auto plan = make_plan({choice->algorithm, rank, world.node_of, world.op, *collective, options.root});
    if (!plan) return plan.error();
    steps += plan->steps.size();
    if (steps > simulation::most_world_steps)
      return Status(ErrorCode::unsupported,
                    fmt::format("the plans of {} ranks by {} have more than {} steps, which is more than is held at "
                                "once; take fewer ranks or an algorithm with fewer messages",
                                world.ranks(), name(choice->algorithm), simulation::most_world_steps));
    world.plans.push_back(std::move(*plan));
  }
  FABRING_TRY(check_operands(world));
  std::string what = elements_text(*collective, world);
  if (world.plans[0].blocks != 0) what += " in each block";
  if (reduces(*collective)) what += fmt::format(", {}", name(world.op));
  if (has_root(*collective)) what += fmt::format(", root {}", options.root);
  const bool said_below = options.explain && options.algorithm == "auto";
  const auto nodes = static_cast<std::size_t>(world.nodes());
  world.title = fmt::format("{} by {}{}, {} on {}{}\n", name(*collective), name(choice->algorithm),
                            said_below ? "" : " (" + choice->reason + ")", counted(world.node_of.size(), "rank"),
                            counted(nodes, "node"), what);
  return world;
}

/// What was said about the plans of a file must be true of them: else other plans would be proved than were meant.
Status check_wishes(const PlanOptions& options, const World& world) {
  if (!options.collective.empty()) {
    const auto wanted = read_collective(options.collective);
    if (!wanted) return wanted.error();
    if (*wanted != world.plans[0].collective)
      return wrong_argument(fmt::format("--load {}: its plans are of {}, not {}", options.load,
                                        name(world.plans[0].collective), name(*wanted)));
  }
  if (options.ranks != 0 && options.ranks != world.ranks())
    return wrong_argument(fmt::format("--load {}: its plans are of {} ranks, but -n says {}", options.load,
                                      world.ranks(), options.ranks));
  return {};
}

/// Plans from a file. Errors: unavailable, if it holds none that could be proved.
Result<World> load_world(const PlanOptions& options) {
  World world;
  if (Status status = read_operands(options, world); !status) return status;
  const auto text = read_whole_file(options.load, most_plan_bytes);
  if (!text) return text.error().with_prefix(fmt::format("--load {}: ", options.load));
  if (text->empty()) return Status(ErrorCode::unavailable, fmt::format("--load {}: is empty", options.load));
  auto plans = plans_from_json(*text);
  if (!plans)
    return Status(ErrorCode::unavailable,
                  fmt::format("--load {}: {} (`fabring plan COLLECTIVE -n N --json` writes such a file)", options.load,
                              plans.error().message()));
  if (plans->empty())
    return Status(ErrorCode::unavailable, fmt::format("--load {}: there are no plans in it", options.load));
  world.plans = std::move(*plans);
  world.node_of.assign(world.plans.size(), 0);
  FABRING_TRY(check_wishes(options, world));
  if (options.rank >= world.ranks())
    return wrong_argument(fmt::format("--rank {}: there are {} ranks", options.rank, world.ranks()));
  const auto finishes = [](const Plan& plan) {
    return std::ranges::any_of(plan.steps, [](const Step& step) { return step.kind == StepKind::finish; });
  };
  if (std::ranges::any_of(world.plans, finishes)) {  // nothing else has it
    if (!options.op.empty() && world.op != ReduceOp::avg)
      return wrong_argument(fmt::format("-o {}: the plans in {} are of avg, which alone has `finish`; leave out -o",
                                        name(world.op), options.load));
    world.op = ReduceOp::avg;
  }
  FABRING_TRY(check_operands(world));
  const Collective collective = world.plans[0].collective;
  if (collective == Collective::barrier && !options.count.empty()) return wrong_argument(std::string(no_elements));
  if (collective == Collective::barrier) world.count = 0;
  world.title =
      fmt::format("{} from {}, {}{}{}\n", name(collective), options.load, counted(world.plans.size(), "plan"),
                  elements_text(collective, world), reduces(collective) ? fmt::format(", {}", name(world.op)) : "");
  return world;
}

std::string_view what_is_proved(Collective collective) {
  if (collective == Collective::barrier) return "when a rank is through, all have begun";
  if (!reduces(collective)) return "every output is the very element of the very rank";
  return "every output is the same ordered reduction of every input exactly once";
}

/// Nothing is known of the plans of a file: unless a count was asked for, they are proved at many.
Result<Proof> prove(const PlanOptions& options, const World& world) {
  if (!options.load.empty() && options.count.empty()) return prove_plans(world.plans, world.op);
  WorkLimit limit(WorkLimit::for_files);
  return prove_plans_at(world.plans, world.count, world.op, options.load.empty() ? nullptr : &limit);
}

std::string proved_counts(const Proof& proof, Collective collective) {
  if (collective == Collective::barrier) return "";
  if (proof.counts.size() > 1)
    return fmt::format("; at {} counts of elements from {} to {}{}", proof.counts.size(), proof.counts.front(),
                       proof.counts.back(),
                       proof.at_every_count ? ", and at all others by the order of bounds"
                                            : "; all others would take too long, so it cannot be run");
  return proof.counts.front() == 0 ? "; of 0 elements, so nothing was looked at: give another --count" : "";
}

int show(const PlanOptions& options, const World& world, Output& out) {
  const auto proof = prove(options, world);
  if (options.json) {
    out.write(options.check_only ? proof_to_json(world.plans, proof, world.count, world.type)
                                 : plans_to_json(world.plans));
    std::cerr << world.prices;  // stdout is JSON and nothing else
  } else {
    out.write(world.title + world.prices);
  }
  if (!options.check_only && !options.json) {
    constexpr int most_unasked = 8;  // ranks; on a screen more of them say nothing new
    const bool all = options.all || world.ranks() <= most_unasked || (!options.output.empty() && options.output != "-");
    for (Rank rank = 0; rank < world.ranks(); ++rank) {
      if (options.rank >= 0 ? rank != options.rank : !all) continue;
      out.write(fmt::format("\nrank {} on node {}:\n{}", rank, world.node_of[static_cast<std::size_t>(rank)],
                            describe_steps(world.plans[static_cast<std::size_t>(rank)])));
    }
    if (options.rank < 0 && !all)
      out.write(
          fmt::format("\n(steps of {} ranks not printed: --rank R has those of one, --all and --output FILE of all, "
                      "--json as JSON)\n",
                      world.ranks()));
    out.write("\n" + describe_world(world.plans, world.node_of, world.count, size_of(world.type)));
  }
  const bool too_much = !proof && proof.error().code() == ErrorCode::unsupported;  // which says nothing of the plans
  const bool at_many_counts = !options.load.empty() && options.count.empty();
  if (!proof)
    complain("plan", fmt::format("not proved: {}{}", proof.error().message(),
                                 too_much && at_many_counts ? "; --count N proves them at one count" : ""));
  else if (!options.json)
    out.write(fmt::format("\nproved: {}, {}, {}; {}, no deadlock, no races, in bounds{}\n",
                          counted(proof->report.steps, "step"), counted(proof->report.messages, "message"),
                          counted(proof->report.critical_path, "round"), what_is_proved(world.plans[0].collective),
                          proved_counts(*proof, world.plans[0].collective)));
  if (Status status = out.finish(); !status) return could_not_run("plan", status);
  if (proof) return exit_fine;
  return too_much ? exit_could_not_run : exit_wrong;
}

int run(const PlanOptions& options, const Session& session) {
  Output out;
  if (Status status = out.open(options.output); !status) return could_not_run("plan", status);
  const bool loads = !options.load.empty();
  const bool shaped = options.algorithm != "auto" || !options.nodes.empty() || options.root != 0 || options.explain ||
                      options.machine != PlanOptions().machine;
  const bool part_of_json = options.json && options.rank >= 0;
  Result<World> world = wrong_argument("nothing may follow --");
  if (loads && shaped)
    world = wrong_argument(
        "--load takes plans as they are: leave out --algorithm, --nodes, --root, --machine and --explain");
  else if (part_of_json)
    world = wrong_argument("--json writes the plans of all ranks, or with --check their proof: leave out --rank");
  else if (session.command.empty())
    world = loads ? load_world(options) : make_world(options);
  if (world) return show(options, *world, out);
  const ErrorCode code = world.error().code();
  const bool usage = code == ErrorCode::invalid_argument;
  complain("plan", world.error().message() + (usage ? "\nTry `fabring plan --help`." : ""));
  if (usage) return exit_usage;
  return code == ErrorCode::unavailable || code == ErrorCode::unsupported ? exit_could_not_run : exit_wrong;
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Print a plan, its bytes per link, and its proof");
  command
      ->add_option("collective", options->collective,
                   "allreduce, reduce, reduce_scatter, all_gather, broadcast, gather, scatter, alltoall or barrier")
      ->type_name("COLLECTIVE");
  command->add_option("-n", options->ranks, "How many ranks (also -np)")
      ->check(between(1, most_planned_ranks))
      ->type_name("N");
  command
      ->add_option("--nodes", options->nodes, "Ranks of each node (2,2,1), or into how many nodes to divide them (2)")
      ->type_name("LIST|K");
  command
      ->add_option("--algorithm", options->algorithm,
                   "auto (by size, ranks and nodes), ring, hierarchical, direct, circulant, binomial, ...")
      ->type_name("NAME");
  command
      ->add_option("--machine", options->machine,
                   fmt::format("What auto and --explain price it for (loopback-tcp): {}, or a JSON file",
                               fmt::join(machine_names(), ", ")))
      ->type_name("NAME|F");
  command
      ->add_option("--count", options->count,
                   "Elements, of each block where ranks have blocks (1M; of a file the proof is for many)")
      ->type_name("COUNT");
  command->add_option("--root", options->root, "Of reduce, broadcast, gather and scatter (0)")
      ->check(between(0, most_planned_ranks - 1))
      ->type_name("R");
  command->add_option("-d,--datatype", options->type, "Element type (float32)")->type_name("TYPE");
  command->add_option("-o,--op", options->op, "sum (the default), prod, min, max, avg")->type_name("OP");
  CLI::Option* rank = command->add_option("--rank", options->rank, "Print the steps of this rank only");
  rank->check(between(0, most_planned_ranks - 1))->type_name("R");
  CLI::Option* check = command->add_flag("--check", options->check_only, "Print the proof only");
  command->add_flag("--all", options->all, "Print the steps of all ranks, also of more than 8 (as in a file)")
      ->excludes(check)
      ->excludes(rank);
  command->add_option("--load", options->load, "Take the plans from a file that --json wrote")->type_name("FILE");
  add_common_options(*command, *options,
                     {.json = "Write the plans of all ranks as JSON, with --check the proof",
                      .explain = "Also the prices of all algorithms, and why one is chosen"});
  command->footer(
      "Exit codes: 1 the plans are wrong (the proof says where), 3 could not run (a file holds no plans), or too much "
      "to\n"
      "prove or to do in time.\n"
      "Example: fabring plan allreduce --nodes 2,2 --algorithm hierarchical --rank 0");
  command->callback([options, &session] {
    session.exit_code = run_within(options->timeout_s, "plan", [&] { return run(*options, session); });
  });
}

}  // namespace fabring::tools
