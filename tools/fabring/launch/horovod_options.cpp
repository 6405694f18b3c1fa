#include "tools/fabring/launch/horovod_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>

#include "tools/fabring/option_checks.hpp"

namespace fabring::tools {
namespace {

constexpr const char* group = "Options of horovodrun";
constexpr const char* flags_without_meaning[] = {"--gloo",
                                                 "--mpi",
                                                 "--jsrun",
                                                 "--tcp",
                                                 "--disable-cache",
                                                 "--autotune",
                                                 "--no-autotune",
                                                 "--hierarchical-allreduce",
                                                 "--stall-check",
                                                 "--torus-allreduce",
                                                 "--no-stall-check",
                                                 "--no-hierarchical-allreduce",
                                                 "--hierarchical-allgather",
                                                 "--no-hierarchical-allgather",
                                                 "--no-torus-allreduce",
                                                 "--mpi-threads-disable",
                                                 "--no-mpi-threads-disable",
                                                 "--log-with-timestamp",
                                                 "--log-without-timestamp",
                                                 "--log-hide-timestamp",
                                                 "--no-log-hide-timestamp",
                                                 "--no-timeline-mark-cycles"};
constexpr const char* values_without_meaning[] = {"--cycle-time-ms",
                                                  "--cache-capacity",
                                                  "--mpi-args",
                                                  "--binding-args",
                                                  "--num-nccl-streams",
                                                  "--thread-affinity",
                                                  "--gloo-timeout-seconds",
                                                  "--autotune-log-file",
                                                  "--autotune-warmup-samples",
                                                  "--autotune-steps-per-sample",
                                                  "--autotune-bayes-opt-max-samples",
                                                  "--autotune-gaussian-process-noise"};
constexpr const char* elastic_ones[] = {"--min-np",
                                        "--min-num-proc",
                                        "--max-np",
                                        "--max-num-proc",
                                        "--slots-per-host",
                                        "--elastic-timeout",
                                        "--reset-limit",
                                        "--blacklist-cooldown-range",
                                        "--host-discovery-script"};
constexpr const char* not_elastic =
    "the number of ranks does not change here; --restarts R starts all of them again when one fails";
constexpr const char* no_files_of_output =
    "what ranks write is not put into files here; --tag-output puts the rank before every line, and a shell makes a "
    "file for each: sh -c 'exec python train.py > rank.$FABRING_RANK 2>&1'";
constexpr const char* no_file_of_options =
    "options are not read from a file here; give them on the command line (`fabring run --help`), or as variables of "
    "the ranks with -x NAME=VALUE (`fabring settings`)";
constexpr const char* nothing_to_check =
    "there is one build, for PyTorch; `fabring doctor` says what this machine has and lacks";

// Options that only leave something in `noted`; shown in no help, which would be theirs and not ours.
void collect(CLI::App& command, const char* name, bool value, std::vector<std::string>& noted, std::string note) {
  auto add = [&noted, note = std::move(note)] { noted.push_back(note); };
  if (value) {
    command.add_option_function<std::string>(name, [add](const std::string&) { add(); })->group("");
  } else {
    command.add_flag_callback(name, add)->group("");
  }
}

}  // namespace

void add_horovod_options(CLI::App& command, HorovodOptions& options) {
  command.add_option("-p,--ssh-port", options.ssh_port, "Port of ssh on the other hosts")
      ->check(between(1, 65535))
      ->type_name("PORT")
      ->group(group);
  command.add_option("-i,--ssh-identity-file", options.identity_file, "Key for ssh")->type_name("FILE")->group(group);
  command.add_option("--start-timeout", options.start_timeout_s, "FABRING_RENDEZVOUS_TIMEOUT of the ranks, in seconds")
      ->check(between(1, 1'000'000))
      ->type_name("S")
      ->group(group);
  command
      .add_option("--network-interfaces,--network-interface", options.interfaces,
                  "FABRING_INTERFACE of the ranks: eth0,eth1")
      ->type_name("LIST")
      ->group(group);
  command
      .add_option("--fusion-threshold-mb", options.fusion_threshold_mb,
                  "HOROVOD_FUSION_THRESHOLD of the ranks: small tensors travel together up to so much")
      ->check(between(0, 4096))
      ->type_name("MB")
      ->group(group);
  command
      .add_option("--timeline-filename", options.timeline, "HOROVOD_TIMELINE: where rank 0 writes a trace of the calls")
      ->type_name("FILE")
      ->group(group);
  command.add_flag("--timeline-mark-cycles", options.timeline_rounds, "Mark rounds of negotiation in it")->group(group);
  command
      .add_option("--stall-check-warning-time-seconds", options.stall_warning_s,
                  "HOROVOD_STALL_CHECK_TIME_SECONDS: when a call that some ranks have not made is reported")
      ->check(between(0, 1'000'000))
      ->type_name("S")
      ->group(group);
  command
      .add_option("--stall-check-shutdown-time-seconds", options.stall_shutdown_s,
                  "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: when it ends the job; 0: never")
      ->check(between(0, 1'000'000))
      ->type_name("S")
      ->group(group);
  command
      .add_option("--log-level", options.log_level,
                  "FABRING_LOG of the ranks: TRACE, DEBUG, INFO, WARNING, ERROR, FATAL")
      ->type_name("LEVEL")
      ->group(group);
  command.add_flag("--verbose", options.verbose, "FABRING_LOG=info for the ranks")->group(group);
  for (const char* name : flags_without_meaning) collect(command, name, false, options.ignored, name);
  for (const char* name : values_without_meaning) collect(command, name, true, options.ignored, name);
  const auto refuse = [&](const char* name, bool value, const char* why) {
    collect(command, name, value, options.refused, fmt::format("{}: {}", name, why));
  };
  for (const char* name : elastic_ones) refuse(name, true, not_elastic);
  refuse("--output-filename", true, no_files_of_output);
  refuse("--config-file", true, no_file_of_options);
  refuse("--check-build", false, nothing_to_check);
}

Result<std::vector<std::string>> horovod_environment(const HorovodOptions& options) {
  static const std::map<std::string, std::string> levels{{"TRACE", "debug"}, {"DEBUG", "debug"},
                                                         {"INFO", "info"},   {"WARNING", "warning"},
                                                         {"ERROR", "error"}, {"FATAL", "error"}};
  if (!options.refused.empty()) return Status(ErrorCode::invalid_argument, options.refused.front());
  std::vector<std::string> made;
  if (options.verbose) made.emplace_back("FABRING_LOG=info");
  if (!options.log_level.empty()) {
    const auto level = levels.find(options.log_level);
    if (level == levels.end())
      return Status(
          ErrorCode::invalid_argument,
          fmt::format("--log-level {} is none of TRACE, DEBUG, INFO, WARNING, ERROR, FATAL", options.log_level));
    made.push_back("FABRING_LOG=" + level->second);
  }
  if (options.start_timeout_s > 0)
    made.push_back(fmt::format("FABRING_RENDEZVOUS_TIMEOUT={}s", options.start_timeout_s));
  if (!options.interfaces.empty()) made.push_back("FABRING_INTERFACE=" + options.interfaces);
  if (options.fusion_threshold_mb >= 0)
    made.push_back(fmt::format("HOROVOD_FUSION_THRESHOLD={}", static_cast<long>(options.fusion_threshold_mb) << 20));
  if (options.stall_warning_s >= 0)
    made.push_back(fmt::format("HOROVOD_STALL_CHECK_TIME_SECONDS={}", options.stall_warning_s));
  if (options.stall_shutdown_s >= 0)
    made.push_back(fmt::format("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={}", options.stall_shutdown_s));
  if (!options.timeline.empty()) made.push_back("HOROVOD_TIMELINE=" + options.timeline);
  if (options.timeline_rounds) made.emplace_back("HOROVOD_TIMELINE_MARK_CYCLES=1");
  return made;
}

std::vector<std::string> horovod_ssh_words(const HorovodOptions& options) {
  std::vector<std::string> words;
  if (options.ssh_port > 0) words.insert(words.end(), {"-p", std::to_string(options.ssh_port)});
  if (!options.identity_file.empty()) words.insert(words.end(), {"-i", options.identity_file});
  return words;
}

std::string horovod_note(const HorovodOptions& options) {
  if (options.ignored.empty()) return {};
  return fmt::format("{}: no meaning here, ignored", fmt::join(options.ignored, ", "));
}

}  // namespace fabring::tools
