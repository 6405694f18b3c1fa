// `fabring run`: starts ranks, here or on several hosts.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "runtime/base/handshake.hpp"
#include "runtime/base/parse_value.hpp"
#include "runtime/base/whole_file.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/common_options.hpp"
#include "tools/fabring/launch/horovod_options.hpp"
#include "tools/fabring/launch/host_slots.hpp"
#include "tools/fabring/launch/hosts_environment.hpp"
#include "tools/fabring/launch/hosts_job.hpp"
#include "tools/fabring/launch/job_record.hpp"
#include "tools/fabring/launch/local_job.hpp"
#include "tools/fabring/launch/place_note.hpp"
#include "tools/fabring/launch/remote_shell.hpp"
#include "tools/fabring/option_checks.hpp"
#include "tools/fabring/output.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

struct RunOptions {
  JobRecord record;
  bool json = false, explain = false;
  std::string output;
  JobOptions job;
  HostsJobOptions several;
  HorovodOptions horovod;
  std::string grace = "10s", silence, timeout;
  std::string hosts, hostfile, ssh = std::string(default_ssh);
  std::vector<std::string> exports;
  int ranks = 0;
};

int usage(const std::string& text) { return wrong_usage("run", text + "\nTry `fabring run --help`."); }

/// Says why there was no job, and returns the exit code.
int finish(const Result<int>& code) {
  if (code) return *code;
  return could_not_run("run", code.error());
}

/// Starts the job with `start`, and reports it as the options say: on stdout after all that the ranks print.
int run_and_report(RunOptions& options, const std::vector<HostShare>& hosts,
                   const std::function<Result<int>()>& start) {
  Output out;
  const bool reports = options.json || !options.output.empty();
  if (const Status status = out.open(options.output); !status.ok()) return finish(status);
  const auto began = std::chrono::steady_clock::now();
  const Result<int> code = start();
  const int exit_code = finish(code);
  if (options.record.attempts > 1) warn("run", fmt::format("ranks were started {} times", options.record.attempts));
  if (!reports) return exit_code;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  out.write(job_json(options.record, hosts, code, seconds));
  const Status written = out.finish();
  if (written.ok()) return exit_code;
  complain("run", written.message());
  return exit_code == exit_fine ? exit_could_not_run : exit_code;
}

Result<std::vector<HostSlots>> read_hosts(const RunOptions& options) {
  if (options.hostfile.empty()) {
    auto hosts = parse_hosts(options.hosts);
    if (!hosts) return hosts.error().with_prefix("--hosts: ");
    return hosts;
  }
  constexpr std::size_t most_bytes = 16u << 20;
  const auto text = read_whole_file(options.hostfile, most_bytes);
  if (!text) return text.error().with_prefix(fmt::format("--hostfile {}: ", options.hostfile));
  return parse_hostfile(*text, options.hostfile);
}

// What the words on the command line mean for a job on several hosts. Errors: unavailable, the file of the hosts cannot
// be read; else they are the user's.
Status understand_hosts(RunOptions& options, const Environment& environment) {
  auto hosts = read_hosts(options);
  if (!hosts) return hosts.error();
  auto shares = place_ranks(*hosts, options.ranks);
  if (!shares) return shares.error();
  auto ssh = split_words(options.ssh);
  if (!ssh) return ssh.error().with_prefix("--ssh: ");
  for (std::string& word : horovod_ssh_words(options.horovod)) ssh->push_back(std::move(word));
  if (!options.silence.empty()) {
    auto silence = parse_duration(options.silence);
    if (!silence) return silence.error().with_prefix("--lost-after: ");
    options.several.silence = *silence;
  }
  auto exported = exported_environment(options.exports, environment);
  if (!exported) return exported.error().with_prefix("-x: ");
  HostsJobOptions& several = options.several;
  several.hosts = std::move(*shares);
  several.ssh = std::move(*ssh);
  several.exported = std::move(*exported);
  options.job.ranks = several.hosts.back().first + several.hosts.back().count;
  return {};
}

int run_on_hosts(RunOptions& options, const Environment& environment) {
  HostsJobOptions& several = options.several;
  several.job = options.job;
  // Its contents travel to the other hosts, never its name: there is no such file there.
  if (const auto file = environment.find("FABRING_SECRET_FILE"); file != environment.end() && !file->second.empty()) {
    auto secret = read_secret(file->second);
    if (!secret) return finish(secret.error());
    several.secret = std::move(*secret);
  }
  if (several.directory.empty()) {
    std::string here(4096, '\0');
    if (::getcwd(here.data(), here.size()) == nullptr)
      return finish(Status(ErrorCode::unavailable, std::string("no working directory: ") + std::strerror(errno)));
    here.resize(std::strlen(here.data()));
    several.directory = std::move(here);
  }
  return run_and_report(options, several.hosts, [&] { return run_hosts_job(several, environment); });
}

int run_here(RunOptions& options, Environment environment) {
  auto exported = exported_environment(options.exports, environment);
  if (!exported) return usage("-x: " + exported.error().message());
  for (const auto& [name, value] : *exported) environment[name] = value;
  // As with --hosts, where it is read here: the ranks find it, wherever they run.
  if (const auto file = environment.find("FABRING_SECRET_FILE"); file != environment.end() && !file->second.empty()) {
    std::error_code error;
    if (auto path = std::filesystem::absolute(file->second, error); !error) file->second = path.string();
  }
  if (!options.several.directory.empty() && ::chdir(options.several.directory.c_str()) != 0)
    return finish(Status(ErrorCode::unavailable, fmt::format("--chdir: cannot enter '{}': {}",
                                                             options.several.directory, std::strerror(errno))));
  return run_and_report(options, {{host_name(), 0, options.job.ranks}},
                        [&] { return run_local_job(options.job, environment); });
}

// An option that means nothing to a job on this host alone; empty: none was given.
std::string only_for_hosts(const RunOptions& options) {
  if (!options.silence.empty()) return "--lost-after";
  if (!options.several.remote_fabring.empty()) return "--remote-fabring";
  if (!options.several.master_addr.empty()) return "--master-addr";
  return options.ssh == default_ssh ? "" : "--ssh";
}

int run(RunOptions& options, const CLI::App& app, Session& session) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && words.front().starts_with('-')) return usage(unknown_option(app, words.front()));
  if (!words.empty() && !session.command.empty())
    return usage("'" + words.front() + "' stands before -- but is no option");
  auto horovod = horovod_environment(options.horovod);
  if (!horovod) return usage(horovod.error().message());
  options.job.command = session.command.empty() ? std::move(words) : session.command;
  if (options.job.command.empty()) return usage("which program? `fabring run -n 4 -- ./program its arguments`");
  auto grace = parse_duration(options.grace);
  if (!grace) return usage("--grace: " + grace.error().message());
  options.job.grace = *grace;
  if (!options.timeout.empty()) {
    auto timeout = parse_duration(options.timeout);
    if (!timeout) return usage("--timeout: " + timeout.error().message());
    options.job.timeout = *timeout;
  }
  options.exports.insert(options.exports.begin(), horovod->begin(), horovod->end());  // -x comes after and wins
  if (const std::string note = horovod_note(options.horovod); !note.empty()) complain("run", note);
  options.job.style.end_last = options.json && options.output.empty();
  Environment environment = process_environment();
  if (options.explain) environment["FABRING_EXPLAIN"] = "1";
  options.job.record = &options.record;
  if (const std::string note = place_note(environment); !note.empty()) complain("run", note);
  if (const auto id = environment.find("FABRING_JOB_ID"); id != environment.end() && options.job.job_id.empty())
    options.job.job_id = id->second;
  const bool several = !options.hosts.empty() || !options.hostfile.empty();
  if (several) {
    if (Status status = understand_hosts(options, environment); !status)
      return status.code() == ErrorCode::unavailable ? finish(status) : usage(status.message());
  } else {
    if (options.ranks == 0) return usage("how many ranks? -n 4, or --hosts a:4,b:4");
    if (const std::string unused = only_for_hosts(options); !unused.empty())
      return usage(unused + " is for jobs on several hosts (--hosts, --hostfile)");
    options.job.ranks = options.ranks;
  }
  if (several && options.job.nodes > 1)
    return usage("--split-nodes is for one host; with --hosts the hosts are the nodes");
  if (options.job.nodes > options.job.ranks)
    return usage("--split-nodes " + std::to_string(options.job.nodes) + " is more than the " +
                 std::to_string(options.job.ranks) + " ranks");
  return several ? run_on_hosts(options, environment) : run_here(options, environment);
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Start ranks of a program, here or on several hosts");
  command->add_option("-n", options->ranks, "How many ranks (also -np, --np, --num-proc); with hosts: all their slots")
      ->check(between(1, 4096))
      ->type_name("N");
  CLI::Option* hosts =
      command->add_option("-H,--hosts", options->hosts, "Run on these hosts over ssh, each with so many ranks: a:4,b:4")
          ->type_name("LIST");
  command->add_option("--hostfile", options->hostfile, "Or hosts from a file: a line for each, a:4 or a slots=4")
      ->excludes(hosts)
      ->type_name("FILE");
  command
      ->add_option("-x,--env", options->exports, "Variable for the ranks on all hosts, as it is here or with a value")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false)  // else every word after the first value is one too, the program among them
      ->type_name("NAME[=VALUE]");
  command->add_option("--chdir,--wdir", options->several.directory, "Directory to run in (this one)")->type_name("DIR");
  command->add_option("--ssh", options->ssh, "How to reach other hosts (" + std::string(default_ssh) + ")")
      ->type_name("COMMAND");
  command->add_option("--remote-fabring", options->several.remote_fabring, "Path of fabring there (as here)")
      ->type_name("PATH");
  command
      ->add_option("--master-addr", options->several.master_addr,
                   "Address of the first host as the others reach it (found out)")
      ->type_name("ADDRESS");
  command->add_option("--lost-after", options->silence, "How long a host may be silent before it is given up (15s)")
      ->type_name("TIME");
  add_choice<Binding>(*command, "--bind", options->job.binding,
                      {{"core", Binding::core}, {"numa", Binding::numa}, {"none", Binding::none}},
                      "Bind each rank to its share of the cores, to a NUMA node, or not at all (the default)")
      ->type_name("core|numa|none");
  command->add_flag("--tag-output", options->job.style.tag, "Put [RANK] before every line");
  command->add_flag("--timestamp-output,--prefix-output-with-timestamp", options->job.style.timestamp,
                    "Put the time before every line");
  command->add_option("--restarts", options->job.restarts, "Start all ranks again when one fails, at most R times")
      ->check(between(0, 1000))
      ->type_name("R");
  command
      ->add_option("--grace", options->grace,
                   "How long the others may go on after a rank failed, before they are terminated (10s)")
      ->type_name("TIME");
  command
      ->add_option("--split-nodes", options->job.nodes,
                   "Pretend that the ranks are on K nodes, to try hierarchical algorithms on one host")
      ->check(between(1, 4096))
      ->type_name("K");
  command->add_option("--timeout", options->timeout, "End the job after so long (never); exit code 124")
      ->type_name("TIME");
  command->add_flag("--explain", options->explain,
                    "FABRING_EXPLAIN for the ranks: why this transport, card, algorithm");
  command->add_flag("--json", options->json,
                    "Report the job at its end: which rank failed first, every rank's host and exit code; one line of "
                    "JSON, the last on stdout, or in --output");
  command->add_option("--output", options->output, "Write that report to a file, as JSON also without --json")
      ->type_name("FILE");
  command->add_option("--job-id", options->job.job_id, "Name of the job (random)")->type_name("ID");
  add_horovod_options(*command, options->horovod);
  command->prefix_command();
  command->footer(
      "Each rank finds FABRING_RANK, FABRING_WORLD_SIZE, FABRING_LOCAL_RANK, FABRING_MASTER_ADDR, FABRING_MASTER_PORT "
      "and\n"
      "FABRING_JOB_ID in its environment. Rank 0 gets the standard input, but not a terminal's: ranks are in its\n"
      "background, also with -n 1. INT, TERM and HUP are passed on (HUP not under nohup), a second one kills; USR1 "
      "and\n"
      "USR2 are passed on and end nothing by themselves. The exit code is that of the first rank that failed (128 +\n"
      "signal), which is named on stderr.\n"
      "On other hosts ranks have the environment of a login there, every FABRING_* of here, and what -x names; the\n"
      "program and fabring itself must be there. When this command dies, the ranks end on every host.\n"
      "Example: fabring run -n 4 --tag-output -- ./train --epochs 3\n"
      "Example: fabring run --hosts node1:8,node2:8 -x LD_LIBRARY_PATH -- ./train\n"
      "Example: fabring run -np 4 -H localhost:4 python train.py     (the options of horovodrun do)");
  command->callback([options, command, &session] { session.exit_code = run(*options, *command, session); });
}

}  // namespace fabring::tools
