#pragma once
// run_local_job(): the ranks of a job on this host, from their start to the last one's end. `fabring run` and `fabring
// perf -n` use it. It takes over the process: signals are blocked and read by it, and the process must have one thread
// only.
//
// When a rank ends badly it is named and its status is the job's; the others get a grace to find out by themselves
// (their errors say more than a signal can), then TERM, then KILL. What ranks started and leave behind is killed, and
// what left their process groups too: the process adopts it.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/launch/core_binding.hpp"
#include "tools/fabring/launch/job_record.hpp"
#include "tools/fabring/launch/output_lines.hpp"

namespace fabring::tools {

class JobSupervisor;

struct JobOptions {
  int ranks = 1;
  std::vector<std::string> command;
  std::string job_id;  ///< empty: random
  int nodes = 1;       ///< pretended nodes: FABRING_HOST_ID in as many blocks
  Binding binding = Binding::none;
  OutputStyle style;
  int restarts = 0;
  std::chrono::milliseconds grace{10'000};      ///< from the first bad end to TERM
  std::chrono::milliseconds term_grace{5'000};  ///< from TERM to KILL
  std::chrono::milliseconds timeout{0};         ///< for the whole job with its restarts; 0: none
  JobRecord* record = nullptr;                  ///< where to write what becomes of the ranks
  std::string name = "run";                     ///< of the subcommand, for messages
  std::optional<int> code_if_killed;            ///< of a rank that a signal killed; none: 128 + signal
};

/// Runs the job to its end. Returns the exit code: 0, or that of the first rank that ended badly.
/// Errors: unavailable when it could not be started; then nothing is left running.
Result<int> run_local_job(const JobOptions& options, const Environment& environment);

/// When the time of a job that begins now is up; nothing: never.
std::optional<std::chrono::steady_clock::time_point> end_of_time(const JobOptions& options);

/// For --json and --strict: an attempt begins, or has ended.
void record_attempt(const JobOptions& options, int attempt, const std::string& job_id);
void record_ends(const JobOptions& options, const JobSupervisor& supervisor);

/// "run-" and 64 random bits.
std::string random_job_id();

}  // namespace fabring::tools
