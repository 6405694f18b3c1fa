#include "tools/fabring/launch/host_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "fabring/version.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/errno_status.hpp"
#include "tools/fabring/launch/remote_shell.hpp"

namespace fabring::tools {
namespace {
using namespace std::chrono_literals;
constexpr std::size_t most_before_greeting = 64 << 10;  // banners of login shells
constexpr std::size_t most_errors_kept = 8 << 10;
constexpr int shell_cannot_execute = 126, shell_cannot_find = 127;
}  // namespace

Result<std::unique_ptr<HostLink>> HostLink::open(HostContact contact, const Environment& environment,
                                                 Lifeline& lifeline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return because_of_errno(fmt::format("host {}: cannot make a pipe", contact.share.name));
  const Descriptor theirs(ends[0]);
  Descriptor ours(ends[1]);
  ChildStart start;
  start.command = contact.command;
  start.environment = environment;
  start.input = theirs.fd();
  auto process = ChildProcess::start(start);
  if (!process)
    return Status(ErrorCode::unavailable,
                  fmt::format("host {}: {}{}", contact.share.name, process.error().message(),
                              contact.over_ssh ? " (--ssh 'COMMAND' names another way to reach hosts)" : ""));
  return std::unique_ptr<HostLink>(new HostLink(std::move(contact), std::move(*process), std::move(ours), lifeline));
}

HostLink::HostLink(HostContact contact, ChildProcess process, Descriptor input, Lifeline& lifeline)
    : contact_(std::move(contact)),
      process_(std::move(process)),
      input_(std::move(input)),
      lifeline_(lifeline),
      to_agent_(input_.fd()) {
  lifeline_.entrust(process_.pid());
}

HostLink::~HostLink() {
  const pid_t group = process_.pid();
  process_.finish();
  if (group > 0) lifeline_.release(group);
}

void HostLink::watch(std::vector<pollfd>& polled, bool read_output) const {
  polled.push_back({read_output ? process_.output() : -1, POLLIN, 0});
  polled.push_back({process_.errors(), POLLIN, 0});
  polled.push_back({input_.fd() >= 0 ? to_agent_.waiting_fd() : -1, POLLOUT, 0});
}

void HostLink::serve(std::span<const pollfd> polled, Time now, HostEvents& events) {
  if (polled[1].revents != 0) read_errors(events);
  if (polled[0].revents != 0) read_frames(now, events);
  if (input_.fd() >= 0) to_agent_.flush();  // that nobody reads shows at the other end
}

void HostLink::send(ToAgent type, std::string_view payload) {
  if (input_.fd() < 0 || state_ == State::lost) return;
  to_agent_.add(encode_frame(type, payload));
}

void HostLink::order(const StartOrder& order) {
  send(ToAgent::start, order.encode());
  state_ = State::running;
  heard_ = std::chrono::steady_clock::now();
}

void HostLink::close_input() {
  to_agent_.flush();
  input_.close();
}

void HostLink::lose(std::string why) {
  if (state_ == State::lost) return;
  state_ = State::lost;
  failure_ = std::move(why);
  process_.signal(SIGKILL);  // the connection; its end is what the agent there notices
  input_.close();
}

void HostLink::give_up(const std::string& why) {
  if (!why.empty()) {
    lose(fmt::format("host {}: {}", contact_.share.name, why));
    return;
  }
  const auto ending = process_.ending();
  could_not_start_ =
      ending && (ending->exit_status == shell_cannot_execute || ending->exit_status == shell_cannot_find);
  lose(explain_no_answer(
      {contact_.share.name, contact_.command.front(), contact_.fabring, ending, errors_, before_greeting_}));
}

void HostLink::check(Time now, std::chrono::milliseconds silence, bool listening) {
  if (state_ == State::lost || state_ == State::finished) return;
  if (process_.output() < 0) {
    // The end of the stream comes a moment before the end of the process, which says why.
    const auto ending = process_.ending();
    if (!ending && now < output_ended_ + 2s) return;
    if (state_ == State::starting) {
      give_up();
      return;
    }
    std::string words = errors_;
    while (!words.empty() && (words.back() == '\n' || words.back() == '\r')) words.pop_back();
    words = words.substr(words.rfind('\n') + 1);
    lose(fmt::format("host {}: the connection ended{}{}{}", contact_.share.name,
                     ending ? fmt::format(" ({} {})", contact_.command.front(), ending->to_string()) : "",
                     words.empty() ? "" : ": " + words, state_ == State::running ? "; its ranks are given up" : ""));
    return;
  }
  if (!listening) heard_ = now;  // what was not listened to was not silent
  if (state_ == State::running && now > heard_ + silence)
    lose(
        fmt::format("host {}: nothing was heard from it for {}: is it down, or the network between? Its ranks are "
                    "given up",
                    contact_.share.name, duration_text(silence)));
}

void HostLink::read_errors(HostEvents& events) {
  char bytes[4096];
  const ssize_t got = ::read(process_.errors(), bytes, sizeof(bytes));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    process_.close_errors();
    return;
  }
  errors_.append(bytes, static_cast<std::size_t>(got));
  // Before the greeting these are banners, told only if nothing comes of it; after it they are news.
  while (greeted_ && errors_.find('\n') != std::string::npos) {
    const std::size_t end = errors_.find('\n');
    if (end > 0) events.host_said(fmt::format("host {}: {}", contact_.share.name, errors_.substr(0, end)));
    errors_.erase(0, end + 1);
  }
  if (errors_.size() > most_errors_kept) errors_.erase(0, errors_.size() - most_errors_kept);
}

void HostLink::read_frames(Time now, HostEvents& events) {
  char bytes[65536];
  const ssize_t got = ::read(process_.output(), bytes, sizeof(bytes));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    process_.close_output();
    output_ended_ = now;
    return;
  }
  heard_ = now;
  if (state_ == State::lost) return;
  const std::string_view text(bytes, static_cast<std::size_t>(got));
  if (greeted_)
    frames_.add(text);
  else
    greet(text);
  while (const std::optional<Frame> frame = greeted_ ? frames_.next() : std::nullopt) {
    if (Status status = accept(*frame, events); !status)
      lose(fmt::format("host {}: {}", contact_.share.name, status.message()));
    if (state_ == State::lost) return;
  }
  if (frames_.broken())
    lose(fmt::format("host {}: what comes from there cannot be understood: does its login shell print something?",
                     contact_.share.name));
}

void HostLink::greet(std::string_view bytes) {
  before_greeting_ += bytes;
  const std::optional<Greeting> greeting = find_greeting(before_greeting_);
  if (!greeting) {
    if (before_greeting_.size() > most_before_greeting)
      give_up(fmt::format("{} KiB came from there, but no answer of the agent: what does its login shell print?",
                          most_before_greeting >> 10));
    return;
  }
  if (greeting->version != FABRING_VERSION) {
    could_not_start_ = true;
    give_up(
        fmt::format("'{}' there is Fabring {}, this is {}: install the same version on all hosts, or name it with "
                    "--remote-fabring PATH",
                    contact_.fabring, greeting->version.substr(0, 64), FABRING_VERSION));
    return;
  }
  greeted_ = true;
  errors_.clear();
  frames_.add(greeting->after);
  before_greeting_.clear();
}

Status HostLink::check_rank(int rank) const {
  if (rank >= contact_.share.first && rank < contact_.share.first + contact_.share.count) return {};
  return {ErrorCode::mismatch, fmt::format("it speaks of rank {}, which is not there", rank)};
}

Status HostLink::accept(const Frame& frame, HostEvents& events) {
  switch (static_cast<FromAgent>(frame.type)) {
    case FromAgent::ready: {
      auto facts = AgentFacts::decode(frame.payload);
      if (!facts) return facts.error();
      facts_ = std::move(*facts);
      if (state_ == State::starting) state_ = State::ready;
      return {};
    }
    case FromAgent::failed:
      could_not_start_ = true;
      return {ErrorCode::unavailable, frame.payload.substr(0, 4096)};
    case FromAgent::output: {
      auto output = decode_output(frame.payload);
      if (!output) return output.error();
      FABRING_TRY(check_rank(output->rank));
      events.rank_output(output->rank, output->stream, output->bytes);
      return {};
    }
    case FromAgent::ended: {
      auto end = decode_end(frame.payload);
      if (!end) return end.error();
      FABRING_TRY(check_rank(end->rank));
      events.rank_ended(end->rank, end->pid, end->ending);
      return {};
    }
    case FromAgent::finished:
      if (state_ == State::running) state_ = State::finished;
      return {};
    case FromAgent::input_taken: {
      auto bytes = decode_count(frame.payload);
      if (!bytes) return bytes.error();
      events.input_taken(*bytes);
      return {};
    }
    case FromAgent::beat:
      return {};
  }
  return {ErrorCode::mismatch, "a message of a kind that is not known here"};
}

}  // namespace fabring::tools
