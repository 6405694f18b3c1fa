// The failure side of EngineCore: what happens when a peer is lost or somebody aborts. What has failed is settled by
// Settling.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

// Is there a communicator that goes on here and has this rank?
bool EngineCore::needs(Rank world_rank) const {
  for (const auto& communicator : communicators()) {
    if (communicator->rank_of_world(world_rank) < 0) continue;
    std::lock_guard lock(communicator->mutex);
    if (communicator->failed.ok()) return true;
  }
  return false;
}

// Does nobody expect to hear of it?
bool EngineCore::is_away(Rank world_rank) const {
  return suspects_.is_cut_off(world_rank) || is_silent(world_rank) ||
         (parts_.control && parts_.control->leave_order(world_rank) != 0);
}

void EngineCore::suspect(Rank world_rank, const Status& why) {
  if (suspects_.add(world_rank, why, parts_.clock->now())) transfer_->forget(world_rank);
}

void EngineCore::on_peer_lost(Rank peer, const Status& why) {
  if (!suspects_.is_cut_off(peer)) suspect(peer, why);
}

void EngineCore::report_suspects(Time now) {
  if (leaving_.takes_nothing()) return;  // it is they who dropped the connection
  // By no fault of the peers that it has lost with it: they go on without this rank.
  if (!endpoint_failed_ && parts_.endpoint) {
    if (const Status why = parts_.endpoint->error(); !why.ok()) {
      endpoint_failed_ = true;
      suspects_.blame_nobody();
      report({ErrorCode::transport_error, parts_.self, parts_.self, 0,
              fmt::format("{} cannot communicate any more: {}", who(parts_.self), why.message())});
    }
  }
  for (const auto& suspicion : suspects_.overdue(now, [this](Rank rank) { return needs(rank); })) {
    report({ErrorCode::peer_lost, suspicion.rank, parts_.self, 0,
            fmt::format("{} {} its data connection to {}: {}", who(parts_.self),
                        is_nonsense(suspicion.why) ? "closed" : "lost", who(suspicion.rank),
                        suspicion.why.ok() ? "the connection was closed" : suspicion.why.message())});
  }
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

void EngineCore::abort(CommunicatorCore& communicator, std::string reason) {
  Failure failure{ErrorCode::aborted, parts_.self, parts_.self, communicator.global_id(),
                  fmt::format("{} aborted communicator '{}': {}", who(parts_.self), communicator.label, reason)};
  const Status why = explain(failure);
  {
    std::lock_guard lock(communicator.mutex);
    if (!communicator.failed.ok()) return;
    communicator.fail(why);
  }
  {
    std::lock_guard lock(mutex_);
    failures_.push_back(failure);
  }
  news_.store(true, std::memory_order_release);
  if (parts_.control) parts_.control->report(failure);
  wake_driver();
  notify_waiters();
}

// The others may have made it, and would wait for this rank in it.
void EngineCore::did_not_make(std::uint32_t id, const std::string& label, std::span<const Rank> members,
                              const Status& why) {
  report({why.code(), why.context().rank, parts_.self, CommunicatorCore::global_id(id, members[0]),
          fmt::format("{} has not made communicator '{}': {}", who(parts_.self), label, why.message())});
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
  if (failure.communicator != 0)  // nobody else can tell of a group of one: theirs is another of that number
    return communicator.global_id() == failure.communicator &&
           (communicator.size() > 1 || failure.reporter == communicator.members[0]);
  return failure.culprit < 0 || communicator.rank_of_world(failure.culprit) >= 0;
}

Status EngineCore::explain(const Failure& failure) const {
  return Status(failure.code, failure.text, context_of(failure.culprit));
}

void EngineCore::apply(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    const bool known = std::any_of(applied_.begin(), applied_.end(), [&](const Failure& other) {
      return other.communicator == failure.communicator && other.culprit == failure.culprit;
    });
    if (!known) applied_.push_back(failure);
  }
  refusals_.forget(failure.communicator);
  const Status why = explain(failure);
  for (const auto& communicator : communicators())
    if (concerns(failure, *communicator)) fail(*communicator, why);
  if (failure.communicator == 0 && failure.culprit == parts_.self) suspects_.blame_nobody();
  if (failure.communicator == 0 && failure.culprit >= 0) cut_off(failure.culprit);
}

void EngineCore::cut_off(Rank rank) {
  if (rank == parts_.self || rank >= parts_.world_size || !parts_.endpoint || !suspects_.cut_off(rank)) return;
  transfer_->forget(rank);
  parts_.endpoint->disconnect(rank);
  devices_.lost(rank);
  shrinks_.gone(rank, false);  // also where nobody else is told: a new communicator with it would fail at once
}

// A stream of the program that it waited for may stand still for good, and what the engine frees at its end would wait
// for it. A receive of a message to this rank itself waits for the sender's stream too.
void EngineCore::end(const CommunicatorCore& communicator, Execution& execution, const Status& why) {
  if (execution.call().device.any()) devices_.keep_freed(execution.call());
  if (const auto& from = execution.delivered_from(); from && from->call().device.any())
    devices_.keep_freed(from->call());
  ErrorContext context = why.context();
  context.collective = execution.call().called();
  context.sequence = execution.sequence();
  context.bytes = execution.call().bytes();
  if (execution.call().step_of != StepOf::none)
    return execution.fail(why.with_context(context));  // run_step() names it
  // A message has no number before it has met its other side.
  const std::string number = context.sequence == 0 ? "" : fmt::format(" #{}", context.sequence);
  execution.fail(why.with_prefix(fmt::format("{}{} on '{}' ({} bytes, {} done here): ", context.collective, number,
                                             communicator.label, context.bytes, execution.bytes_done()))
                     .with_context(context));
}

void EngineCore::fail(CommunicatorCore& communicator, const Status& why) {
  communicator.held.reset();
  {
    const bool to_nobody =
        communicator.queued.empty() && communicator.running().empty() && communicator.messages.waiting().empty();
    std::lock_guard lock(communicator.mutex);
    // What was being submitted, or run at once, when it failed comes here later, and is told then.
    if (why.code() == ErrorCode::mismatch && (communicator.failed.ok() || !to_nobody)) communicator.untold = to_nobody;
    communicator.fail(why);
  }
  while (!communicator.queued.empty()) {
    const std::shared_ptr<Execution> execution = communicator.queued.front();
    end(communicator, *execution, why);
    if (!execution->finished()) {  // what its caller began lent memory that somebody may still read
      communicator.active.push_back(execution);
      now_running(execution, free_index());
      communicator.queued.pop_front();
      continue;
    }
    communicator.queued.pop_front();
    execution->publish();
    pending_.fetch_sub(1);
  }
  for (const auto& execution : communicator.messages.drop_waiting()) {
    end(communicator, *execution, why);
    finish_now(execution);
  }
  const auto running = communicator.running();
  for (const auto& execution : running) {
    end(communicator, *execution, why);
    withdraw(*execution);
  }
  drop_early(communicator);
  settling_.begin(running, attended_.now());
  finished_some_ = true;
}

// It has memory of a failed operation, and did not give it back in time.
void EngineCore::give_up_waiting_for(Rank peer) {
  if (suspects_.is_cut_off(peer)) return;
  const std::string why = fmt::format(
      "{} did not give back the memory of a failed operation of {} in time (stopped, or too busy) and was disconnected",
      who(peer), who(parts_.self));
  // Communicators that have both cannot go on after that, so all must hear it, and hear the right name. If there are
  // none, it is no business of the communicators that have one of the two.
  if (!leaving_.takes_nothing() && needs(peer)) report({ErrorCode::peer_lost, peer, parts_.self, 0, why});
  suspect(peer, Status(ErrorCode::peer_lost, why));  // for one that is made later
  cut_off(peer);
}

}  // namespace fabring
