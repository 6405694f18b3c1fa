// `fabring perf`: its options; with -n it starts its own ranks on this host. What the options mean is in
// perf_words.cpp, and the kinds of measurement are files of their own: perf_sizes.cpp, perf_model.cpp, perf_guard.cpp.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "runtime/base/settings.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/launch/own_ranks.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/perf_job.hpp"
#include "tools/fabring/perf/perf_options.hpp"
#include "tools/fabring/perf/perf_words.hpp"
#include "tools/fabring/plan/file_plans.hpp"
#include "tools/fabring/start_together.hpp"

namespace fabring::tools {
namespace {

// With the name of the code in front.
int perf_could_not_run(const Status& why) { return could_not_run("perf", why.to_string()); }

int measure(const PerfOptions& options, const Environment& environment) {
  auto job = PerfJob::of_environment(options, environment);
  if (!job) return perf_could_not_run(job.error());
  const Rank rank = (*job)->rank();
  const Status own = (*job)->prepare();
  if (!own.ok()) perf_could_not_run(said_by(rank, own));  // at once; then the others are told
  const Status met = (*job)->meet(own);
  if (!own.ok()) return exit_could_not_run;
  if (!met.ok()) return perf_could_not_run(said_by(rank, met));
  const auto wrong = options.kind == PerfKind::sizes   ? measure_sizes(**job)
                     : options.kind == PerfKind::model ? measure_model(**job)
                                                       : measure_guard(**job);
  if (!wrong) {
    (*job)->break_off();
    return perf_could_not_run(said_by(rank, wrong.error()));
  }
  if (*wrong == 0) return exit_fine;
  if ((*job)->writes())
    complain("perf", options.kind == PerfKind::guard
                         ? fmt::format("{} collective{} slower than what others could be composed to", *wrong,
                                       *wrong == 1 ? " is" : "s are")
                         : fmt::format("{} elements were wrong", *wrong));
  return exit_wrong;
}

bool ranks_are_threads(const PerfOptions& options, const Environment& environment) {
  if (!options.transport.empty()) return options.transport == "inproc";
  const auto setting = environment.find("FABRING_TRANSPORT");
  return setting != environment.end() && setting->second == "inproc";
}

int run(PerfWords& words, const Session& session) {
  Status status = understand(words);
  if (status.ok() && !session.command.empty()) status = wrong_argument("nothing may follow --");
  if (status.ok() && words.nodes > 1 && words.ranks < words.nodes)
    status = wrong_argument(fmt::format("--split-nodes {} needs -n with at least as many ranks", words.nodes));
  if (status.ok() && words.ranks > 0 && words.options.root >= words.ranks)
    status = wrong_argument(fmt::format("--root {}: ranks are 0 to {}", words.options.root, words.ranks - 1));
  if (status.ok() && words.guard && words.ranks == 1)
    status = wrong_argument("--guard needs 2 ranks or more: one has nobody to talk to");
  if (!status.ok()) return wrong_usage("perf", status.message() + "\nTry `fabring perf --help`.");
  // Before anything is started; each rank reads and proves them again.
  if (words.ranks > 0 && !words.options.plan.empty()) {
    const std::string option = "--plan " + words.options.plan + ": ";
    const auto plans = load_proved_plans(words.options.plan);
    if (!plans) return perf_could_not_run(plans.error().with_prefix(option));
    status = check_use(*plans, words.options.collective, words.options.root, words.options.op).with_prefix(option);
    if (status.ok() && plans->ranks() != words.ranks)
      status = wrong_argument(
          fmt::format("{}its plans are of {} ranks, but -n says {}", option, plans->ranks(), words.ranks));
    if (!status.ok()) return wrong_usage("perf", status.message() + "\nTry `fabring perf --help`.");
  }
  const Environment own = process_environment();
  if (words.ranks == 0) return measure(words.options, own);
  if (words.options.device && !(status = DeviceMemory::check()).ok())
    return perf_could_not_run(status.with_prefix("--memory cuda: "));
  // Rank 0 writes them; found out here, no rank waits for one that could not.
  if (!(status = Output::check(words.options.output)).ok()) return perf_could_not_run(status);
  if (!(status = Output::check(words.options.plot, "--plot")).ok()) return perf_could_not_run(status);
  const auto of_thread = [&](const Environment& environment) { return measure(words.options, environment); };
  const auto code = ranks_are_threads(words.options, own)
                        ? run_own_ranks_as_threads(of_thread, words.ranks, "perf", words.nodes)
                        : run_own_ranks(session.arguments, words.ranks, "perf", words.nodes);
  return code ? *code : perf_could_not_run(code.error());
}

}  // namespace

void add_perf(CLI::App& app, Session& session) {
  auto words = std::make_shared<PerfWords>();
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
