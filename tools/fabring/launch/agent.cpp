#include "tools/fabring/launch/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "fabring/version.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/errno_status.hpp"
#include "tools/fabring/launch/adopted_children.hpp"
#include "tools/fabring/launch/agent_wire.hpp"
#include "tools/fabring/launch/open_files.hpp"
#include "tools/fabring/launch/output_queue.hpp"
#include "tools/fabring/launch/reserved_port.hpp"
#include "tools/fabring/launch/signal_source.hpp"
#include "topology/cores.hpp"
#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto wait_for_order = 120s;                // the launcher waits for the slowest host
constexpr auto orphans_grace = 1s;                   // from TERM to KILL when the launcher is gone
constexpr std::size_t most_queued_output = 1 << 20;  // of output; above it the ranks wait

// "client port server port", as sshd tells.
void read_connection(AgentFacts& facts) {
  const char* text = std::getenv("SSH_CONNECTION");
  char from[64], at[64];
  if (text == nullptr || std::sscanf(text, "%63s %*s %63s", from, at) != 2) return;
  if (is_numeric_address(from)) facts.reached_from = from;
  if (is_numeric_address(at)) facts.reached_at = at;
}

// A file in memory: it is on no disk and in no directory, and it is gone with the agent.
Result<Descriptor> secret_in_memory(const std::string& secret) {
  Descriptor file(::memfd_create("fabring-secret", MFD_CLOEXEC));
  if (file.fd() < 0 || ::fchmod(file.fd(), 0600) != 0 ||
      ::write(file.fd(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    return because_of_errno("cannot keep the secret in memory");
  return file;
}

class Agent final : RankEvents {
 public:
  Agent(SignalSource signals, Lifeline lifeline, ReservedPort port)
      : signals_(std::move(signals)), lifeline_(std::move(lifeline)), port_(std::move(port)), group_(lifeline_) {}

  int run() {
    AgentFacts facts;
    facts.host_name = host_name();
    facts.free_port = port_.port;
    read_connection(facts);
    out_.add(greeting_line(FABRING_VERSION));
    say(FromAgent::ready, facts.encode());
    while (!over_) {
      turn();
      group_.look_for_ends(*this);
      act_on_time();
    }
    return orphaned_ ? exit_could_not_run : exit_fine;
  }

 private:
  void say(FromAgent type, std::string_view payload) {
    if (!orphaned_) out_.add(encode_frame(type, payload));
  }

  void turn() {
    const bool room = out_.size() < most_queued_output;
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0},
                               {orphaned_ ? -1 : STDIN_FILENO, POLLIN, 0},
                               {orphaned_ ? -1 : out_.waiting_fd(), POLLOUT, 0},
                               {input_.waiting_fd(), POLLOUT, 0}};
    constexpr std::size_t own = 4;
    group_.watch(polled, room, room);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_deadline() - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000))) < 0) return;
    group_.read(std::span(polled).subspan(own), *this);
    if (polled[1].revents != 0) listen();
    if (polled[3].revents != 0) feed();
    if (!orphaned_ && !out_.flush()) orphan("nobody reads what the ranks print");
    while (const std::optional<int> number = signals_.next()) {
      if (*number == SIGCHLD)
        reap_adopted(own_children());
      else if (is_for_the_program(*number))
        group_.signal(*number);
      else if (!kill_at_)
        terminate();
    }
  }

  std::vector<pid_t> own_children() const {
    std::vector<pid_t> own = group_.pids();
    own.push_back(lifeline_.keeper());
    return own;
  }

  Clock::time_point next_deadline() const {
    Clock::time_point next = heard_ + silence_;
    if (started_) next = std::min(next, beat_ + silence_ / 5);
    if (kill_at_) next = std::min(next, *kill_at_);
    if (drain_until_) next = std::min(next, *drain_until_);
    return next;
  }

  void act_on_time() {
    const auto now = Clock::now();
    if (kill_at_ && now >= *kill_at_) {
      group_.signal(SIGKILL);
      kill_at_ = now + 1h;
    }
    if (!orphaned_ && now >= heard_ + silence_) {
      if (paused_)
        heard_ = now;
      else
        orphan(fmt::format("nothing was heard from the launcher for {} s",
                           std::chrono::duration_cast<std::chrono::seconds>(silence_).count()));
    }
    if (started_ && !orphaned_ && now >= beat_ + silence_ / 5) {
      say(FromAgent::beat, {});
      beat_ = now;
      reap_adopted(own_children());  // SIGCHLD may have gone to a thread of a library
    }
    if (!started_ || group_.running() > 0) return;
    if (orphaned_) {
      over_ = true;
      return;
    }
    // What the ranks left behind may still be printing: give it a moment.
    if (!drain_until_) drain_until_ = now + 1s;
    if (!finished_ && (!group_.has_open_output() || now >= *drain_until_)) {
      finished_ = true;
      say(FromAgent::finished, {});
      drain_until_ = now + 1h;
    }
  }

  void listen() {
    char bytes[65536];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      orphan("the launcher is gone");
      return;
    }
    heard_ = Clock::now();
    paused_ = false;
    in_.add({bytes, static_cast<std::size_t>(got)});
    while (const std::optional<Frame> frame = in_.next())
      if (Status status = obey(*frame); !status) say(FromAgent::failed, status.message());
    if (in_.broken()) orphan("what comes from the launcher cannot be understood");
  }

  Status obey(const Frame& frame) {
    switch (static_cast<ToAgent>(frame.type)) {
      case ToAgent::start:
        return start(frame.payload);
      case ToAgent::signal: {
        auto number = decode_count(frame.payload);
        if (!number || *number == 0 || *number > 64) return {ErrorCode::mismatch, "a signal cannot be understood"};
        group_.signal(static_cast<int>(*number));
        return {};
      }
      case ToAgent::input:
        if (input_pipe_.fd() >= 0)
          input_.add(frame.payload);
        else
          say(FromAgent::input_taken, encode_count(static_cast<std::uint32_t>(frame.payload.size())));
        feed();
        return {};
      case ToAgent::input_end:
        input_ended_ = true;
        feed();
        return {};
      case ToAgent::pause:
        paused_ = true;
        return {};
      case ToAgent::beat:
        return {};
    }
    return {ErrorCode::mismatch, "a message of a kind that is not known here"};
  }

  Status start(std::string_view payload) {
    auto order = StartOrder::decode(payload);
    if (!order) return order.error();
    if (started_) return {ErrorCode::mismatch, "the ranks were started already"};
    silence_ = order->silence;
    if (order->first_rank > 0) port_.socket.close();  // the ranks meet on the first host
    if (::chdir(order->directory.c_str()) != 0)
      return because_of_errno(
          fmt::format("cannot enter the directory '{}' (--chdir DIR names another)", order->directory));
    Environment environment = process_environment();
    for (const auto& [name, value] : order->environment) environment[name] = value;
    if (!order->secret.empty()) {
      auto secret = secret_in_memory(order->secret);
      if (!secret) return secret.error();
      secret_ = std::move(*secret);
      environment["FABRING_SECRET_FILE"] = fmt::format("/proc/{}/fd/{}", ::getpid(), secret_.fd());
    }
    Descriptor rank_0_input;
    if (order->input_follows) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) return because_of_errno("cannot make a pipe");
      rank_0_input = Descriptor(ends[0]);
      input_pipe_ = Descriptor(ends[1]);
      input_ = OutputQueue(ends[1]);
    }
    allow_open_files(static_cast<std::size_t>(order->ranks) * ChildProcess::descriptors);
    const auto nodes = numa_nodes();
    const auto cpus = core_bindings(order->binding, order->ranks, cores_of(affinity_cpus(), nodes), nodes);
    for (int local = 0; local < order->ranks; ++local) {
      const int rank = order->first_rank + local;
      ChildStart start;
      start.command = order->command;
      start.cpus = cpus[static_cast<std::size_t>(local)];
      start.input = rank == 0 ? rank_0_input.fd() : -1;
      start.environment = environment;
      set_place({rank, local, order->world_size, order->master_addr, order->master_port, order->job_id},
                start.environment);
      FABRING_TRY(group_.start(rank, start));
    }
    started_ = true;
    return {};
  }

  // The launcher's stdin, on to rank 0.
  void feed() {
    const std::size_t before = input_.size();
    if (!input_.flush()) input_pipe_.close();  // rank 0 reads no more; the rest is dropped
    if (before > input_.size())
      say(FromAgent::input_taken, encode_count(static_cast<std::uint32_t>(before - input_.size())));
    if (input_ended_ && input_.empty()) input_pipe_.close();
  }

  void rank_output(int rank, OutputStream stream, std::string_view bytes) override {
    say(FromAgent::output, encode_output(rank, stream, bytes));
  }
  void rank_ended(int rank, pid_t pid, const Ending& ending) override {
    say(FromAgent::ended, encode_end(rank, pid, ending));
  }

  void terminate() {
    group_.signal(SIGTERM);
    group_.signal(SIGCONT);  // a stopped process takes no TERM
    kill_at_ = Clock::now() + orphans_grace;
  }

  void orphan(const std::string& why) {
    if (finished_ || !started_) {
      over_ = true;
      return;
    }
    complain("agent", fmt::format("{}: ending {} ranks", why, group_.running()));
    orphaned_ = true;
    out_ = OutputQueue(STDOUT_FILENO);  // nobody gets it; what the ranks still print is read and dropped
    terminate();
  }

  SignalSource signals_;
  Lifeline lifeline_;
  ReservedPort port_;
  RankGroup group_;
  FrameReader in_{most_frame_to_agent};
  OutputQueue out_{STDOUT_FILENO};
  Descriptor input_pipe_, secret_;
  OutputQueue input_{-1};
  Clock::time_point heard_ = Clock::now(), beat_ = Clock::now();
  std::chrono::milliseconds silence_ = wait_for_order;
  std::optional<Clock::time_point> kill_at_, drain_until_;
  bool started_ = false, finished_ = false, orphaned_ = false, over_ = false;
  bool input_ended_ = false, paused_ = false;
};

}  // namespace

int run_agent() {
  adopt_orphans();
  auto lifeline = Lifeline::start();
  if (!lifeline) return could_not_run("agent", lifeline.error());
  auto signals = SignalSource::open({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  if (!signals) return could_not_run("agent", signals.error());
  auto port = reserve_port(PortScope::all_addresses);
  if (!port) return could_not_run("agent", port.error());
  const int code = Agent(std::move(*signals), std::move(*lifeline), std::move(*port)).run();
  end_children(end_of_strays);
  return code;
}

}  // namespace fabring::tools
