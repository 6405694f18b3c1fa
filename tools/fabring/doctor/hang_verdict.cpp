#include "tools/fabring/doctor/hang_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "fabring/status.hpp"
#include "runtime/base/rank_list.hpp"
#include "tools/fabring/doctor/finding_list.hpp"
#include "tools/fabring/doctor/hang_messages.hpp"
#include "tools/fabring/doctor/hang_waits.hpp"
#include "tools/fabring/status/job_text.hpp"

namespace fabring::tools {
namespace {

constexpr std::uint64_t silence_ms = 3000;  // heartbeats come every second

class HangJudge {
 public:
  HangJudge(const JobPicture& job, std::uint64_t patience_ms, const std::set<Rank>& held)
      : job_(job), patience_ms_(patience_ms), held_(held), waits_(job, patience_ms), found_(job) {
    for (const RankPicture& rank : job_.ranks)
      if (rank.state) {
        left_out_.insert(rank.state->left_out.begin(), rank.state->left_out.end());
        for (const OperationState& operation : rank.state->operations) {
          if (is_message(operation)) {
            if (operation.phase != OperationPhase::queued && operation.stuck_ms >= patience_ms_)
              messages_.push_back({&rank, &operation});
          } else {
            calls_[{operation.communicator, operation.sequence}].push_back({&rank, &operation});
          }
        }
      }
  }

  Findings findings() {
    failed_communicators();
    for (const RankPicture& rank : job_.ranks) absent(rank);
    for (const auto& [key, waiters] : calls_) collective(key, waiters);
    never_entered();
    circles();
    messages();
    if (!found_.named()) waiting_themselves();
    if (found_.only_past()) fine();
    if (!found_.named()) unlisted();
    return found_.take();
  }

 private:
  const RankPicture* find(Rank rank) const {
    return rank >= 0 && static_cast<std::size_t>(rank) < job_.ranks.size() ? &job_.ranks[static_cast<std::size_t>(rank)]
                                                                           : nullptr;
  }

  void add(std::string id, Severity severity, const RankPicture* where, std::string what, std::string why,
           std::string fix) {
    found_.add({std::move(id), severity, std::move(what), std::move(why), std::move(fix), place(where)});
  }

  static std::string place(const RankPicture* where) { return where == nullptr ? std::string() : who(*where); }

  // Who waits for a rank, directly, and for how long: "ranks 0-2 wait for it, in allreduce #7 on 'world' for 31 s".
  struct Wait {
    std::string text;
    std::uint64_t longest_ms = 0;
    bool any = false;
  };

  Wait wait_for(Rank rank) const {
    std::vector<Rank> waiting;
    const Waiter* longest = nullptr;
    const auto look = [&](const Waiter& waiter) {
      for (const PeerState& peer : waiter.operation->peers)
        if (peer.rank == rank && peer.awaited) {
          waiting.push_back(waiter.rank->rank);
          if (longest == nullptr || waiter.operation->stuck_ms > longest->operation->stuck_ms) longest = &waiter;
          return;
        }
    };
    for (const auto& [key, waiters] : calls_)
      for (const Waiter& waiter : waiters) look(waiter);
    for (const Waiter& waiter : messages_) look(waiter);
    if (longest == nullptr) return {"nobody waits for it yet"};
    std::sort(waiting.begin(), waiting.end());
    waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
    const std::uint64_t stuck_ms = longest->operation->stuck_ms;
    return {fmt::format("{} wait{} for it, in {} for {}", rank_list(waiting), waiting.size() == 1 ? "s" : "",
                        title(*longest->rank->state, *longest->operation), time_text(stuck_ms)),
            stuck_ms, true};
  }

  struct Failure {
    std::uint8_t code = 0;
    std::string label;
    std::vector<Rank> ranks;
  };

  void failed_communicators() {
    std::map<std::string, Failure> failures, past;
    for (const RankPicture& rank : job_.ranks)
      if (rank.state)
        for (const CommunicatorState& one : rank.state->communicators)
          if (one.failed != 0) {
            Failure& failure = (one.shrunk || left_out_.contains(rank.rank) ? past : failures)[one.failure];
            failure.code = one.failed;
            failure.label = one.label;
            failure.ranks.push_back(rank.rank);
          }
    for (const auto& [text, failure] : failures) {
      const auto code = static_cast<ErrorCode>(failure.code);
      const std::string id = code == ErrorCode::mismatch    ? "hang.mismatch"
                             : code == ErrorCode::peer_lost ? "hang.lost"
                                                            : "hang.failed";
      add(id, Severity::critical, nullptr,
          fmt::format("communicator '{}' has failed on {}: {}", failure.label, rank_list(failure.ranks), text),
          "every operation on it has ended with this error; a program that does not look at its errors stands still",
          code == ErrorCode::mismatch ? "make all ranks call the same operations in the same order"
                                      : "look at the program's own error handling, and at docs/errors.md");
    }
    for (const auto& [text, failure] : past)
      add_past("hang.shrunk", nullptr,
               fmt::format("communicator '{}' failed on {} and was shrunk; those who are left have gone on: {}",
                           failure.label, rank_list(failure.ranks), text));
  }

  void add_past(std::string id, const RankPicture* where, std::string what) {
    found_.add_past({std::move(id), Severity::info, std::move(what), "", "", place(where)});
  }

  void absent(const RankPicture& rank) {
    const Wait wait = wait_for(rank.rank);
    const std::string& waited = wait.text;
    if (left_out_.contains(rank.rank) && !wait.any && !rank.state && rank.answering != Answering::left)
      return add_past(
          "hang.left_out", &rank,
          fmt::format("it was lost and left out by a shrink ({}); nobody waits for it", name(rank.answering)));
    switch (rank.answering) {
      case Answering::stopped:
        return add("hang.stopped", Severity::critical, &rank,
                   fmt::format("its process is {}; {}",
                               rank.process == 't' ? "held by a debugger" : "stopped (SIGSTOP or SIGTSTP)", waited),
                   "the job gives it up after FABRING_SILENCE_TIMEOUT",
                   rank.process == 't'
                       ? "let the debugger continue it"
                       : fmt::format("kill -CONT {} on that host, and find out who stopped it", rank.pid));
      case Answering::silent:
        if (rank.silent_ms >= static_cast<std::int64_t>(silence_ms))
          return add("hang.silent", Severity::critical, &rank,
                     fmt::format("dead or partitioned: nothing was heard of it for {}, heartbeats neither; {}",
                                 time_text(static_cast<std::uint64_t>(rank.silent_ms)), waited),
                     "its process is stopped, its host is down, or the network between is cut; the job gives it up "
                     "after FABRING_SILENCE_TIMEOUT",
                     "run `fabring status` on that host; if it cannot be reached either, look at host and network");
        return add("hang.unheard", Severity::warning, &rank,
                   fmt::format("it does not answer{}; {}",
                               rank.local ? fmt::format(", its process is in state {}", rank.process) : "", waited),
                   "what it does is not known; it may be stopped since a moment ago",
                   rank.local ? fmt::format("look at it: gdb -p {} -batch -ex 'thread apply all bt'", rank.pid)
                              : "run `fabring status` on that host");
      case Answering::unreachable:
        return add("hang.unreachable", Severity::warning, &rank,
                   fmt::format("it cannot be asked from here, a rank on the way to it is gone; {}", waited),
                   "what it does is not known", "run `fabring status` on that host");
      case Answering::left:
        if (!wait.any) return;
        return add("hang.left", Severity::critical, &rank,
                   fmt::format("it has left the job in good order, yet {}", waited),
                   "it will never call what they wait in",
                   "make all ranks call the same operations before one of them leaves");
      case Answering::foreign:
        return add("hang.foreign", Severity::not_checked, &rank, "it belongs to another user", "",
                   "run this as that user, or as root");
      case Answering::unknown:
        return add("hang.unknown", Severity::not_checked, &rank, "nobody who answered could tell anything about it", "",
                   "run `fabring status` on its host");
      case Answering::answered:
        break;
    }
    if (rank.state && rank.state->driver == Driver::unheard) driver(rank, wait);
  }

  // It is asked once, and a long reduction of the program's own takes as long: only what lasts is a cause.
  void driver(const RankPicture& rank, const Wait& wait) {
    const std::string thread = fmt::format("the thread that drives its {} operation{}", rank.state->operation_count,
                                           rank.state->operation_count == 1 ? "" : "s");
    if (wait.longest_ms < patience_ms_ && !held_.contains(rank.rank))
      return add("hang.driver", Severity::info, &rank,
                 fmt::format("{} did not come round when it was asked: it is inside a reduction of the program's own, "
                             "or inside the provider; {}",
                             thread, wait.text),
                 "", "");
    add("hang.driver", Severity::critical, &rank,
        fmt::format(
            "{} does not come round{}: it is inside a reduction of the program's own, or inside the provider; {}",
            thread, held_.contains(rank.rank) ? ", for " + time_text(patience_ms_) + " now" : "", wait.text),
        "nothing of this rank moves meanwhile",
        fmt::format("see where it is: gdb -p {} -batch -ex 'thread apply all bt'", rank.pid));
  }

  void collective(const CallKey& key, const std::vector<Waiter>& waiters) {
    std::uint64_t stuck_ms = 0;
    const Waiter* longest = nullptr;
    for (const Waiter& waiter : waiters)
      if (waiter.operation->phase != OperationPhase::queued && waiter.operation->stuck_ms >= stuck_ms) {
        stuck_ms = waiter.operation->stuck_ms;
        longest = &waiter;
      }
    if (longest == nullptr || stuck_ms < patience_ms_) return;
    const std::string what = title(*longest->rank->state, *longest->operation);
    if (different_calls(key, waiters)) return;
    std::set<Rank> awaited;
    std::vector<Rank> waiting;
    for (const Waiter& waiter : waiters) {
      waiting.push_back(waiter.rank->rank);
      for (const PeerState& peer : waiter.operation->peers)
        if (needs(peer)) awaited.insert(peer.rank);
    }
    std::sort(waiting.begin(), waiting.end());
    bool explained = false;
    std::vector<const RankPicture*> finished;
    std::vector<Rank> unknown;
    for (const Rank number : awaited) {
      const RankPicture* rank = find(number);
      if (rank == nullptr) continue;
      const Part part = waits_.part(*longest, number);
      if (part == Part::inside) continue;
      if (!rank->state || rank->state->driver == Driver::unheard) {
        explained = true;  // absent() has named it
      } else if (part == Part::unknown) {
        unknown.push_back(number);
      } else if (part == Part::absent) {
        explained = true;
        const Missed missed{key, what, waiting, stuck_ms};
        if (const OperationState* own = waits_.own_wait(number))
          behind_.push_back({fmt::format("{}, which has not called it, has waited itself for {}, in {}", who(*rank),
                                         time_text(own->stuck_ms), title(*rank->state, *own)),
                             missed});
        else
          missed_[number].push_back(missed);
      } else {
        finished.push_back(rank);
      }
    }
    if (!explained) links(what, waiters, stuck_ms, finished, unknown);
  }

  // A collective that a rank has not called, and who waits in it.
  struct Missed {
    CallKey key;
    std::string what;
    std::vector<Rank> waiting;
    std::uint64_t stuck_ms = 0;
  };

  // Each once, by the first that it has not called of those that others have waited in for longest.
  void never_entered() {
    constexpr std::size_t most_others = 3;
    for (auto& [number, missed] : missed_) {
      const RankPicture& rank = *find(number);
      auto first = missed.begin();
      for (auto one = missed.begin(); one != missed.end(); ++one)
        if (one->key.first != first->key.first && one->stuck_ms > first->stuck_ms) first = one;
      std::rotate(missed.begin(), first, first + 1);
      std::string others;
      for (std::size_t i = 1; i < std::min(missed.size(), 1 + most_others); ++i)
        others += fmt::format(", nor {} ({})", missed[i].what, rank_list(missed[i].waiting));
      if (missed.size() > 1 + most_others) others += fmt::format(", nor {} more", missed.size() - 1 - most_others);
      const Missed& one = missed.front();
      accused_.insert(place(&rank));
      add("hang.never_entered", Severity::critical, &rank,
          fmt::format("it has not called {}, in which {} {} waited for {}{}; it {}", one.what, rank_list(one.waiting),
                      one.waiting.size() == 1 ? "has" : "have", time_text(one.stuck_ms), others, elsewhere(rank)),
          "a collective ends only when every rank of its communicator has called it",
          fmt::format("see where that rank is: py-spy dump --pid {0}, or gdb -p {0} -batch -ex 'thread apply all bt'; "
                      "a rank that took another branch, or a long checkpoint, are the usual causes",
                      rank.pid));
    }
  }

  void circles() {
    constexpr std::size_t most_told = 6;
    for (const std::vector<Waiter>& circle : waits_.circles()) {
      if (std::any_of(circle.begin(), circle.end(),
                      [&](const Waiter& one) { return one.operation->stuck_ms < patience_ms_; }))
        continue;
      std::string text;
      for (std::size_t i = 0; i < std::min(circle.size(), most_told); ++i)
        text += fmt::format("{}{} has waited {} for rank {}, in {}", i == 0 ? "" : "; ", who(*circle[i].rank),
                            time_text(circle[i].operation->stuck_ms), circle[(i + 1) % circle.size()].rank->rank,
                            title(*circle[i].rank->state, *circle[i].operation));
      if (circle.size() > most_told) text += fmt::format("; and so on over {} more", circle.size() - most_told);
      add("hang.order", Severity::critical, nullptr, "they wait for each other in a circle: " + text,
          "none of them calls what it is waited for in before what it waits in has ended",
          "let all ranks call operations on several communicators in one order; of ranks that send to each other let "
          "one receive first, or begin both sides in a group");
    }
  }

  // Whom they wait for is held up by others since a moment ago, or by nobody who is known.
  void waiting_themselves() {
    for (const auto& [how, missed] : behind_)
      add("hang.standing", Severity::warning, nullptr,
          fmt::format("nothing has moved in {} for {}: {}", missed.what, time_text(missed.stuck_ms), how),
          "where the row ends nobody has been waited for so long yet, or it is not known",
          "ask again; `fabring status` shows who waits for whom");
  }

  bool different_calls(const CallKey& key, const std::vector<Waiter>& waiters) {
    std::map<std::string, std::vector<Rank>> calls;
    for (const Waiter& waiter : waiters)
      calls[waiter.operation->call.substr(0, waiter.operation->call.find("_v("))].push_back(waiter.rank->rank);
    if (calls.size() < 2) return false;
    std::string text;
    for (const auto& [call, ranks] : calls)
      text += fmt::format("{}{} called {}", text.empty() ? "" : ", ", rank_list(ranks), call);
    add("hang.mismatch", Severity::critical, nullptr,
        fmt::format("operation #{} on '{}' differs between ranks: {}", key.second,
                    label_of(*waiters.front().rank->state, key.first), text),
        "ranks that call different things wait for messages that never come",
        "make all ranks call the same operations with the same count, type and operation, in the same order");
    return true;
  }

  // Everybody is in it and nothing moves: which messages are missing, and are they on their way?
  void links(const std::string& what, const std::vector<Waiter>& waiters, std::uint64_t stuck_ms,
             const std::vector<const RankPicture*>& finished, const std::vector<Rank>& unknown) {
    for (const Waiter& waiter : waiters)
      for (const PeerState& peer : waiter.operation->peers) {
        const RankPicture* other = find(peer.rank);
        if (!peer.awaited || waiter.operation->stuck_ms < patience_ms_ || other == nullptr || !other->state) continue;
        if (peer.received >= peer.to_receive) continue;  // it waits for room there
        std::uint32_t sent = 0, in_flight = 0;
        const bool over = std::find(finished.begin(), finished.end(), other) != finished.end();
        for (const Waiter& sender : waiters)
          if (sender.rank == other)
            for (const PeerState& back : sender.operation->peers)
              if (back.rank == waiter.rank->rank) {
                sent = back.sent;
                in_flight = back.sends_in_flight;
              }
        // Its messages have not all left: it waits for somebody else, who is the cause.
        if (!over && sent <= peer.received && in_flight == 0) continue;
        add("hang.link", Severity::critical, waiter.rank,
            fmt::format("in {} it has waited {} for messages of {}: {} of {} received, {}", what, time_text(stuck_ms),
                        who(*other), peer.received, peer.to_receive,
                        over ? std::string("and that rank is done with it")
                             : fmt::format("{} sent, {} in flight there", sent, in_flight)),
            "both ranks are in the operation and their processes are alive: what is between them does not deliver",
            "run `fabring doctor net` on these two hosts; a full or broken link, a firewall that forgets connections, "
            "or an MTU that differs on the way are the usual causes");
      }
    if (!found_.named())
      add("hang.standing", Severity::warning, nullptr,
          fmt::format("nothing has moved in {} for {}, {}", what, time_text(stuck_ms),
                      unknown.empty()
                          ? "all ranks that it needs are in it"
                          : fmt::format("and whether {} {} in it is not known: more is under way there than "
                                        "a rank lists",
                                        rank_list(unknown), unknown.size() == 1 ? "is" : "are")),
          unknown.empty() ? "either its data have just arrived, or messages are lost between ranks"
                          : "what is not listed cannot be judged",
          unknown.empty() ? "ask again; if it stays so, run `fabring doctor net` on these hosts"
                          : "ask again; if it stays so, see where these ranks are: py-spy dump, or gdb");
  }

  void messages() {
    const Findings found = judge_messages(job_, messages_, waits_, patience_ms_);
    for (const Severity severity : {Severity::critical, Severity::warning}) {
      if (severity == Severity::warning && found_.named()) return;
      for (const Finding& one : found)
        if (one.severity == severity && (one.id != "hang.never_entered" || !accused_.contains(one.where)))
          found_.add(one);
    }
  }

  void fine() {
    std::size_t busy = 0, left = 0;
    for (const RankPicture& rank : job_.ranks) left += rank.state || !left_out_.contains(rank.rank) ? 1 : 0;
    for (const RankPicture& rank : job_.ranks) busy += rank.state && !rank.state->operations.empty() ? 1 : 0;
    add("hang.none", Severity::ok, nullptr,
        fmt::format("all {} ranks answer, {} of them in an operation; none has stood still for {}", left, busy,
                    time_text(patience_ms_)),
        "", "");
  }

  // Queued operations are listed last, and wait for those before them.
  void unlisted() {
    for (const RankPicture& rank : job_.ranks)
      if (rank.state && is_cut(*rank.state) && !rank.state->operations.empty() &&
          rank.state->operations.back().phase != OperationPhase::queued)
        add("hang.unlisted", Severity::not_checked, &rank,
            fmt::format(
                "it has {} operations under way and lists {}: whether one of the others stands still is not known",
                rank.state->operation_count, rank.state->operations.size()),
            "", "ask again: of what runs, and then of what waits, the oldest is listed first");
  }

  const JobPicture& job_;
  const std::uint64_t patience_ms_;
  const std::set<Rank>& held_;
  const WaitGraph waits_;
  std::map<CallKey, std::vector<Waiter>> calls_;
  std::map<Rank, std::vector<Missed>> missed_;          // by who has not called them
  std::vector<std::pair<std::string, Missed>> behind_;  // whom they wait for waits too, and how
  std::vector<Waiter> messages_;
  std::set<std::string> accused_;  // places of those that have not called a collective
  std::set<Rank> left_out_;        // by shrinks
  FindingList found_;
};

}  // namespace

Findings judge(const JobPicture& job, std::uint64_t patience_ms, const std::set<Rank>& held) {
  return HangJudge(job, patience_ms, held).findings();
}

std::set<Rank> held_since(const JobPicture& before, const JobPicture& now) {
  constexpr std::int64_t rounding_ms = 2;
  const auto unheard = [](const RankPicture& rank) { return rank.state && rank.state->driver == Driver::unheard; };
  const auto last_end = [](const RankState& state) {
    return state.idle_ms < 0 ? -1 : static_cast<std::int64_t>(state.up_ms) - state.idle_ms;
  };
  std::set<Rank> held;
  for (std::size_t i = 0; i < std::min(before.ranks.size(), now.ranks.size()); ++i)
    if (unheard(before.ranks[i]) && unheard(now.ranks[i]) &&
        std::abs(last_end(*now.ranks[i].state) - last_end(*before.ranks[i].state)) <= rounding_ms)
      held.insert(now.ranks[i].rank);
  return held;
}

}  // namespace fabring::tools
