// `fabring perf`; with -n it starts its own ranks on this host. Its options are in perf_command_line.cpp, what they
// mean in perf_words.cpp, and the kinds of measurement are files of their own: perf_sizes.cpp, perf_model.cpp,
// perf_guard.cpp.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "runtime/base/settings.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/launch/own_ranks.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/perf/device_memory.hpp"
#include "tools/fabring/perf/perf_command_line.hpp"
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
  if ((*job)->writes())
    for (const std::string& option : options.without_effect) warn("perf", option);
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
  if (status.ok() && words.guard && std::ranges::count(words.options.sizes, std::size_t{0}) > 0)
    status = wrong_argument("--sizes: --guard compares what takes time by its bytes, and 0 has none");
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
  if (!(status = check_settings_of_ranks(words.ranks)).ok()) return perf_could_not_run(status);
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
  CLI::App* command = app.add_subcommand("perf", "Measure and check collectives");
  words->command = command;
  add_perf_options(*command, *words);
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
