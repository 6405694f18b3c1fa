// The failure side of EngineCore: what happens when a peer is lost, ranks disagree, time runs out or somebody aborts.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/rank_list.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

// A data connection that fails may be the first sign of a death that the control plane will name better.
constexpr auto verdict_time = std::chrono::milliseconds(300);
// How long nothing of a failed operation's memory may come back before who holds it is disconnected: long if this rank
// still needs one of them.
constexpr auto settle_alone = std::chrono::milliseconds(100);
constexpr auto settle_shared = std::chrono::milliseconds(2000);
constexpr auto first_note = std::chrono::seconds(10);
constexpr auto silent_for = std::chrono::milliseconds(500);
// An operation that waits, perhaps for a rank that has left: how often to look, and how long what it sent may take to
// arrive.
constexpr auto look_at_others = std::chrono::milliseconds(500);
constexpr auto time_to_arrive = std::chrono::seconds(3);

// Messages have no number before they have met.
std::string title(const Execution& execution) {
  const Call& call = execution.call();
  return is_message(call.collective) ? call.describe()
                                     : fmt::format("{} #{}", name(call.collective), execution.sequence());
}

// What a receive waits beside.
std::string unread(const CommunicatorCore& communicator, const Execution& execution) {
  if (execution.call().collective != Collective::recv) return {};
  const std::string passed = communicator.messages.passed_over(execution.call());
  return passed.empty() ? passed : "; " + passed;
}

// Where it waits for no rank.
std::string waits_for(const Execution& execution, const char* otherwise) {
  return execution.waits_for_stream() ? "the work that its GPU stream was given before the call" : otherwise;
}

std::size_t outstanding(const std::vector<std::shared_ptr<Execution>>& running) {
  std::size_t blocks = 0;
  for (const auto& execution : running) blocks += execution->outstanding();
  return blocks;
}

}  // namespace

// Is there a communicator that goes on here and has this rank?
bool EngineCore::needs(Rank world_rank) const {
  for (const auto& communicator : communicators()) {
    if (communicator->rank_of_world(world_rank) < 0) continue;
    std::lock_guard lock(communicator->mutex);
    if (communicator->failed.ok()) return true;
  }
  return false;
}

void EngineCore::suspect(Rank world_rank, const Status& why) {
  for (const Suspicion& known : suspicions_)
    if (known.rank == world_rank) return;
  suspicions_.push_back({world_rank, why, parts_.clock->now(), false});
  transfer_->forget(world_rank);
}

void EngineCore::on_peer_lost(Rank peer, const Status& why) {
  if (!disconnected_[peer]) suspect(peer, why);
}

void EngineCore::report(Failure failure) {
  if (parts_.control) {
    parts_.control->report(std::move(failure));
    return;
  }
  std::lock_guard lock(mutex_);
  failures_.push_back(std::move(failure));
  news_.store(true, std::memory_order_release);
}

Status EngineCore::mismatch(const CommunicatorCore& communicator, Rank member, std::uint32_t sequence,
                            const Signature& theirs, const Signature& ours) const {
  ErrorContext context;
  context.rank = communicator.members[member];
  if (parts_.control) context.host = parts_.control->host_of(context.rank);
  return Status(
      ErrorCode::mismatch,
      fmt::format("operation #{} on communicator '{}' differs between ranks: {} called {}, {} called {}. All "
                  "ranks must call the same operations with the same count, type, operation and algorithm, in "
                  "the same order",
                  sequence, communicator.label, who(communicator.members[member]), describe(theirs), who(parts_.self),
                  describe(ours)),
      context);
}

void EngineCore::refuse(CommunicatorCore& communicator, Rank member, const Execution& execution, const Record& record,
                        const Status& why) {
  const Rank peer = communicator.members[member];
  if (record.kind == RecordKind::grant) transfer_->decline(peer, record.slot);
  if (why.code() != ErrorCode::mismatch) return suspect(peer, why);
  // alltoall_v: what one rank sends to another is not what that one expects.
  Signature ours = execution.call().signature();
  const auto block = static_cast<std::size_t>(member) +
                     (record.kind == RecordKind::grant ? 0 : static_cast<std::size_t>(communicator.size()));
  if (block < execution.call().counts.size()) ours.count = execution.call().counts[block];
  report({ErrorCode::mismatch, peer, parts_.self, communicator.global_id(),
          mismatch(communicator, member, execution.sequence(), record.signature, ours).message()});
}

Status EngineCore::mismatched_message(CommunicatorCore& communicator, Rank member, const Signature& sent,
                                      const Call& receive) {
  ErrorContext context;
  context.rank = communicator.members[member];
  if (parts_.control) context.host = parts_.control->host_of(context.rank);
  const Status why(
      ErrorCode::mismatch,
      fmt::format("a message on communicator '{}' does not fit its receive: {} sent {}, {} called {}. Types "
                  "must be the same, and the receive must have room for all of the message",
                  communicator.label, who(context.rank), describe(sent), who(parts_.self), receive.describe()),
      context);
  report({ErrorCode::mismatch, context.rank, parts_.self, communicator.global_id(), why.message()});
  fail(communicator, why);
  return why;
}

void EngineCore::abort(CommunicatorCore& communicator, std::string reason) {
  Failure failure{ErrorCode::aborted, -1, parts_.self, communicator.global_id(),
                  fmt::format("{} aborted communicator '{}': {}", who(parts_.self), communicator.label, reason)};
  {
    std::lock_guard lock(communicator.mutex);
    if (!communicator.failed.ok()) return;
    communicator.fail(Status(failure.code, failure.text));
  }
  {
    std::lock_guard lock(mutex_);
    failures_.push_back(failure);
  }
  news_.store(true, std::memory_order_release);
  if (parts_.control) parts_.control->report(failure);
  if (parts_.endpoint) parts_.endpoint->wake();
  notify_waiters();
}

void EngineCore::take_failures() {
  std::vector<Failure> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(failures_);
  }
  for (const Failure& failure : fresh) apply(failure);
}

bool concerns(const Failure& failure, const CommunicatorCore& communicator) {
  if (failure.communicator != 0) return communicator.global_id() == failure.communicator;
  return failure.culprit < 0 || communicator.rank_of_world(failure.culprit) >= 0;
}

Status EngineCore::explain(const Failure& failure) const {
  ErrorContext context;
  context.rank = failure.culprit;
  if (failure.culprit >= 0 && parts_.control) context.host = parts_.control->host_of(failure.culprit);
  return Status(failure.code, failure.text, context);
}

void EngineCore::apply(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    const bool known = std::any_of(applied_.begin(), applied_.end(), [&](const Failure& other) {
      return other.communicator == failure.communicator && other.culprit == failure.culprit;
    });
    if (!known) applied_.push_back(failure);
    std::erase_if(refusals_, [&](const RefusedCall& refusal) { return refusal.communicator == failure.communicator; });
  }
  const Status why = explain(failure);
  for (const auto& communicator : communicators())
    if (concerns(failure, *communicator)) fail(*communicator, why);
  if (failure.communicator == 0 && failure.culprit == parts_.self) given_up_ = true;
  if (failure.communicator == 0 && failure.culprit >= 0) cut_off(failure.culprit);
}

void EngineCore::cut_off(Rank rank) {
  if (rank == parts_.self || rank >= static_cast<Rank>(disconnected_.size()) || !parts_.endpoint || disconnected_[rank])
    return;
  disconnected_[rank] = true;
  transfer_->forget(rank);
  parts_.endpoint->disconnect(rank);
}

void EngineCore::fail(CommunicatorCore& communicator, const Status& why) {
  {
    const bool to_nobody =
        communicator.queued.empty() && communicator.running().empty() && communicator.messages.waiting().empty();
    std::lock_guard lock(communicator.mutex);
    if (communicator.failed.ok()) communicator.untold = to_nobody && why.code() == ErrorCode::mismatch;
    communicator.fail(why);
  }
  const auto explained = [&](const Execution& execution) {
    ErrorContext context = why.context();
    context.collective = name(execution.call().collective);
    context.sequence = execution.sequence();
    context.bytes = execution.call().bytes();
    return why
        .with_prefix(fmt::format("{} #{} on '{}' ({} bytes, {} done here): ", context.collective, context.sequence,
                                 communicator.label, context.bytes, execution.bytes_done()))
        .with_context(context);
  };
  for (const auto& execution : communicator.queued) {
    execution->fail(explained(*execution));
    if (!execution->finished()) {  // what its caller began lent memory that somebody may still read
      now_running(execution, free_index());
      communicator.active.push_back(execution);
      continue;
    }
    execution->publish();
    pending_.fetch_sub(1);
  }
  communicator.queued.clear();
  for (const auto& execution : communicator.messages.drop_waiting()) {
    execution->fail(explained(*execution));
    finish_now(execution);
  }
  const auto running = communicator.running();
  for (const auto& execution : running) execution->fail(explained(*execution));
  drop_early(communicator);
  if (!running.empty()) {
    bool shared = false;
    for (const auto& execution : running)
      for (Rank peer : execution->peers_outstanding()) shared = shared || needs(peer);
    const Time limit = shared ? Time(settle_shared) : Time(settle_alone);
    settling_.push_back({running.front()->communicator(), limit, parts_.clock->now() + limit, outstanding(running)});
  }
  finished_some_ = true;
}

void EngineCore::drop_early(CommunicatorCore& communicator) {
  for (const auto& [key, early] : communicator.early)
    if (key.kind == RecordKind::grant) transfer_->decline(communicator.members[key.peer], early.record.slot);
  communicator.early.clear();
  communicator.early_grants = 0;
}

void EngineCore::settle(Time now) {
  for (std::size_t i = 0; i < settling_.size();) {
    const auto communicator = settling_[i].communicator.lock();
    const auto running = communicator ? communicator->running() : std::vector<std::shared_ptr<Execution>>();
    if (running.empty()) {
      settling_.erase(settling_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (const std::size_t left = outstanding(running); left < settling_[i].outstanding) {
      settling_[i].outstanding = left;  // they are at it
      settling_[i].until = now + settling_[i].limit;
    }
    if (now >= settling_[i].until) {
      for (const auto& execution : running) {
        if (!execution->failed()) continue;
        for (Rank peer : execution->peers_outstanding()) {
          if (disconnected_[peer]) continue;
          const std::string why = fmt::format(
              "{} did not give back the memory of a failed operation of {} in time (stopped, or too busy) and was "
              "disconnected",
              who(peer), who(parts_.self));
          // Communicators that have both cannot go on after that, so all must hear it, and hear the right name. If
          // there are none, it is no business of the communicators that have one of the two.
          if (!left_.load() && needs(peer)) report({ErrorCode::peer_lost, peer, parts_.self, 0, why});
          suspect(peer, Status(ErrorCode::peer_lost, why));  // for one that is made later
          cut_off(peer);
        }
      }
    }
    ++i;
  }
}

void EngineCore::tick(Time now) {
  if (running_count_ > 0) finished_some_ = true;  // failed ones may have settled
  for (Suspicion& suspicion : suspicions_) {
    if (suspicion.reported || now - suspicion.since < verdict_time || !needs(suspicion.rank)) continue;
    suspicion.reported = true;
    if (left_.load() || given_up_) continue;  // then it is they who dropped the connection
    report({ErrorCode::peer_lost, suspicion.rank, parts_.self, 0,
            fmt::format("{} lost its data connection to {}: {}", who(parts_.self), who(suspicion.rank),
                        suspicion.why.ok() ? "the connection was closed" : suspicion.why.message())});
  }
  settle(now);
  count_traffic();
  tell_state();
  for (const auto& communicator : communicators()) {
    auto under_way = communicator->running();
    const auto waiting = communicator->messages.waiting();
    under_way.insert(under_way.end(), waiting.begin(), waiting.end());
    for (const auto& execution : under_way) {
      if (execution->failed()) continue;
      note_waiting(*communicator, *execution, now);
      check_refused(*communicator, *execution, now);
      if (now >= execution->next_look) {
        execution->next_look = now + look_at_others;
        say_what_waits(*execution, now);
        check_left(*communicator, *execution, now);
      }
      check_deadline(*communicator, *execution, now);
    }
  }
}

std::string EngineCore::activity_of(Rank rank) const {
  return parts_.control ? parts_.control->activity_of(rank) : std::string();
}

Time EngineCore::stuck_for(const Execution& execution, Time now) {
  return now - std::max(execution.begun_at, execution.stuck_since);
}

// Who waits for something small has perhaps said nothing yet of what it called, and if the others wait for it likewise,
// or are done, nobody would ever know that they called something else.
void EngineCore::say_what_waits(Execution& execution, Time now) {
  if (stuck_for(execution, now) >= Time(silent_for)) execution.announce_waiting();
}

void EngineCore::note_waiting(CommunicatorCore& communicator, Execution& execution, Time now) {
  if (const std::uint64_t done = execution.steps_done(); done != execution.noted_steps) {
    execution.noted_steps = done;  // large and slow is not stuck
    execution.stuck_since = now;
  }
  const Time waited = stuck_for(execution, now);
  // Before anybody gives up, so that who waits for whom is known by then.
  const Time first = std::min<Time>(first_note, patience(execution) / 2);
  if (waited < first || now < execution.next_note) return;
  execution.next_note = now + std::max<Time>(waited, first);  // ever more seldom
  // What the others do belongs into the log, not into what this rank tells them: notes would quote notes.
  std::vector<std::string> names, names_and_activities;
  for (Rank rank : execution.waiting_for()) {
    const Rank world = communicator.members[rank];
    const std::string activity = activity_of(world);
    names.push_back(who(world));
    names_and_activities.push_back(activity.empty() ? who(world) : fmt::format("{} [{}]", who(world), activity));
  }
  const auto line = [&](const std::vector<std::string>& whom) {
    return fmt::format("{} on '{}' has waited {} s for {}", title(execution), communicator.label,
                       std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                       whom.empty() ? waits_for(execution, "its own work") : fmt::format("{}", fmt::join(whom, ", ")));
  };
  parts_.log.warning(line(names_and_activities) + unread(communicator, execution));
  if (parts_.control) parts_.control->set_activity(line(names).substr(0, 120));
}

// What a rank sent before it left may still be on its way; after a while nothing will come.
void EngineCore::check_left(CommunicatorCore& communicator, Execution& execution, Time now) {
  if (!parts_.control || left_.load()) return;
  for (const Rank rank : execution.waiting_for()) {
    const Rank world = communicator.members[rank];
    if (world == parts_.self || !parts_.control->has_left(world)) continue;
    if (execution.left_since == Time{}) execution.left_since = now;
    if (now - execution.left_since < time_to_arrive) return;
    report(
        {ErrorCode::peer_lost, world, parts_.self, communicator.global_id(),
         fmt::format("{} has left the job in good order while {} waits for it in {} on '{}'; all ranks must call the "
                     "same operations before one of them leaves{}",
                     who(world), who(parts_.self), execution.call().describe(), communicator.label,
                     unread(communicator, execution))});
    return;
  }
  execution.left_since = Time{};
}

// How long an operation may take.
Time EngineCore::patience(const Execution& execution) const {
  const std::chrono::nanoseconds own = execution.call().timeout;
  return own.count() > 0 ? Time(own) : Time(parts_.config.timeout);
}

void EngineCore::check_deadline(CommunicatorCore& communicator, Execution& execution, Time now) {
  const Time limit = patience(execution);
  if (now - execution.begun_at < limit) return;
  std::vector<std::string> names;
  Rank culprit = -1;
  bool blocked = false;  // one that waits itself is not at fault
  for (Rank rank : execution.waiting_for()) {
    culprit = communicator.members[rank];
    const std::string activity = activity_of(culprit);
    blocked = blocked || !activity.empty();
    names.push_back(activity.empty() ? who(culprit) : fmt::format("{} [{}]", who(culprit), activity));
  }
  if (names.size() != 1 || blocked) culprit = -1;
  if (names.empty()) names.push_back(waits_for(execution, "nobody known"));
  report({ErrorCode::timeout, culprit, parts_.self, communicator.global_id(),
          fmt::format("{} gave up after {} ({}) in {} on '{}', waiting for {}; who does not wait "
                      "itself has not called it, or is stuck{}",
                      who(parts_.self), duration_text(limit),
                      execution.call().timeout.count() > 0 ? "the timeout of this operation" : "FABRING_TIMEOUT",
                      title(execution), communicator.label, fmt::format("{}", fmt::join(names, ", ")),
                      unread(communicator, execution))});
}

}  // namespace fabring
