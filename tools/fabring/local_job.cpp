#include "tools/fabring/local_job.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "tools/fabring/command.hpp"
#include "tools/fabring/lifeline.hpp"
#include "tools/fabring/rank_process.hpp"
#include "topology/cpus.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;

Status failed(const std::string& what) { return {ErrorCode::unavailable, what + ": " + std::strerror(errno)}; }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// A port for the meeting point that nobody else gets: bound, with SO_REUSEADDR, and not listened on. Linux then gives
// it to no outgoing connection and to no bind to port 0, yet rank 0's listener, which sets SO_REUSEADDR too, may have
// it.
struct ReservedPort {
  Descriptor socket;
  int port;
};
Result<ReservedPort> reserve_port() {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return failed("cannot get a port on 127.0.0.1 for the ranks to meet (is the loopback interface up?)");
  return ReservedPort{std::move(socket), ntohs(address.sin_port)};
}

std::string random_id() {
  std::random_device source;
  return fmt::format("run-{:08x}{:08x}", source(), source());
}

struct Rank {
  RankProcess process;
  OutputLines output, errors;
  bool ended = false;
};

// One attempt: all ranks from start to end.
class Attempt {
 public:
  Attempt(const JobOptions& options, int signals, Lifeline& lifeline)
      : options_(options), signals_(signals), lifeline_(lifeline) {}

  Status start(const Environment& environment, const std::string& job_id, int port, bool stdin_is_ours) {
    const auto cpus = bindings(options_.binding, options_.ranks, affinity_cpus(), numa_nodes());
    ranks_.reserve(static_cast<std::size_t>(options_.ranks));
    for (int rank = 0; rank < options_.ranks; ++rank) {
      RankStart start;
      start.command = options_.command;
      start.cpus = cpus[static_cast<std::size_t>(rank)];
      start.takes_stdin = rank == 0 && stdin_is_ours;
      start.environment = environment;
      start.environment["FABRING_RANK"] = std::to_string(rank);
      start.environment["FABRING_LOCAL_RANK"] = std::to_string(rank);
      start.environment["FABRING_WORLD_SIZE"] = std::to_string(options_.ranks);
      start.environment["FABRING_MASTER_ADDR"] = "127.0.0.1";
      start.environment["FABRING_MASTER_PORT"] = std::to_string(port);
      start.environment["FABRING_JOB_ID"] = job_id;
      if (options_.nodes > 1)
        start.environment["FABRING_HOST_ID"] =
            fmt::format("node{}", std::int64_t{rank} * options_.nodes / options_.ranks);
      auto process = RankProcess::start(start);
      if (!process) return process.error().with_prefix(fmt::format("rank {}: ", rank));
      lifeline_.entrust(process->pid());
      ranks_.push_back({std::move(*process), OutputLines(rank, options_.style), OutputLines(rank, options_.style)});
    }
    return {};
  }

  ~Attempt() {
    for (Rank& rank : ranks_) {
      const pid_t group = rank.process.pid();
      rank.process.finish();
      if (group > 0) lifeline_.release(group);
    }
  }

  /// The first bad end's code, or 0.
  int run() {
    while (running() > 0) {
      turn(next_deadline());
      look_for_ends();
      act_on_deadlines();
    }
    // What the ranks started and left behind may still be printing (a tee at the end of a pipeline): give it a moment.
    const auto drain_until = Clock::now() + std::chrono::seconds(1);
    while (streams_open() && Clock::now() < drain_until) turn(drain_until);
    for (Rank& rank : ranks_) {
      forward(STDOUT_FILENO, rank.output.finish());
      forward(STDERR_FILENO, rank.errors.finish());
    }
    return code_;
  }

  bool interrupted() const { return interrupts_ > 0; }

 private:
  std::size_t running() const {
    return static_cast<std::size_t>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.ended; }));
  }
  bool streams_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& r) { return r.process.output() >= 0 || r.process.errors() >= 0; });
  }
  Clock::time_point next_deadline() const { return deadline_.value_or(Clock::now() + std::chrono::hours(1)); }

  void forward(int fd, const std::string& text) {
    if (text.empty() || !listening_) return;
    // Nobody reads our output any more (`| head`): end as a program in a pipe does, and the ranks with us.
    if (!write_all(fd, text)) {
      listening_ = false;
      if (code_ == 0) code_ = 128 + SIGPIPE;
      signal_all(SIGKILL);
    }
  }

  // Waits for signals and output, and passes both on.
  void turn(Clock::time_point until) {
    std::vector<pollfd> polled{{signals_, POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      polled.push_back({rank.process.output(), POLLIN, 0});  // poll skips negative ones
      polled.push_back({rank.process.errors(), POLLIN, 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000))) <= 0)
      return;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (polled[1 + 2 * i].revents != 0 && !pump(rank.process.output(), STDOUT_FILENO, rank.output))
        rank.process.close_output();
      if (polled[2 + 2 * i].revents != 0 && !pump(rank.process.errors(), STDERR_FILENO, rank.errors))
        rank.process.close_errors();
    }
    if (polled[0].revents != 0) take_signals();
  }

  bool pump(int from, int to, OutputLines& lines) {
    char bytes[65536];
    const ssize_t got = ::read(from, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    forward(to, lines.take({bytes, static_cast<std::size_t>(got)}));
    return true;
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;  // look_for_ends() follows every turn
      if (++interrupts_ > 1) {
        complain(options_.name, fmt::format("second signal ({}): killing {} ranks", ::strsignal(number), running()));
        signal_all(SIGKILL);
      } else {
        complain(options_.name,
                 fmt::format("{}: passed on to {} ranks; once more kills them", ::strsignal(number), running()));
        signal_all(number);
      }
    }
  }

  void look_for_ends() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (rank.ended) continue;
      const std::optional<Ending> ending = rank.process.ending();
      if (!ending) continue;
      rank.ended = true;
      if (ending->fine() || code_ != 0) continue;
      code_ = ending->code();
      complain(options_.name, fmt::format("rank {} (pid {}) {}", i, rank.process.pid(), ending->to_string()));
      deadline_ = Clock::now() + options_.grace;
    }
  }

  void act_on_deadlines() {
    if (!deadline_ || Clock::now() < *deadline_ || running() == 0) return;
    std::string who;
    int named = 0;
    for (std::size_t i = 0; i < ranks_.size() && named < 8; ++i)
      if (!ranks_[i].ended) who += fmt::format("{}{}", named++ == 0 ? "" : ", ", i);
    if (running() > 8) who += ", ...";
    complain(options_.name, fmt::format("{} of {} ranks still run ({}): {} them", running(), ranks_.size(), who,
                                        termed_ ? "killing" : "terminating"));
    signal_all(termed_ ? SIGKILL : SIGTERM);
    if (!termed_) signal_all(SIGCONT);  // a stopped process takes no TERM
    termed_ = true;
    deadline_ = Clock::now() + options_.term_grace;
  }

  void signal_all(int number) {
    for (Rank& rank : ranks_)
      if (!rank.ended) rank.process.signal(number);
  }

  const JobOptions& options_;
  int signals_;
  Lifeline& lifeline_;
  std::vector<Rank> ranks_;
  std::optional<Clock::time_point> deadline_;
  bool termed_ = false;
  bool listening_ = true;
  int interrupts_ = 0;
  int code_ = 0;
};

}  // namespace

Result<int> run_local_job(const JobOptions& options, const Environment& environment) {
  auto lifeline = Lifeline::start();
  if (!lifeline) return lifeline.error();
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t handled;
  ::sigemptyset(&handled);
  for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&handled, number);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  const Descriptor signals(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals.fd() < 0) return failed("cannot receive signals");
  auto port = reserve_port();
  if (!port) return port.error();
  // A process group in the background that reads the terminal is stopped; anything else may be read.
  const bool stdin_is_ours = ::isatty(STDIN_FILENO) == 0;
  const std::string job_id = options.job_id.empty() ? random_id() : options.job_id;
  for (int attempt = 0;; ++attempt) {
    int code = 0;
    {
      Attempt ranks(options, signals.fd(), *lifeline);
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
