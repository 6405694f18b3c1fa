// `fabring run`: starts ranks on this host.

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/local_job.hpp"

namespace fabring::tools {
namespace {

struct Options {
  JobOptions job;
  std::string grace = "10s";
};

int usage(const std::string& text) {
  complain("run", text + "\nTry `fabring run --help`.");
  return exit_usage;
}

int run(Options& options, const CLI::App& app, Session& session) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && words.front().starts_with('-')) return usage(unknown_option(app, words.front()));
  if (!words.empty() && !session.command.empty())
    return usage("'" + words.front() + "' stands before -- but is no option");
  options.job.command = session.command.empty() ? std::move(words) : session.command;
  if (options.job.command.empty()) return usage("which program? `fabring run -n 4 -- ./program its arguments`");
  auto grace = parse_duration(options.grace);
  if (!grace) return usage("--grace: " + grace.error().message());
  options.job.grace = *grace;
  if (options.job.nodes > options.job.ranks)
    return usage("--split-nodes " + std::to_string(options.job.nodes) + " is more than the " +
                 std::to_string(options.job.ranks) + " ranks");
  auto code = run_local_job(options.job, process_environment());
  if (!code) {
    complain("run", code.error().message());
    return exit_could_not_run;
  }
  return *code;
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Start ranks of a program on this host");
  command->add_option("-n", options->job.ranks, "How many ranks (also -np)")
      ->required()
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command
      ->add_option("--bind", options->job.binding,
                   "Bind each rank to its share of the cores, to a NUMA node, or not at all (the default)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Binding>{{"none", Binding::none}, {"core", Binding::core}, {"numa", Binding::numa}}))
      ->type_name("core|numa|none");
  command->add_flag("--tag-output", options->job.style.tag, "Put [RANK] before every line");
  command->add_flag("--timestamp-output", options->job.style.timestamp, "Put the time before every line");
  command->add_option("--restarts", options->job.restarts, "Start all ranks again when one fails, at most R times")
      ->check(CLI::Range(0, 1000))
      ->type_name("R");
  command
      ->add_option("--grace", options->grace,
                   "How long the others may go on after a rank failed, before they are terminated (10s)")
      ->type_name("TIME");
  command
      ->add_option("--split-nodes", options->job.nodes,
                   "Pretend that the ranks are on K nodes, to try hierarchical algorithms on one host")
      ->check(CLI::Range(1, 4096))
      ->type_name("K");
  command->add_option("--job-id", options->job.job_id, "Name of the job (random)")->type_name("ID");
  command->prefix_command();
  command->footer(
      "Each rank finds FABRING_RANK, FABRING_WORLD_SIZE, FABRING_LOCAL_RANK, FABRING_MASTER_ADDR, FABRING_MASTER_PORT "
      "and\n"
      "FABRING_JOB_ID in its environment. Rank 0 gets the standard input. INT, TERM and HUP are passed on, a second "
      "one\n"
      "kills. The exit code is that of the first rank that failed (128 + signal), which is named on stderr.\n"
      "Example: fabring run -n 4 --tag-output -- ./train --epochs 3");
  command->callback([options, command, &session] { session.exit_code = run(*options, *command, session); });
}

}  // namespace fabring::tools
