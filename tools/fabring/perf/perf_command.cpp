// `fabring perf`: what it was asked for, understood; with -n it starts its own ranks on this host. The kinds of
// measurement are files of their own: perf_sizes.cpp, perf_model.cpp, perf_guard.cpp.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <initializer_list>
#include <memory>

#include "collectives/choice/overrides.hpp"
#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/launch/own_ranks.hpp"
#include "tools/fabring/models.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/perf_job.hpp"
#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/plan/algorithm_names.hpp"
#include "tools/fabring/plan/file_plans.hpp"
#include "tools/fabring/start_together.hpp"

namespace fabring::tools {
namespace {

// As typed.
struct Words {
  std::string collective, sizes, first = "4", last = "256M", type = "float32", op = "sum", memory = "host";
  std::string target_ms, cap_s, bucket = "25M", wire_type, timeout;
  double factor = 2;
  int ranks = 0, nodes = 1;
  bool no_check = false, no_progress = false, guard = false, out_of_place = false;
  PerfOptions options;
  const CLI::App* command = nullptr;  // knows which were given
};

Result<Collective> read_collective(const std::string& text) {
  const auto collective = parse_collective(text);
  if (collective && *collective != Collective::send && *collective != Collective::recv) return *collective;
  std::vector<std::string_view> known;
  for (int i = 0; i < collective_count; ++i)
    if (const auto one = static_cast<Collective>(i); one != Collective::send && one != Collective::recv)
      known.push_back(name(one));
  if (text.empty())
    return wrong_argument(fmt::format("which collective? {}; or --model NAME, or --guard", fmt::join(known, ", ")));
  return wrong_argument(
      fmt::format("'{}' is not a collective{} (known: {})", text, did_you_mean(text, known), fmt::join(known, ", ")));
}

// What is measured, and in which formats that can be shown.
Status read_kind(const Words& words, PerfOptions& options) {
  options.kind = words.guard ? PerfKind::guard : !options.model.empty() ? PerfKind::model : PerfKind::sizes;
  const char* option = options.kind == PerfKind::guard ? "--guard" : "--model";
  if (options.kind == PerfKind::sizes) {
    auto collective = read_collective(words.collective);
    if (!collective) return collective.error();
    options.collective = *collective;
    if (!options.plot.empty() && options.collective == Collective::barrier)
      return wrong_argument("--plot: a barrier has no bandwidth to draw");
    return {};
  }
  if (!words.collective.empty())
    return wrong_argument(
        fmt::format("{} goes with no collective of its own: leave out '{}'", option, words.collective));
  if (words.guard && !options.model.empty())
    return wrong_argument("--guard and --model are two measurements: take one");
  if (!options.plot.empty()) return wrong_argument(fmt::format("--plot draws a collective over sizes, not {}", option));
  const bool csv = options.format == Format::csv && options.kind == PerfKind::model;
  if (options.format != Format::table && options.format != Format::json && !csv)
    return wrong_argument(
        fmt::format("--format: {} has table{} and json", option, options.kind == PerfKind::model ? ", csv" : ""));
  if (options.kind == PerfKind::guard) return {};
  if (auto gradients = model_gradients(options.model); !gradients) return gradients.error().with_prefix("--model: ");
  auto bucket = parse_size(words.bucket);
  if (!bucket) return bucket.error().with_prefix("--bucket: ");
  if (*bucket == 0) return wrong_argument("--bucket 0: a call for each tensor is measured anyway; give a size");
  options.bucket = static_cast<std::size_t>(*bucket);
  return {};
}

// The table has both ways, and so have JSON and CSV beside a picture. Where one way is shown, a broadcast has a single
// buffer, as where it is used (MPI_Bcast, torch.distributed.broadcast), and so all peers are measured.
Status read_way(const Words& words, PerfOptions& options) {
  if (options.in_place && words.out_of_place) return wrong_argument("--in-place and --out-of-place: take one");
  const bool no_column = options.format == Format::plain || options.format == Format::osu;
  const bool one_way = options.format != Format::table && (no_column || options.plot.empty());
  if (options.kind == PerfKind::sizes && options.collective == Collective::broadcast && one_way)
    options.in_place = !words.out_of_place;
  return {};
}

Status read_sizes(const Words& words, PerfOptions& options) {
  const bool guard = options.kind == PerfKind::guard;
  auto sizes = guard || !words.sizes.empty() ? parse_sizes(words.sizes.empty() ? "4,1K,16K,256K,4M" : words.sizes)
                                             : size_steps(words.first, words.last, words.factor);
  if (!sizes) return sizes.error().with_prefix(words.sizes.empty() ? "" : "--sizes: ");
  options.sizes = whole_elements(*sizes, options.type);
  if (options.kind == PerfKind::sizes && options.collective == Collective::barrier) options.sizes = {0};
  return {};
}

Status read_wire_type(const Words& words, PerfOptions& options) {
  const auto type = words.wire_type == "off" ? DataType::float32 : parse_data_type(words.wire_type);
  if (!type || (*type != DataType::float32 && *type != DataType::bfloat16 && *type != DataType::float16))
    return wrong_argument(
        fmt::format("--wire-type '{}' is not one of off, bfloat16 (bf16), float16 (f16)", words.wire_type));
  options.wire_type = type;
  if (*type == DataType::float32) return {};
  if (options.kind == PerfKind::guard)
    return wrong_argument("--wire-type: --guard compares collectives as they are; leave it out");
  const Collective collective = options.kind == PerfKind::sizes ? options.collective : Collective::allreduce;
  if (!wire_type_of(collective, options, std::nullopt))
    return wrong_argument(
        "--wire-type is for allreduce, reduce and reduce_scatter of float32 (-d) by sum, avg or premul_sum (-o)");
  return {};
}

// Options that a kind of measurement has no use for are refused: what they asked for would be believed of its figures.
Status refuse_unused(const Words& words, PerfKind kind) {
  struct Unused {
    PerfKind kind;
    std::initializer_list<const char*> options;
    const char* why;
  };
  static const Unused all[] = {
      {PerfKind::guard, {"-b", "-e", "-f"}, "--sizes names the sizes of --guard"},
      {PerfKind::guard, {"-o"}, "--guard compares sums"},
      {PerfKind::guard, {"-r"}, "the root of --guard is rank 0"},
      {PerfKind::guard, {"-i"}, "--reps and --target-ms say how long --guard measures"},
      {PerfKind::guard, {"--in-place", "--out-of-place"}, "--guard has input and output of its own"},
      {PerfKind::guard, {"--no-check"}, "--guard compares times and checks no results"},
      {PerfKind::model, {"-b", "-e", "-f", "--sizes"}, "the sizes of --model are those of its gradients"},
      {PerfKind::model, {"-r"}, "an allreduce, which --model measures, has no root"},
      {PerfKind::model, {"--reps", "--target-ms", "--cap-s"}, "-i says how many steps --model makes"},
      {PerfKind::model, {"--in-place", "--out-of-place"}, "--model reduces gradients in place"},
  };
  for (const Unused& each : all)
    for (const char* const option : each.options)
      if (each.kind == kind && words.command->count(option) > 0)
        return wrong_argument(fmt::format("{} would do nothing: {}; leave it out", option, each.why));
  for (const char* const option : {"--target-ms", "--cap-s"})
    if (kind == PerfKind::sizes && words.options.repetitions == 0 && words.command->count(option) > 0)
      return wrong_argument(fmt::format("{} is for repetitions: give --reps, or leave it out", option));
  return {};
}

// Turns the words into options. Errors are the user's.
Status understand(Words& words) {
  PerfOptions& options = words.options;
  FABRING_TRY(read_kind(words, options));
  const auto type = parse_data_type(words.type);
  if (!type) {
    std::vector<std::string_view> known;
    known.reserve(data_type_count);
    for (int i = 0; i < data_type_count; ++i) known.push_back(name(static_cast<DataType>(i)));
    return wrong_argument(fmt::format("-d '{}' is not a data type{} (known: {})", words.type,
                                      did_you_mean(words.type, known), fmt::join(known, ", ")));
  }
  options.type = *type;
  const auto op = parse_reduce_op(words.op);
  if (!op) {
    std::vector<std::string_view> known;
    known.reserve(reduce_op_count);
    for (int i = 0; i < reduce_op_count; ++i) known.push_back(name(static_cast<ReduceOp>(i)));
    return wrong_argument(fmt::format("-o '{}' is not a reduction{} (known: {})", words.op,
                                      did_you_mean(words.op, known), fmt::join(known, ", ")));
  }
  if (!supports(*type, *op))
    return wrong_argument(fmt::format("-o {}: {} has no such operation", name(*op), name(*type)));
  if (*op == ReduceOp::user)
    return wrong_argument("-o user: a function of a program's own cannot be measured from here");
  options.op = *op;
  if (!words.wire_type.empty()) FABRING_TRY(read_wire_type(words, options));
  FABRING_TRY(read_sizes(words, options));
  FABRING_TRY(read_way(words, options));
  const auto number = [](const std::string& text, const char* unit, std::chrono::milliseconds& into) -> Status {
    if (text.empty()) return {};
    const bool bare = text.find_first_not_of("0123456789.") == std::string::npos;
    auto duration = parse_duration(bare ? text + unit : text);
    if (!duration)
      return wrong_argument(fmt::format("'{}' is not a time: a number of {}, or one with a unit (500ms, 2s)", text,
                                        std::string_view(unit) == "ms" ? "milliseconds" : "seconds"));
    into = *duration;
    return {};
  };
  FABRING_TRY(number(words.target_ms, "ms", options.target).with_prefix("--target-ms: "));
  FABRING_TRY(number(words.cap_s, "s", options.cap).with_prefix("--cap-s: "));
  if (!words.timeout.empty()) {
    std::chrono::milliseconds timeout{};
    FABRING_TRY(number(words.timeout, "s", timeout).with_prefix("--timeout: "));
    options.timeout = timeout;
  }
  if (options.kind == PerfKind::guard && options.repetitions == 0) options.repetitions = 5;
  if (options.kind == PerfKind::guard && words.target_ms.empty()) options.target = std::chrono::milliseconds(20);
  options.device = words.memory == "cuda";
  options.mapped = words.memory == "mapped";
  if (options.device && options.kind == PerfKind::guard)
    return wrong_argument("--memory cuda goes with a collective or --model, not with --guard");
  FABRING_TRY(check_picture("--plot", options.plot, options.output));
  if (!options.plot.empty() && options.plot == options.output)
    return wrong_argument("--output and --plot name the same file");
  options.check = !words.no_check;
  options.progress = !words.no_progress;
  Config scratch;  // what the settings would refuse is refused here, before anything is started
  if (!options.transport.empty()) {
    const Setting& row = *find_setting("FABRING_TRANSPORT");
    FABRING_TRY(row.read(row, options.transport, scratch).with_prefix("--transport: "));
  }
  if (!options.algorithm.empty()) {
    const auto overrides = parse_overrides(options.algorithm);
    if (!overrides) return overrides.error().with_prefix("--algorithm: ");
    const auto matters = [&](const Override& rule) {
      const bool about_it = !rule.collective || *rule.collective == options.collective;
      return about_it && (!rule.algorithm || rule.any_direct || rule.algorithm_for(options.collective));
    };
    // --model measures allreduce, which is the collective then too.
    if (options.kind != PerfKind::guard && std::none_of(overrides->begin(), overrides->end(), matters))
      return no_such_algorithm(options.algorithm, options.collective);
  }
  if (options.plan.empty()) return {};
  if (options.kind != PerfKind::sizes)
    return wrong_argument("--plan goes with the collective that its plans are of, not with --model or --guard");
  if (!options.algorithm.empty()) return wrong_argument("--plan and --algorithm: take one");
  if (options.device)
    return wrong_argument("--plan: plans of a file run on memory of the host; leave out --memory cuda");
  return {};
}

int could_not_run(const Status& status) {
  complain("perf", status.to_string());
  return exit_could_not_run;
}

int measure(const PerfOptions& options, const Environment& environment) {
  auto job = PerfJob::of_environment(options, environment);
  if (!job) return could_not_run(job.error());
  const Rank rank = (*job)->rank();
  const Status own = (*job)->prepare();
  if (!own.ok()) could_not_run(said_by(rank, own));  // at once; then the others are told
  const Status met = (*job)->meet(own);
  if (!own.ok()) return exit_could_not_run;
  if (!met.ok()) return could_not_run(said_by(rank, met));
  const auto wrong = options.kind == PerfKind::sizes   ? measure_sizes(**job)
                     : options.kind == PerfKind::model ? measure_model(**job)
                                                       : measure_guard(**job);
  if (!wrong) {
    (*job)->break_off();
    return could_not_run(said_by(rank, wrong.error()));
  }
  if (*wrong == 0) return exit_fine;
  if ((*job)->writes())
    complain("perf", options.kind == PerfKind::guard
                         ? fmt::format("{} collective{} slower than what others could be composed to", *wrong,
                                       *wrong == 1 ? " is" : "s are")
                         : fmt::format("{} elements were wrong", *wrong));
  return exit_wrong;
}

bool ranks_are_threads(const PerfOptions& options) {
  const char* const setting = std::getenv("FABRING_TRANSPORT");
  return (options.transport.empty() && setting != nullptr ? setting : options.transport) == "inproc";
}

int run(Words& words, const Session& session) {
  Status status = understand(words);
  if (status.ok()) status = refuse_unused(words, words.options.kind);
  if (status.ok() && !session.command.empty()) status = wrong_argument("nothing may follow --");
  if (status.ok() && words.nodes > 1 && words.ranks < words.nodes)
    status = wrong_argument(fmt::format("--split-nodes {} needs -n with at least as many ranks", words.nodes));
  if (status.ok() && words.ranks > 0 && words.options.root >= words.ranks)
    status = wrong_argument(fmt::format("--root {}: ranks are 0 to {}", words.options.root, words.ranks - 1));
  if (status.ok() && words.guard && words.ranks == 1)
    status = wrong_argument("--guard needs 2 ranks or more: one has nobody to talk to");
  if (!status.ok()) {
    complain("perf", status.message() + "\nTry `fabring perf --help`.");
    return exit_usage;
  }
  // Before anything is started; each rank reads and proves them again.
  if (words.ranks > 0 && !words.options.plan.empty()) {
    const std::string option = "--plan " + words.options.plan + ": ";
    const auto plans = load_proved_plans(words.options.plan);
    if (!plans) return could_not_run(plans.error().with_prefix(option));
    status = check_use(*plans, words.options.collective, words.options.root, words.options.op).with_prefix(option);
    if (status.ok() && plans->ranks() != words.ranks)
      status = wrong_argument(
          fmt::format("{}its plans are of {} ranks, but -n says {}", option, plans->ranks(), words.ranks));
    if (!status.ok()) {
      complain("perf", status.message() + "\nTry `fabring perf --help`.");
      return exit_usage;
    }
  }
  if (words.ranks == 0) return measure(words.options, process_environment());
  if (words.options.device && !(status = DeviceMemory::check()).ok())
    return could_not_run(status.with_prefix("--memory cuda: "));
  // Rank 0 writes them; found out here, no rank waits for one that could not.
  if (!(status = Output::check(words.options.output)).ok()) return could_not_run(status);
  if (!(status = Output::check(words.options.plot, "--plot")).ok()) return could_not_run(status);
  const auto of_thread = [&](const Environment& environment) { return measure(words.options, environment); };
  const auto code = ranks_are_threads(words.options)
                        ? run_own_ranks_as_threads(of_thread, words.ranks, "perf", words.nodes)
                        : run_own_ranks(session.arguments, words.ranks, "perf", words.nodes);
  return code ? *code : could_not_run(code.error());
}

}  // namespace

void add_perf(CLI::App& app, Session& session) {
  auto words = std::make_shared<Words>();
  PerfOptions& options = words->options;
  CLI::App* command = app.add_subcommand("perf", "Measure and check collectives");
  words->command = command;
  command
      ->add_option("collective", words->collective,
                   "allreduce, reduce, reduce_scatter, all_gather, broadcast, gather, scatter, alltoall, barrier")
      ->type_name("COLLECTIVE");
  CLI::Option* model =
      command
          ->add_option(
              "--model", options.model,
              "Instead of a collective: the gradients of resnet50, vgg16, bert-base or gpt2, or 1000x256 (so many "
              "tensors of so many elements), step after step")
          ->type_name("NAME");
  command
      ->add_option("--bucket", words->bucket,
                   "With --model: gradients are fused into buckets of at least so much (25M)")
      ->needs(model)
      ->type_name("SIZE");
  CLI::Option* guard = command->add_flag("--guard", words->guard,
                                         "Instead: is a collective slower than what others could be composed to?");
  command->add_option("--margin", options.margin, "With --guard: how many times as long a collective may take (1.25)")
      ->needs(guard)
      ->check(between(1.0, 1000.0))
      ->type_name("M");
  command
      ->add_option("-n", words->ranks,
                   "Start N ranks on this host (also -np). Without it the environment says which rank this is: fabring "
                   "run, torchrun, srun, mpirun")
      ->check(between(1, 4096))
      ->type_name("N");
  command->add_option("--split-nodes", words->nodes, "With -n: pretend that the ranks are on K nodes")
      ->check(between(1, 4096))
      ->type_name("K");
  command->add_option("-b,--begin", words->first, "Smallest size (4)")->type_name("SIZE");
  command->add_option("-e,--end", words->last, "Largest size (256M)")->type_name("SIZE");
  command->add_option("-f,--factor", words->factor, "Each size is so many times the one before (2)")->type_name("F");
  command->add_option("--sizes", words->sizes, "These sizes instead: 4,1K,3M")->type_name("LIST");
  command
      ->add_option("-d,--datatype,--dtype", words->type,
                   "float32 (the default), float64, float16, bfloat16, float8_e4m3, float8_e5m2, int8 ... uint64, bool")
      ->type_name("TYPE");
  command
      ->add_option("-o,--op", words->op,
                   "sum (the default), prod, min, max, avg, logical_and (land) ... bitwise_xor (bxor)")
      ->type_name("OP");
  command
      ->add_option("--wire-type", words->wire_type,
                   "bfloat16 or float16: as what float32 travels; results are checked against the bound of the error "
                   "(off: as float32, whatever FABRING_WIRE_TYPE says)")
      ->type_name("TYPE");
  command->add_option("-r,--root", options.root, "Root of reduce, broadcast, gather and scatter (0)")
      ->check(between(0, 1 << 30))
      ->type_name("RANK");
  command->add_option("-w,--warmup", options.warm_up, "Calls before the clock runs (5)")
      ->check(between(0, 1'000'000))
      ->type_name("W");
  command->add_option("-i,--iterations", options.calls, "Timed calls (20)")
      ->check(between(1, 1'000'000))
      ->type_name("I");
  command
      ->add_option("--reps", options.repetitions, "Instead of -i: R repetitions of as many calls as fill --target-ms")
      ->check(between(1, 10'000))
      ->type_name("R");
  command->add_option("--target-ms", words->target_ms, "With --reps: length of a repetition (100)")->type_name("T");
  command
      ->add_option("--cap-s", words->cap_s,
                   "With --reps: most seconds of them for a size, by fewer where calls are long (6)")
      ->type_name("C");
  command->add_flag("--no-check", words->no_check, "Do not check the results");
  command->add_flag("--in-place", options.in_place,
                    "Input and output are one buffer, as always of a broadcast (the table measures both ways)");
  command->add_flag("--out-of-place", words->out_of_place,
                    "Input and output are two buffers, also of a broadcast, whose root copies one to the other");
  command
      ->add_option(
          "--transport", options.transport,
          "auto, or what may be used: shm (one host), and the first network that works of fabric,tcp; with -n also "
          "inproc alone: the ranks are threads of this process")
      ->type_name("LIST");
  command
      ->add_option("--algorithm", options.algorithm, "auto, one by name (ring), or rules: allreduce:64K-4M:circulant")
      ->type_name("RULES");
  command
      ->add_option(
          "--plan", options.plan,
          "Run the plans of this file (fabring plan COLLECTIVE -n N --json), once they are proved; -n as in it")
      ->type_name("FILE");
  command
      ->add_option(
          "--memory", words->memory,
          "host: ordinary memory (the default); mapped: memory that the ranks of a host read and write directly "
          "(fabring_mem_alloc); cuda: memory of a GPU, for each rank the next one of its host")
      ->check(one_of({"host", "mapped", "cuda"}))
      ->type_name("KIND");
  command
      ->add_option("--offset", options.offset,
                   "Begin buffers of the host B bytes into a page, as an application's may (0); rounded down to whole "
                   "elements")
      ->check(between(0, 4095))
      ->type_name("B");
  add_choice<Format>(*command, "--format", options.format,
                     {{"table", Format::table},
                      {"csv", Format::csv},
                      {"json", Format::json},
                      {"osu", Format::osu},
                      {"plain", Format::plain}},
                     "table (nccl-tests' columns), csv, json (an array, nothing else on stdout), osu, plain (bytes "
                     "time_us algbw busbw)")
      ->type_name("FORMAT");
  command->add_flag_callback(
      "--json", [words] { words->options.format = Format::json; }, "As --format json");
  command->add_option("--output", options.output, "Write to a file")->type_name("FILE");
  command->add_option("--plot", options.plot, "Draw busbw over the size, out of place and in place")
      ->type_name("F.svg");
  command->add_flag(
      "--explain", options.explain,
      "Say on stderr why this transport and these algorithms, and what was predicted beside what was measured");
  command
      ->add_option("--timeout", words->timeout,
                   "Give up ranks that do not meet, or a call, after so long (FABRING_TIMEOUT)")
      ->type_name("S");
  command->add_flag("--no-progress", words->no_progress, "No progress lines on stderr");
  command->footer(
      "Time is the slowest rank's total divided by the calls; GB/s are 1e9 bytes. A size is that of the vector or, "
      "where\n"
      "every rank has a block, of all blocks together. busbw is algbw x 2(n-1)/n for allreduce, x 1 for broadcast and\n"
      "reduce, x (n-1)/n for the others.\n"
      "--model: a step starts the allreduce of every bucket and ends when all are done; then a call for each tensor,\n"
      "begun together and in turn; then one call for all of them, but in memory of a GPU.\n"
      "--guard: sizes are 4,1K,16K,256K,4M unless --sizes says otherwise; medians of --reps (5) x --target-ms (20); "
      "what is\n"
      "slower than its composition by more than --margin is measured three times before it counts.\n"
      "Exit codes: 0 fine, 1 wrong results or too slow (--guard), 2 usage, 3 could not run.\n"
      "Example: fabring perf allreduce -n 4 -b 1K -e 64M --transport tcp");
  command->callback([words, &session] { session.exit_code = run(*words, session); });
}

}  // namespace fabring::tools
