#include "tools/fabring/status/job_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/rank_list.hpp"
#include "tools/fabring/wrapped_text.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t text_columns = 80;
constexpr std::size_t most_listed_ranks = 32;  // more are shown in groups that do the same

// Since when, in words that are the same for ranks that do the same.
std::string progress(const PeerState& peer) {
  std::vector<std::string> parts;
  if (peer.to_send > 0) parts.push_back(fmt::format("sent {}/{}", peer.sent, peer.to_send));
  if (peer.to_receive > 0) parts.push_back(fmt::format("received {}/{}", peer.received, peer.to_receive));
  if (peer.in_flight > 0) parts.push_back(fmt::format("{} in flight", peer.in_flight));
  return parts.empty() ? std::string() : fmt::format(": {}", fmt::join(parts, ", "));
}

std::string operation_text(const RankState& state, const OperationState& operation) {
  std::string text = fmt::format("{}, {}", title(state, operation), operation.call);
  if (operation.phase == OperationPhase::queued) return text + ", queued";
  text += fmt::format(", for {}", time_text(operation.begun_ms));
  if (operation.stuck_ms >= 1000 && operation.stuck_ms + 500 < operation.begun_ms)
    text += fmt::format(", nothing moved for {}", time_text(operation.stuck_ms));
  std::size_t awaited = 0;
  for (const PeerState& peer : operation.peers)
    if (peer.awaited)
      text += fmt::format("\n{} rank {}{}", awaited++ == 0 ? "waits for" : "and for", peer.rank, progress(peer));
  if (operation.peer_count > operation.peers.size())
    text +=
        fmt::format("\nand {} more ranks it exchanges messages with", operation.peer_count - operation.peers.size());
  return text;
}

std::string subject(const JobPicture& job) {
  // How many there are in all those who answer say.
  const bool heard = std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& rank) { return rank.state; });
  std::string text = fmt::format(
      "job {} (tag {}): {}{} rank{} on {}", job.job_id.empty() ? "without a name" : job.job_id, job.tag.substr(0, 8),
      heard ? "" : "at least ", job.ranks.size(), job.ranks.size() == 1 ? "" : "s", hosts_text(job));
  if (!job.version.empty()) text += ", Fabring " + job.version;
  return text;
}

std::string failures(const RankState& state) {
  std::string text;
  for (const CommunicatorState& one : state.communicators)
    if (one.failed != 0)
      text += fmt::format("'{}' {}: {}\n", one.label, one.shrunk ? "was shrunk when it had failed" : "has failed",
                          one.failure);
  return text;
}

std::string unheard_text(const RankState& state) {
  return fmt::format("in {} operation{}; the thread that drives them does not come round", state.operation_count,
                     state.operation_count == 1 ? "" : "s");
}

// Without process ids and times, so that those who do the same have the same.
std::string kind(const RankPicture& rank) {
  if (!rank.state) return std::string(name(rank.answering));
  std::string text = failures(*rank.state);
  if (rank.state->driver == Driver::unheard) return text + unheard_text(*rank.state);
  if (rank.state->operations.empty()) {
    const auto& all = rank.state->communicators;
    return text + fmt::format("{}{}", rank.state->leaving ? "leaving the job" : "outside Fabring",
                              all.empty() ? "" : fmt::format("; {} called on '{}'", all[0].called, all[0].label));
  }
  const OperationState& first = rank.state->operations.front();
  text += fmt::format("{}, {}", title(*rank.state, first), first.call);
  std::vector<Rank> awaited;
  for (const PeerState& peer : first.peers)
    if (peer.awaited) awaited.push_back(peer.rank);
  std::sort(awaited.begin(), awaited.end());
  return awaited.empty() ? text : text + ", waits for " + rank_list(awaited);
}

const RankPicture* holds_most(const JobPicture& job) {
  const RankPicture* most = nullptr;
  for (const RankPicture& rank : job.ranks)
    if (rank.state && rank.state->memory &&
        (most == nullptr || rank.state->memory->held() > most->state->memory->held()))
      most = &rank;
  return most;
}

std::string strangers_text(const JobPicture& job) {
  std::uint64_t all = 0;
  const RankPicture* most = nullptr;
  for (const RankPicture& rank : job.ranks) {
    if (!rank.state || rank.state->strangers == 0) continue;
    all += rank.state->strangers;
    if (most == nullptr || rank.state->strangers > most->state->strangers) most = &rank;
  }
  if (most == nullptr) return "";
  return fmt::format("  connections of strangers turned away: {}, of which {} by {}", all, most->state->strangers,
                     who(*most));
}

}  // namespace

std::string_view name(OperationPhase phase) {
  return phase == OperationPhase::queued ? "queued" : phase == OperationPhase::running ? "running" : "waiting";
}

std::string_view name(Driver driver) {
  return driver == Driver::nobody ? "nobody" : driver == Driver::thread ? "thread" : "unheard";
}

std::string time_text(std::uint64_t milliseconds) {
  const std::uint64_t seconds = milliseconds / 1000;
  if (seconds < 10) return fmt::format("{:.1f} s", static_cast<double>(milliseconds) / 1000);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string hosts_text(const JobPicture& job) {
  std::set<std::string> hosts;
  bool all_known = true;
  for (const RankPicture& rank : job.ranks) {
    all_known = all_known && !rank.host.empty();
    if (!rank.host.empty()) hosts.insert(rank.host);
  }
  if (hosts.empty()) return "hosts that are not known";
  return fmt::format("{} host{}{}", hosts.size(), hosts.size() == 1 ? "" : "s",
                     all_known ? "" : ", and where others are is not known");
}

std::string label_of(const RankState& state, std::uint64_t communicator) {
  for (const CommunicatorState& one : state.communicators)
    if (one.id == communicator) return one.label;
  return "?";
}

std::string title(const RankState& state, const OperationState& operation) {
  const std::string collective = operation.call.substr(0, operation.call.find('('));
  const std::string number = operation.sequence == 0 ? "" : fmt::format(" #{}", operation.sequence);
  return fmt::format("{}{} on '{}'", collective, number, label_of(state, operation.communicator));
}

std::string doing(const RankPicture& rank) {
  switch (rank.answering) {
    case Answering::stopped:
      return rank.process == 't' ? "stopped by a debugger"
                                 : "stopped (SIGSTOP or SIGTSTP): it does nothing until it gets SIGCONT";
    case Answering::left:
      return "has left the job in good order";
    case Answering::unreachable:
      return "cannot be asked: a rank on the way to it is gone";
    case Answering::foreign:
      return "belongs to another user, who may ask it";
    case Answering::unknown:
      return "not known: no rank that answered knows of it";
    case Answering::silent:
      if (rank.silent_ms >= 3000)
        return fmt::format("silent for {}, heartbeats too", time_text(static_cast<std::uint64_t>(rank.silent_ms)));
      return rank.local ? fmt::format("does not answer (process state {})", rank.process) : "does not answer";
    case Answering::answered:
      break;
  }
  const RankState& state = *rank.state;
  std::string text = failures(state);
  if (state.driver == Driver::unheard) return text + unheard_text(state);
  for (const OperationState& operation : state.operations) text += operation_text(state, operation) + "\n";
  if (state.operation_count > state.operations.size())
    text += fmt::format("and {} more operations\n", state.operation_count - state.operations.size());
  if (state.operations.empty()) {
    text += state.leaving ? "leaving the job" : "outside Fabring";
    if (state.idle_ms >= 0) text += fmt::format(" for {}", time_text(static_cast<std::uint64_t>(state.idle_ms)));
    for (const CommunicatorState& one : state.communicators)
      if (one.called > 0) text += fmt::format("; last on '{}': #{} {}", one.label, one.called, one.last_call);
    if (const std::size_t listed = state.communicators.size(); state.communicator_count > listed)
      text += fmt::format("; and {} more communicator{}", state.communicator_count - listed,
                          state.communicator_count - listed == 1 ? "" : "s");
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string elsewhere(const RankPicture& rank) {
  const RankState& state = *rank.state;
  if (!state.operations.empty()) return fmt::format("is in {} instead", title(state, state.operations.front()));
  std::string text = state.leaving ? "has been leaving the job" : "has been outside Fabring";
  if (state.idle_ms >= 0) text += " for " + time_text(static_cast<std::uint64_t>(state.idle_ms));
  for (const CommunicatorState& one : state.communicators)
    if (one.called > 0 && !one.last_call.empty()) {
      text += fmt::format(", its last call was {} #{} on '{}'", one.last_call.substr(0, one.last_call.find('(')),
                          one.called, one.label);
      break;
    }
  return text;
}

std::string job_text(const JobPicture& job) {
  std::string text = wrapped(subject(job), text_columns, 4) + "\n";
  if (job.ranks.size() <= most_listed_ranks) {
    for (const RankPicture& rank : job.ranks)
      text += wrapped(fmt::format("  {:<24}{}", who(rank) + ":", " " + doing(rank)), text_columns, 8) + "\n";
  } else {
    std::map<std::string, std::vector<Rank>> groups;
    for (const RankPicture& rank : job.ranks) groups[kind(rank)].push_back(rank.rank);
    for (const auto& [what, ranks] : groups)
      text += wrapped(fmt::format("  {}: {}", rank_list(ranks), what), text_columns, 8) + "\n";
  }
  if (const RankPicture* most = holds_most(job))
    text += wrapped(fmt::format("  memory of {}: {}",
                                job.ranks.size() == 1 ? who(*most) : who(*most) + ", which holds most",
                                memory_text(*most->state->memory)),
                    text_columns, 8) +
            "\n";
  if (const std::string strangers = strangers_text(job); !strangers.empty())
    text += wrapped(strangers, text_columns, 8) + "\n";
  if (job.asked < 0 &&
      std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankPicture& rank) { return !rank.local; }))
    text += wrapped("  No rank of this host could be asked about those of other hosts.", text_columns, 8) + "\n";
  return text;
}

std::string asked_text(const JobPicture& job) {
  std::vector<Rank> here, elsewhere;
  for (const RankPicture& rank : job.ranks) (rank.local ? here : elsewhere).push_back(rank.rank);
  std::string text = fmt::format("asked over unix sockets of this host: {}", here.empty() ? "nobody" : rank_list(here));
  if (!elsewhere.empty() && job.asked >= 0)
    text += fmt::format("; what {} do was asked of rank {}, over the control plane of the job", rank_list(elsewhere),
                        job.asked);
  return wrapped("  " + text, text_columns, 8) + "\n";
}

std::string no_job_text(const std::string& asked, bool others_have_some) {
  if (others_have_some && asked.empty())
    return "the jobs on this host belong to other users; ask as the user who runs them, or as root";
  if (others_have_some)
    return fmt::format(
        "no job '{}' that may be asked has a rank on this host; there are jobs of other users: ask as the user "
        "who runs it, or as root",
        asked);
  if (!asked.empty())
    return fmt::format("no job '{}' has a rank on this host; `fabring status` lists those that have", asked);
  return "no job has a rank here (or it runs with FABRING_STATUS=no, or in a container: then run this inside)";
}

}  // namespace fabring::tools
