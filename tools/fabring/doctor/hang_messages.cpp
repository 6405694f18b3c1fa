#include "tools/fabring/doctor/hang_messages.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tools/fabring/status/job_text.hpp"

namespace fabring::tools {
namespace {

class MessageJudge {
 public:
  MessageJudge(const JobPicture& job, const std::vector<Waiter>& standing, const WaitGraph& waits,
               std::uint64_t patience_ms)
      : job_(job), standing_(standing), waits_(waits), patience_ms_(patience_ms) {}

  Findings findings() {
    for (const Waiter& waiter : standing_) {
      if (waiter.operation->peers.empty())
        of_anybody(waiter);
      else
        of_one(waiter);
    }
    for (const auto& [rank, missed] : missed_)
      if (missed.others > 0)
        found_[missed.at].what +=
            fmt::format("; nor the other side of {} more message{} that stand{} still", missed.others,
                        missed.others == 1 ? "" : "s", missed.others == 1 ? "s" : "");
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
    if (const OperationState* own = waits_.own_wait(other.rank))
      return stands(waiter, fmt::format("{} has not called its other side, and has waited itself for {}, in {}",
                                        who(other), time_text(own->stuck_ms), title(*other.state, *own)));
    const auto [missed, first] = missed_.try_emplace(other.rank, Missed{found_.size()});
    if (!first) return static_cast<void>(++missed->second.others);
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
      there = fmt::format("{} sent, {} in flight there", exchanged(*theirs).sent, exchanged(*theirs).sends_in_flight);
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

  const JobPicture& job_;
  const std::vector<Waiter>& standing_;
  const WaitGraph& waits_;
  const std::uint64_t patience_ms_;
  struct Missed {
    std::size_t at = 0;  // of found_: the first of them
    std::size_t others = 0;
  };
  std::map<Rank, Missed> missed_;  // by who has not called them
  std::set<std::tuple<std::uint64_t, Rank, Rank>> told_;
  Findings found_;
};

}  // namespace

Findings judge_messages(const JobPicture& job, const std::vector<Waiter>& standing, const WaitGraph& waits,
                        std::uint64_t patience_ms) {
  return MessageJudge(job, standing, waits, patience_ms).findings();
}

}  // namespace fabring::tools
