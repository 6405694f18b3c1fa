#include "tools/fabring/local_job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include "tools/fabring/command.hpp"
#include "tools/fabring/job_supervisor.hpp"
#include "tools/fabring/rank_group.hpp"
#include "tools/fabring/reserved_port.hpp"
#include "tools/fabring/signal_source.hpp"
#include "topology/cpus.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;

// One attempt: all ranks from start to end.
class LocalAttempt final : RankEvents {
 public:
  LocalAttempt(const JobOptions& options, std::optional<Clock::time_point> until, SignalSource& signals,
               Lifeline& lifeline)
      : options_(options), signals_(signals), group_(lifeline), supervisor_(supervisor_options(until)) {}

  Status start(const Environment& environment, const std::string& job_id, int port, bool stdin_is_ours) {
    const auto cpus = bindings(options_.binding, options_.ranks, affinity_cpus(), numa_nodes());
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
      streams_.push_back({OutputLines(rank, options_.style), OutputLines(rank, options_.style)});
    }
    return {};
  }

  /// The first bad end's code, or 0.
  int run() {
    while (supervisor_.running() > 0) {
      turn(supervisor_.deadline().value_or(Clock::now() + std::chrono::hours(1)));
      group_.look_for_ends(*this);
      supervisor_.act_on_deadlines(Clock::now());
    }
    // What the ranks started and left behind may still be printing (a tee at the end of a pipeline): give it a moment.
    const auto drain_until = Clock::now() + std::chrono::seconds(1);
    while (group_.has_open_output() && Clock::now() < drain_until) turn(drain_until);
    for (Streams& streams : streams_) {
      forward(STDOUT_FILENO, streams.out.finish());
      forward(STDERR_FILENO, streams.err.finish());
    }
    return supervisor_.code();
  }

  bool interrupted() const { return supervisor_.interrupted(); }

 private:
  struct Streams {
    OutputLines out, err;
  };

  SupervisorOptions supervisor_options(std::optional<Clock::time_point> until) {
    SupervisorOptions options;
    options.until = until;
    options.ranks = options_.ranks;
    options.grace = options_.grace;
    options.term_grace = options_.term_grace;
    options.signal_all = [this](int number) { group_.signal(number); };
    options.say = [this](const std::string& text) { complain(options_.name, text); };
    return options;
  }

  // Waits for signals and output, and passes both on.
  void turn(Clock::time_point until) {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    group_.watch(polled);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) <= 0)
      return;
    group_.read(std::span(polled).subspan(1), *this);
    while (const std::optional<int> number = signals_.next())
      if (*number != SIGCHLD) supervisor_.interrupt(*number);  // look_for_ends() follows every turn
  }

  void rank_output(int rank, OutputStream stream, std::string_view bytes) override {
    Streams& streams = streams_[static_cast<std::size_t>(rank)];
    if (stream == OutputStream::out)
      forward(STDOUT_FILENO, streams.out.take(bytes));
    else
      forward(STDERR_FILENO, streams.err.take(bytes));
  }

  void rank_ended(int rank, pid_t pid, const Ending& ending) override {
    supervisor_.ended(rank, pid, ending, Clock::now());
  }

  void forward(int fd, const std::string& text) {
    if (text.empty() || !listening_) return;
    if (write_all(fd, text)) return;
    listening_ = false;
    supervisor_.output_lost(errno);
  }

  const JobOptions& options_;
  SignalSource& signals_;
  RankGroup group_;
  std::vector<Streams> streams_;
  JobSupervisor supervisor_;
  bool listening_ = true;
};

}  // namespace

std::optional<Clock::time_point> end_of_time(const JobOptions& options) {
  return options.timeout.count() > 0 ? std::optional(Clock::now() + options.timeout) : std::nullopt;
}

std::string random_job_id() {
  std::random_device source;
  return fmt::format("run-{:08x}{:08x}", source(), source());
}

Result<int> run_local_job(const JobOptions& options, const Environment& environment) {
  auto lifeline = Lifeline::start();
  if (!lifeline) return lifeline.error();
  auto signals = SignalSource::open({SIGCHLD, SIGINT, SIGTERM, SIGHUP});
  if (!signals) return signals.error();
  auto port = reserve_port(PortScope::loopback);
  if (!port) return port.error();
  // A process group in the background that reads the terminal is stopped; anything else may be read.
  const bool stdin_is_ours = ::isatty(STDIN_FILENO) == 0;
  const std::string job_id = options.job_id.empty() ? random_job_id() : options.job_id;
  const auto until = end_of_time(options);
  for (int attempt = 0;; ++attempt) {
    int code = 0;
    {
      LocalAttempt ranks(options, until, *signals, *lifeline);
      // Stragglers of the last attempt have another identity and are turned away.
      const std::string id = attempt == 0 ? job_id : fmt::format("{}.{}", job_id, attempt);
      FABRING_TRY(ranks.start(environment, id, port->port, stdin_is_ours));
      code = ranks.run();
      if (code == 0 || ranks.interrupted() || attempt >= options.restarts) return code;
    }
    complain(options.name, fmt::format("starting all ranks again ({} of {} restarts)", attempt + 1, options.restarts));
  }
}

}  // namespace fabring::tools
