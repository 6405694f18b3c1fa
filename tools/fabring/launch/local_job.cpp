#include "tools/fabring/launch/local_job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tools/fabring/launch/adopted_children.hpp"
#include "tools/fabring/launch/job_output.hpp"
#include "tools/fabring/launch/job_supervisor.hpp"
#include "tools/fabring/launch/open_files.hpp"
#include "tools/fabring/launch/rank_group.hpp"
#include "tools/fabring/launch/reserved_port.hpp"
#include "tools/fabring/launch/signal_source.hpp"
#include "topology/cores.hpp"
#include "topology/cpus.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;

// What ranks leave outside their process groups (setsid) is ended with them, as an agent does. `not_ranks` are the
// launcher's own children, and those that it had before it was one (`job & exec fabring run ...` in a script).
class StrayEnd {
 public:
  explicit StrayEnd(const std::vector<pid_t>& not_ranks) : not_ranks_(not_ranks) {}
  StrayEnd(const StrayEnd&) = delete;
  StrayEnd& operator=(const StrayEnd&) = delete;
  ~StrayEnd() { end_children(end_of_strays, not_ranks_); }

 private:
  const std::vector<pid_t>& not_ranks_;
};

// One attempt: all ranks from start to end.
class LocalAttempt final : RankEvents {
 public:
  LocalAttempt(const JobOptions& options, std::optional<Clock::time_point> until, SignalSource& signals,
               Lifeline& lifeline, JobOutput& output, const std::vector<pid_t>& not_ranks)
      : options_(options),
        until_(until),
        signals_(signals),
        output_(output),
        not_ranks_(not_ranks),
        group_(lifeline),
        supervisor_(supervisor_options()) {}

  Status start(const Environment& environment, const std::string& job_id, int port, bool stdin_is_ours) {
    const auto nodes = numa_nodes();
    const auto cpus = core_bindings(options_.binding, options_.ranks, cores_of(affinity_cpus(), nodes), nodes);
    for (int rank = 0; rank < options_.ranks; ++rank) {
      ChildStart start;
      start.command = options_.command;
      start.cpus = cpus[static_cast<std::size_t>(rank)];
      start.input = rank == 0 && stdin_is_ours ? STDIN_FILENO : -1;
      start.environment = environment;
      set_place({rank, rank, options_.ranks, "127.0.0.1", port, job_id}, start.environment);
      if (options_.nodes > 1)
        start.environment["FABRING_HOST_ID"] = pretended_node(rank, options_.ranks, options_.nodes);
      FABRING_TRY(group_.start(rank, start));
    }
    return {};
  }

  /// The first bad end's code, or 0.
  int run() {
    while (supervisor_.running() > 0) {
      turn(supervisor_.deadline().value_or(Clock::time_point::max()));
      group_.look_for_ends(*this);
      supervisor_.act_on_deadlines(Clock::now());
    }
    // What the ranks started and left behind may still be printing (a tee at the end of a pipeline): give it a moment.
    const auto drain_until = Clock::now() + std::chrono::seconds(1);
    while (group_.has_open_output() && Clock::now() < drain_until) turn(drain_until);
    record_ends(options_, supervisor_);
    output_.end_lines();
    while (!output_.empty()) turn(until_.value_or(Clock::time_point::max()));
    if (supervisor_.first_was_killed() && !supervisor_.interrupted())
      return options_.code_if_killed.value_or(supervisor_.code());
    if (supervisor_.code() != 0 || !output_.dropped()) return supervisor_.code();
    return last_signal_ != 0 ? 128 + last_signal_ : exit_timed_out;
  }

  bool ended_for_good() const { return supervisor_.ended_for_good(); }

 private:
  SupervisorOptions supervisor_options() {
    SupervisorOptions options;
    options.until = until_;
    options.ranks = options_.ranks;
    options.grace = options_.grace;
    options.term_grace = options_.term_grace;
    options.signal_all = [this](int number) { group_.signal(number); };
    options.say = [this](const std::string& text) { output_.say(text); };
    return options;
  }

  // Waits for signals and output, and passes both on.
  void turn(Clock::time_point until) {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    output_.watch(polled);
    group_.watch(polled, output_.room(OutputStream::out), output_.room(OutputStream::err));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(until, output_.deadline()) - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) < 0)
      return;
    group_.read(std::span(polled).subspan(1 + JobOutput::polled_entries), *this);
    while (const std::optional<int> number = signals_.next())
      if (*number == SIGCHLD)
        reap_strays();  // of the ranks look_for_ends() learns, after every turn
      else
        take(*number);
    if (supervisor_.interrupted() || (until_ && Clock::now() >= *until_)) output_.hurry();
    if (const std::optional<int> error = output_.flush()) supervisor_.output_lost(*error);
    if (supervisor_.running() == 0 && signals_taken_ > 1) output_.give_up();
  }

  void reap_strays() {
    std::vector<pid_t> own = group_.pids();
    own.insert(own.end(), not_ranks_.begin(), not_ranks_.end());
    reap_adopted(own);
  }

  void take(int number) {
    if (is_for_the_program(number)) return supervisor_.pass_on(number);
    last_signal_ = number;
    ++signals_taken_;
    supervisor_.interrupt(number);
  }

  void rank_output(int rank, OutputStream stream, std::string_view bytes) override {
    output_.rank_printed(rank, stream, bytes);
  }

  void rank_ended(int rank, pid_t pid, const Ending& ending) override {
    supervisor_.ended(rank, pid, ending, Clock::now());
  }

  const JobOptions& options_;
  const std::optional<Clock::time_point> until_;  // when the time of the job is up
  SignalSource& signals_;
  JobOutput& output_;
  const std::vector<pid_t>& not_ranks_;
  RankGroup group_;
  JobSupervisor supervisor_;
  int signals_taken_ = 0, last_signal_ = 0;
};

}  // namespace

std::optional<Clock::time_point> end_of_time(const JobOptions& options) {
  return options.timeout.count() > 0 ? std::optional(Clock::now() + options.timeout) : std::nullopt;
}

void record_attempt(const JobOptions& options, int attempt, const std::string& job_id) {
  if (options.record == nullptr) return;
  *options.record = {};  // of the one before, should this one not get as far
  options.record->attempts = attempt + 1;
  options.record->job_id = job_id;
}

void record_ends(const JobOptions& options, const JobSupervisor& supervisor) {
  if (options.record == nullptr) return;
  options.record->ends = supervisor.ends();
  options.record->first = supervisor.first();
  if (options.record->error.empty()) options.record->error = supervisor.why();
}

std::string random_job_id() {
  std::random_device source;
  return fmt::format("run-{:08x}{:08x}", source(), source());
}

Result<int> run_local_job(const JobOptions& options, const Environment& environment) {
  allow_open_files(static_cast<std::size_t>(options.ranks) * ChildProcess::descriptors);
  std::vector<pid_t> not_ranks = children();
  adopt_orphans();
  auto lifeline = Lifeline::start();
  if (!lifeline) return lifeline.error();
  not_ranks.push_back(lifeline->keeper());
  auto signals = SignalSource::open({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  if (!signals) return signals.error();
  auto port = reserve_port(PortScope::loopback);
  if (!port) return port.error();
  // A process group in the background that reads the terminal is stopped; anything else may be read.
  const bool stdin_is_ours = ::isatty(STDIN_FILENO) == 0;
  const std::string job_id = options.job_id.empty() ? random_job_id() : options.job_id;
  const auto until = end_of_time(options);
  JobOutput output(options.name, options.ranks, options.style);
  for (int attempt = 0;; ++attempt) {
    int code = 0;
    {
      const StrayEnd after_the_ranks(not_ranks);
      LocalAttempt ranks(options, until, *signals, *lifeline, output, not_ranks);
      // Stragglers of the last attempt have another identity and are turned away.
      const std::string id = attempt == 0 ? job_id : fmt::format("{}.{}", job_id, attempt);
      record_attempt(options, attempt, id);
      FABRING_TRY(ranks.start(environment, id, port->port, stdin_is_ours));
      code = ranks.run();
      if (code == 0 || ranks.ended_for_good() || attempt >= options.restarts) return code;
    }
    output.say(fmt::format("starting all ranks again ({} of {} restarts)", attempt + 1, options.restarts));
  }
}

}  // namespace fabring::tools
