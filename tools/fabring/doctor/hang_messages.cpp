#include "tools/fabring/doctor/hang_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tools/fabring/status/job_text.hpp"

namespace fabring::tools {
namespace {

bool is_send(const OperationState& operation) { return operation.call.starts_with("send"); }

bool is_receive(const OperationState& operation) { return operation.call.starts_with("recv"); }

// "recv(4 x float32, from 0, tag 7)": "7)"; empty: any tag.
std::string_view tag_of(const OperationState& operation) {
  constexpr std::string_view label = ", tag ";
  const std::string_view call = operation.call;
  const std::size_t at = call.rfind(label);
  return at == std::string_view::npos ? std::string_view() : call.substr(at + label.size());
}

// A message has one peer; a receive from anybody has none until it has met a send.
bool names(const OperationState& operation, Rank rank) {
  return operation.peers.empty() ? is_receive(operation) : operation.peers.front().rank == rank;
}

bool tags_fit(const OperationState& a, const OperationState& b) {
  return tag_of(a) == tag_of(b) || tag_of(a).empty() || tag_of(b).empty();
}

bool are_sides(const OperationState& a, const OperationState& b) {
  return a.communicator == b.communicator && (is_send(a) ? is_receive(b) : is_receive(a) && is_send(b));
}

// The number of a message is the sender's; a receive has it once the two have met.
bool have_met(const OperationState& a, const OperationState& b) { return a.sequence != 0 && a.sequence == b.sequence; }

struct OtherSide {
  const OperationState* operation = nullptr;
  bool fits = false;
};

// What the other rank has called that names this one: what fits, or else what has another tag.
OtherSide other_side(const Waiter& waiter, const RankPicture& other) {
  const OperationState& message = *waiter.operation;
  OtherSide found;
  for (const OperationState& one : other.state->operations) {
    if (!are_sides(message, one) || !names(one, waiter.rank->rank)) continue;
    if (have_met(message, one)) return {&one, true};
    if (message.sequence != 0 && one.sequence != 0) continue;
    const auto& own = waiter.rank->state->operations;
    if (std::any_of(own.begin(), own.end(), [&](const OperationState& mine) {
          return are_sides(mine, one) && names(mine, other.rank) && have_met(mine, one);
        }))
      continue;
    if (tags_fit(message, one) && !found.fits) found = {&one, true};
    if (found.operation == nullptr) found.operation = &one;
  }
  return found;
}

class MessageJudge {
 public:
  MessageJudge(const JobPicture& job, const std::vector<Waiter>& standing, std::uint64_t patience_ms)
      : job_(job), standing_(standing), patience_ms_(patience_ms) {
    for (const Waiter& waiter : standing_)
      if (!waiter.operation->peers.empty()) waits_for_.emplace(waiter.rank->rank, waiter.operation->peers.front().rank);
  }

  Findings findings() {
    for (const Waiter& waiter : standing_) {
      if (waiter.operation->peers.empty())
        of_anybody(waiter);
      else
        of_one(waiter);
    }
    return std::move(found_);
  }

 private:
  void of_one(const Waiter& waiter) {
    const OperationState& message = *waiter.operation;
    const auto number = static_cast<std::size_t>(message.peers.front().rank);
    if (number >= job_.ranks.size()) return stands(waiter, "its other side is no rank of this job");
    const RankPicture& other = job_.ranks[number];
    if (!other.state || other.state->driver == Driver::unheard) return;
    const OtherSide side = other_side(waiter, other);
    if (side.fits) return met(waiter, other, *side.operation);
    if (is_cut(*other.state))
      return stands(waiter, fmt::format("{} lists {} of its {} operations, none of them its other side", who(other),
                                        other.state->operations.size(), other.state->operation_count));
    if (is_receive(message) && message.phase == OperationPhase::running) return link(waiter, other, nullptr);
    if (is_receive(message) && message.sequence != 0)
      return stands(waiter, fmt::format("the message of {} is there, and waits for room", who(other)));
    if (side.operation != nullptr) return other_tag(waiter, other, *side.operation);
    if (waits_beyond(other.rank)) return;
    found_.push_back({"hang.never_entered", Severity::critical,
                      fmt::format("it has called no {} that fits {} of {}, which has waited for {}; it {}",
                                  is_send(message) ? "recv" : "send", message.call, who(*waiter.rank),
                                  time_text(message.stuck_ms), elsewhere(other)),
                      "a message ends only when its other side is called",
                      fmt::format("see where that rank is: gdb -p {} -batch -ex 'thread apply all bt'", other.pid),
                      who(other)});
  }

  void of_anybody(const Waiter& waiter) {
    const RankPicture* sender = nullptr;
    OtherSide best;
    for (const RankPicture& other : job_.ranks) {
      if (!other.state) continue;
      const OtherSide side = other_side(waiter, other);
      if (side.operation == nullptr || best.fits || (best.operation != nullptr && !side.fits)) continue;
      sender = &other;
      best = side;
    }
    if (best.fits) return met(waiter, *sender, *best.operation);
    if (best.operation != nullptr) return other_tag(waiter, *sender, *best.operation);
    stands(waiter, "no rank that answered is in a send to it");
  }

  // Both sides are called, and nothing moves. The receiver tells it.
  void met(const Waiter& waiter, const RankPicture& other, const OperationState& theirs) {
    const OperationState& message = *waiter.operation;
    if (theirs.phase == OperationPhase::queued || theirs.stuck_ms < patience_ms_)
      return stands(waiter, fmt::format("{} has called its other side since", who(other)));
    if (is_send(message)) return;
    // Under way on both sides; or announced, and the announcement has not come.
    const bool sent = theirs.phase == OperationPhase::running;
    if (sent && (message.phase == OperationPhase::running || message.sequence == 0))
      return link(waiter, other, &theirs);
    stands(waiter, fmt::format("{} is in its other side, and one of the two waits for room or for messages before it",
                               who(other)));
  }

  // `theirs` is nothing where the sender is done with it.
  void link(const Waiter& waiter, const RankPicture& other, const OperationState* theirs) {
    const OperationState& message = *waiter.operation;
    const auto exchanged = [](const OperationState& side) {
      return side.peers.empty() ? PeerState() : side.peers.front();
    };
    const PeerState here = exchanged(message);
    std::string there = "and that rank is done with it";
    if (theirs != nullptr)
      there = fmt::format("{} sent, {} in flight there", exchanged(*theirs).sent, exchanged(*theirs).in_flight);
    const std::string text =
        message.sequence == 0
            ? fmt::format("{} of {} has not come, for which it has waited {} in {}", theirs->call, who(other),
                          time_text(message.stuck_ms), message.call)
            : fmt::format("in {} it has waited {} for messages of {}: {} of {} received, {}", message.call,
                          time_text(message.stuck_ms), who(other), here.received, here.to_receive, there);
    found_.push_back(
        {"hang.link", Severity::critical, text,
         "both sides of the message are called and their processes are alive: what is between them does not deliver",
         "run `fabring doctor net` on these two hosts; a full or broken link, a firewall that forgets connections, or "
         "an MTU that differs on the way are the usual causes",
         who(*waiter.rank)});
  }

  void other_tag(const Waiter& waiter, const RankPicture& other, const OperationState& theirs) {
    const OperationState& message = *waiter.operation;
    if (told(waiter, other.rank)) return;
    found_.push_back(
        {"hang.mismatch", Severity::critical,
         fmt::format("the tags differ: {} has waited {} in {}, and {} has called no {} that takes this tag, but {}",
                     who(*waiter.rank), time_text(message.stuck_ms), message.call, who(other),
                     is_send(message) ? "recv" : "send", theirs.call),
         "a receive takes messages of its own tag only, unless it is of any tag",
         fmt::format(
             "if the two are meant for each other give them the same tag; if not, see why {} has not called the "
             "other side: gdb -p {} -batch -ex 'thread apply all bt'",
             who(other), other.pid),
         ""});
  }

  void stands(const Waiter& waiter, const std::string& reason) {
    const OperationState& message = *waiter.operation;
    if (!message.peers.empty() && told(waiter, message.peers.front().rank)) return;
    found_.push_back(
        {"hang.standing", Severity::warning,
         fmt::format("nothing has moved in {} on '{}' for {}: {}", message.call,
                     label_of(*waiter.rank->state, message.communicator), time_text(message.stuck_ms), reason),
         "either its other side is late, or messages are lost between ranks",
         "ask again; if it stays so, see what the sender does, and run `fabring doctor net` on these hosts",
         who(*waiter.rank)});
  }

  // Once for two ranks, whichever of them is looked at first.
  bool told(const Waiter& waiter, Rank other) {
    const Rank self = waiter.rank->rank;
    return !told_.insert({waiter.operation->communicator, std::min(self, other), std::max(self, other)}).second;
  }

  // It waits for a message itself, so whoever it waits for is named; unless that leads back to it.
  bool waits_beyond(Rank rank) const {
    auto next = waits_for_.find(rank);
    if (next == waits_for_.end()) return false;
    for (std::size_t steps = 0; next != waits_for_.end() && steps < job_.ranks.size(); ++steps) {
      if (next->second == rank) return false;
      next = waits_for_.find(next->second);
    }
    return true;
  }

  const JobPicture& job_;
  const std::vector<Waiter>& standing_;
  const std::uint64_t patience_ms_;
  std::map<Rank, Rank> waits_for_;
  std::set<std::tuple<std::uint64_t, Rank, Rank>> told_;
  Findings found_;
};

}  // namespace

bool is_message(const OperationState& operation) { return is_send(operation) || is_receive(operation); }

bool is_cut(const RankState& state) { return state.operation_count > state.operations.size(); }

Findings judge_messages(const JobPicture& job, const std::vector<Waiter>& standing, std::uint64_t patience_ms) {
  return MessageJudge(job, standing, patience_ms).findings();
}

}  // namespace fabring::tools
