#include "tools/fabring/launch/hosts_job.hpp"
#include "tools/fabring/launch/hosts_environment.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "runtime/bootstrap/master_address.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/launch/host_link.hpp"
#include "tools/fabring/launch/job_output.hpp"
#include "tools/fabring/launch/job_supervisor.hpp"
#include "tools/fabring/launch/open_files.hpp"
#include "tools/fabring/launch/remote_shell.hpp"
#include "tools/fabring/launch/signal_source.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using State = HostLink::State;

constexpr std::uint32_t input_window = 256 << 10;  // of stdin, on its way to rank 0
constexpr auto farewell = 3s;                      // for agents to end by themselves

constexpr auto time_to_resolve = 5s;  // a name that may be this host's

bool is_own_address(const std::string& host) { return is_numeric_address(host) && is_local_address({host, 0}); }

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> found;
  if (const auto addresses = resolve_until(host, 0, Clock::now() + time_to_resolve))
    for (const net::SocketAddress& address : *addresses) found.push_back(address.host);
  return found;
}

// One attempt: agents on all hosts, from their start to their end.
class HostsAttempt final : HostEvents {
 public:
  HostsAttempt(const HostsJobOptions& options, std::optional<Clock::time_point> until, SignalSource& signals,
               Lifeline& lifeline, JobOutput& output)
      : options_(options),
        until_(until),
        signals_(signals),
        lifeline_(lifeline),
        output_(output),
        supervisor_(supervisor_options()),
        input_fd_(::isatty(STDIN_FILENO) == 0 ? STDIN_FILENO : -1) {}

  /// The first bad end's code, or 0.
  Result<int> run(const Environment& environment, const std::string& own_path, const std::string& job_id) {
    FABRING_TRY(connect(environment, own_path));
    const bool started = wait_for_agents() && order_ranks(job_id);
    while (started && !all_over()) {
      turn(next_deadline());
      supervisor_.act_on_deadlines(Clock::now());
    }
    say_goodbye();
    record_ends(options_.job, supervisor_);
    return code();
  }

  /// Ended by somebody, or by what would be the same another time; a host that cannot be reached may be back then.
  bool ended_for_good() const {
    return interrupted() || hopeless_ || supervisor_.ended_for_good() ||
           std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->could_not_start(); });
  }

 private:
  bool interrupted() const { return signals_taken_ > 0 || start_code_ == exit_timed_out || supervisor_.interrupted(); }

  SupervisorOptions supervisor_options() {
    SupervisorOptions supervisor;
    supervisor.ranks = options_.job.ranks;
    supervisor.until = until_;
    supervisor.grace = options_.job.grace;
    supervisor.term_grace = options_.job.term_grace;
    supervisor.signal_all = [this](int number) {
      for (auto& link : links_) link->send(ToAgent::signal, encode_count(static_cast<std::uint32_t>(number)));
    };
    supervisor.who = [this](int rank) {
      for (const HostShare& share : options_.hosts)
        if (rank < share.first + share.count) return fmt::format("rank {} on host {}", rank, share.name);
      return fmt::format("rank {}", rank);
    };
    supervisor.say = [this](const std::string& text) { host_said(text); };
    return supervisor;
  }

  int code() const {
    if (start_code_ != 0) return start_code_;
    if (supervisor_.code() != 0 || !output_.dropped()) return supervisor_.code();
    return last_signal_ != 0 ? 128 + last_signal_ : exit_timed_out;
  }

  // ---- start

  Status connect(const Environment& environment, const std::string& own_path) {
    const std::string own_name = host_name();
    const std::string there = options_.remote_fabring.empty() ? own_path : options_.remote_fabring;
    std::vector<bool> here;
    const HostShare* first_here = nullptr;
    for (const HostShare& share : options_.hosts) {
      here.push_back(is_this_host(share.name, own_name, is_own_address, addresses_of));
      if (!here.back()) continue;
      if (first_here)
        return Status(ErrorCode::invalid_argument,
                      fmt::format("'{}' and '{}' both name this host ({}): name each host once, with all its ranks",
                                  first_here->name, share.name, own_name));
      first_here = &share;
    }
    for (std::size_t i = 0; i < options_.hosts.size(); ++i) {
      const HostShare& share = options_.hosts[i];
      HostContact contact{share, {own_path, "agent"}, own_path, false};
      if (!here[i]) contact = {share, ssh_command(options_.ssh, share.name, there), there, true};
      auto link = HostLink::open(std::move(contact), environment, lifeline_);
      if (!link) return link.error();
      links_.push_back(std::move(*link));
    }
    return {};
  }

  // False when the job cannot start: every host that does not answer has been named, not only the first.
  bool wait_for_agents() {
    const auto until = std::min(Clock::now() + options_.patience, until_.value_or(Clock::time_point::max()));
    const auto starting = [](const auto& link) { return link->state() == State::starting; };
    while (std::any_of(links_.begin(), links_.end(), starting) && !interrupted() && Clock::now() < until) turn(until);
    if (interrupted()) {
      start_code_ = 128 + last_signal_;
      return false;
    }
    int missing = 0;
    for (auto& link : links_) {
      if (starting(link)) link->give_up();
      if (link->state() != State::lost) continue;
      ++missing;
      no_job(link->failure());
    }
    if (missing == 0) return true;
    if (links_.size() > 1)
      no_job(fmt::format("{} of {} hosts cannot be used; nothing was started", missing, links_.size()));
    const bool time_is_up = until_ && Clock::now() >= *until_;
    if (time_is_up) no_job(std::string(says_time_is_up));
    start_code_ = time_is_up ? exit_timed_out : exit_could_not_run;
    return false;
  }

  void no_job(const std::string& why) {
    host_said(why);
    record_error(why);
  }

  void record_error(const std::string& why) {
    if (JobRecord* record = options_.job.record) record->error += (record->error.empty() ? "" : "; ") + why;
  }

  bool order_ranks(const std::string& job_id) {
    std::vector<MeetingHost> hosts;
    for (const auto& link : links_) hosts.push_back({link->share().name, link->contact().over_ssh, link->facts()});
    const auto is_here = [](const std::string& at) { return is_local_address({at, 0}); };
    auto address =
        options_.master_addr.empty() ? meeting_address(hosts, is_here) : Result<std::string>(options_.master_addr);
    if (!address) {
      no_job(address.error().message());
      start_code_ = exit_could_not_run;
      hopeless_ = true;
      return false;
    }
    for (auto& link : links_) {
      StartOrder order;
      order.job_id = job_id;
      order.master_addr = *address;
      order.master_port = links_.front()->facts().free_port;
      order.directory = options_.directory;
      order.world_size = options_.job.ranks;
      order.first_rank = link->share().first;
      order.ranks = link->share().count;
      order.command = options_.job.command;
      order.environment = options_.exported;
      order.binding = options_.job.binding;
      order.input_follows = link == links_.front() && input_fd_ >= 0;
      order.secret = options_.secret;
      order.silence = options_.silence;
      link->order(order);
    }
    ordered_ = true;
    beat_ = Clock::now();
    return true;
  }

  // ---- while they run

  bool all_over() const {
    return std::all_of(links_.begin(), links_.end(), [](const auto& link) {
      return link->state() == State::finished || link->state() == State::lost;
    });
  }

  Clock::time_point next_deadline() const {
    return std::min(supervisor_.deadline().value_or(Clock::time_point::max()), beat_ + options_.silence / 5);
  }

  // Waits for signals, input and hosts, and passes everything on.
  void turn(Clock::time_point until) {
    const bool room = output_.room(OutputStream::out) && output_.room(OutputStream::err);
    const bool feeding = input_fd_ >= 0 && links_.front()->state() == State::running && in_flight_ < input_window;
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}, {feeding ? input_fd_ : -1, POLLIN, 0}};
    output_.watch(polled);
    const std::size_t own = polled.size();
    for (const auto& link : links_) link->watch(polled, room);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) < 0) return;
    if (take_signals()) return;  // what poll() saw is old
    const auto now = Clock::now();
    for (std::size_t i = 0; i < links_.size(); ++i)
      links_[i]->serve(std::span(polled).subspan(own + i * HostLink::polled_entries, HostLink::polled_entries), now,
                       *this);
    if (polled[1].revents != 0) feed();
    for (auto& link : links_) link->check(now, options_.silence, room);
    if (ordered_) look_for_losses(now);
    beat(now);
    flush();
  }

  // True when the job was suspended meanwhile.
  bool take_signals() {
    bool suspended = false;
    while (const std::optional<int> number = signals_.next()) {
      if (*number == SIGCHLD) continue;
      if (*number == SIGTSTP) {
        suspend();
        suspended = true;
        continue;
      }
      if (is_for_the_program(*number)) {
        if (ordered_) supervisor_.pass_on(*number);
        continue;
      }
      last_signal_ = *number;
      ++signals_taken_;
      if (ordered_) supervisor_.interrupt(*number);
      if (signals_taken_ > 2)  // a host does not even follow a KILL: leave it to its agent, which misses us
        for (auto& link : links_) link->give_up("given up at the third signal");
    }
    return suspended;
  }

  // ^Z: the ranks go on, and our silence means nothing until we are continued.
  void suspend() {
    for (auto& link : links_) {
      link->send(ToAgent::pause);
      link->flush();
    }
    ::raise(SIGSTOP);
  }

  void look_for_losses(Clock::time_point now) {
    for (auto& link : links_) {
      const HostShare& share = link->share();
      if (link->state() != State::lost || !reported_.insert(share.first).second) continue;
      std::vector<int> ranks(static_cast<std::size_t>(share.count));
      std::iota(ranks.begin(), ranks.end(), share.first);
      supervisor_.lost(ranks, link->failure(), exit_could_not_run, now);
      if (!link->could_not_start()) continue;
      record_error(link->failure());
      supervisor_.give_up(exit_could_not_run);
    }
  }

  void beat(Clock::time_point now) {
    if (!ordered_ || now < beat_ + options_.silence / 5) return;
    beat_ = now;
    for (auto& link : links_) {
      link->send(ToAgent::beat);
      link->flush();
    }
  }

  // Our stdin, on to rank 0, which is on the first host.
  void feed() {
    char bytes[65536];
    const ssize_t got = ::read(input_fd_, bytes, std::min<std::size_t>(sizeof(bytes), input_window - in_flight_));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got > 0) {
      links_.front()->send(ToAgent::input, {bytes, static_cast<std::size_t>(got)});
      in_flight_ += static_cast<std::uint32_t>(got);
    } else {
      links_.front()->send(ToAgent::input_end);
      input_fd_ = -1;
    }
    links_.front()->flush();
  }
  void input_taken(std::uint32_t bytes) override { in_flight_ -= std::min(bytes, in_flight_); }

  void rank_output(int rank, OutputStream stream, std::string_view bytes) override {
    output_.rank_printed(rank, stream, bytes);
  }
  void rank_ended(int rank, pid_t pid, const Ending& ending) override {
    supervisor_.ended(rank, pid, ending, Clock::now());
  }
  void host_said(const std::string& line) override { output_.say(line); }

  void flush() {
    if (interrupted() || (until_ && Clock::now() >= *until_)) output_.hurry();
    if (const std::optional<int> error = output_.flush()) supervisor_.output_lost(*error);
  }

  // ---- end

  // Lets the agents end by themselves and brings out what was printed last.
  void say_goodbye() {
    output_.end_lines();
    for (auto& link : links_) link->close_input();
    const auto until = Clock::now() + farewell;
    const auto open = [](const auto& link) { return link->state() != State::lost && !link->closed(); };
    const int taken = signals_taken_;
    while ((!output_.empty() || (std::any_of(links_.begin(), links_.end(), open) && Clock::now() < until)) &&
           signals_taken_ < taken + 2)
      turn(Clock::now() + 100ms);
  }

  const HostsJobOptions& options_;
  const std::optional<Clock::time_point> until_;  // when the time of the job is up
  SignalSource& signals_;
  Lifeline& lifeline_;
  JobOutput& output_;
  std::vector<std::unique_ptr<HostLink>> links_;
  JobSupervisor supervisor_;
  int input_fd_;
  std::uint32_t in_flight_ = 0;  // bytes of input that rank 0 has not taken yet
  std::set<int> reported_;       // first ranks of lost hosts
  Clock::time_point beat_ = Clock::now();
  bool ordered_ = false, hopeless_ = false;
  int signals_taken_ = 0, last_signal_ = 0;
  int start_code_ = 0;
};

Result<std::string> own_path() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return Status(ErrorCode::unavailable, "cannot find the program's own file (/proc/self/exe)");
  path.resize(static_cast<std::size_t>(length));
  return path;
}

}  // namespace

Result<int> run_hosts_job(const HostsJobOptions& options, const Environment& environment) {
  allow_open_files(options.hosts.size() * (ChildProcess::descriptors + 1));  // and one for what it is told
  auto path = own_path();
  if (!path) return path.error();
  auto lifeline = Lifeline::start();
  if (!lifeline) return lifeline.error();
  auto signals = SignalSource::open({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2});
  if (!signals) return signals.error();
  const std::string job_id = options.job.job_id.empty() ? random_job_id() : options.job.job_id;
  const auto until = end_of_time(options.job);
  JobOutput output(options.job.name, options.job.ranks, options.job.style);
  for (int attempt = 0;; ++attempt) {
    {
      HostsAttempt ranks(options, until, *signals, *lifeline, output);
      // Stragglers of the last attempt have another identity and are turned away.
      const std::string id = attempt == 0 ? job_id : fmt::format("{}.{}", job_id, attempt);
      record_attempt(options.job, attempt, id);
      auto code = ranks.run(environment, *path, id);
      if (!code || *code == 0 || ranks.ended_for_good() || attempt >= options.job.restarts) return code;
    }
    output.say(fmt::format("starting all ranks again ({} of {} restarts)", attempt + 1, options.job.restarts));
  }
}

}  // namespace fabring::tools
