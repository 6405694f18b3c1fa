// The short way through EngineCore: small blocking operations, run by their callers.

#include <new>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_flat_bytes = 1 << 30;  // meanwhile nobody drives anything else
constexpr std::size_t most_in_turn = 16;          // through sockets

template <class Find>
FlatRun* if_there_is_memory(Find&& find) {
  try {
    return find();
  } catch (const std::bad_alloc&) {
    return nullptr;  // nothing was begun: it is tried otherwise
  }
}

}  // namespace

bool EngineCore::is_flat(const Call& call) {
  return call.counts.empty() && !call.device.any() && call.bytes() <= most_flat_bytes && !is_message(call.collective) &&
         call.step_of == StepOf::none;
}

std::optional<Status> EngineCore::run_again(const std::shared_ptr<CommunicatorCore>& communicator,
                                            const Operation& operation) {
  if (!communicator->drive->try_lock()) return std::nullopt;
  HeldDrive held(*communicator->drive);
  EngineCore* const engine = communicator->drive->engine;
  if (engine == nullptr) return std::nullopt;
  const auto kept = engine->mapped_.keep(operation.in, operation.out);  // until it returns
  const auto kept_tensors = operation.tensors.empty() ? KeptMemory() : engine->memory_of(operation.tensors);
  FlatRun* const flat = if_there_is_memory(
      [&] { return engine->may_run_at_once() ? engine->find_flat(*communicator, operation) : nullptr; });
  return flat != nullptr ? engine->run_flat(communicator, *flat, held) : engine->give_drive_back(*communicator, held);
}

Status EngineCore::run(const std::shared_ptr<CommunicatorCore>& communicator, Call call, const Operation& operation) {
  const auto kept = mapped_.keep(operation.in, operation.out);
  const auto kept_tensors = operation.tensors.empty() ? KeptMemory() : memory_of(operation.tensors);
  if (is_flat(call) && drive_->try_lock()) {
    HeldDrive held(*drive_);
    FlatRun* const flat =
        if_there_is_memory([&] { return may_run_at_once() ? make_flat(*communicator, call, operation) : nullptr; });
    if (auto status = flat != nullptr ? run_flat(communicator, *flat, held) : give_drive_back(*communicator, held))
      return *std::move(status);
  }
  return wait(*submit(communicator, std::move(call), false, &operation), std::chrono::nanoseconds::max());
}

bool EngineCore::may_run_at_once() {
  if (!flat_engine_ || pending_.load() > 0 || flat_engine_->has_news()) return false;
  if (flat_calls_.count()) progress();
  return true;
}

// Beside operations that are over as soon as they have begun, one after the other: should it be looked now at what else
// there is to do? The clock is read for each of them anyway.
bool EngineCore::is_time_to_look() {
  return flat_calls_.count() || last_end_.load(std::memory_order_relaxed) >= next_tick_;
}

FlatRun* EngineCore::find_flat(CommunicatorCore& communicator, const Operation& operation) {
  FlatRun* const flat = communicator.flat.find(operation);
  return flat != nullptr && flat->fits(*transfer_, communicator) &&
                 flat->take_buffers(operation, communicator, device())
             ? flat
             : nullptr;
}

std::nullopt_t EngineCore::give_drive_back(const CommunicatorCore& communicator, HeldDrive& held) {
  within_memory([&] { tell_state(); });
  held.unlock();
  if (communicator.drive->is_wanted())
    if (const auto engine = communicator.engine.lock()) engine->drive_is_free();
  return std::nullopt;
}

// Others would have taken it while it was taken.
void EngineCore::drive_is_free() {
  if (drive_->asked.load() && drive_->try_lock()) {
    HeldDrive held(*drive_);
    release_drive(held);
  }
  notify_waiters();
}

// With the drive held. Null if an operation like this one cannot be run so.
FlatRun* EngineCore::make_flat(CommunicatorCore& communicator, const Call& call, const Operation& operation) {
  std::shared_ptr<const PreparedPlan> plan;
  {
    std::lock_guard lock(communicator.mutex);
    auto found = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
    if (!found) return nullptr;
    plan = std::move(*found);
  }
  Tiling tiling = tiling_of(communicator, *plan, call);
  if (call.tensors && communicator.size() > 2) tiling.depth = 1;
  if (!FlatRun::may_be(*plan, call, tiling)) return nullptr;
  auto flat = std::make_unique<FlatRun>(std::move(plan), call, operation, tiling, communicator, *transfer_);
  if (!flat->fits(*transfer_, communicator)) return nullptr;
  return &communicator.flat.keep(std::move(flat));
}

// With the drive held, which it gives back. Nothing if the operation has not been begun.
std::optional<Status> EngineCore::run_flat(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat,
                                           HeldDrive& held) {
  // What was submitted and has a number is pending, so that if there is nothing, and no number was taken since, this is
  // the next.
  std::uint32_t last = communicator->last_sequence.load();
  const std::uint32_t sequence = next_sequence(last);
  if (pending_.load() > 0 || communicator->not_at_once.load() || leaving_.has_begun() ||
      (!communicator->early.empty() && !flat.expects_what_came(*communicator, sequence)) ||
      !flat.take_scratch(flat_scratch_) || !communicator->last_sequence.compare_exchange_strong(last, sequence)) {
    flat.give_scratch_back(flat_scratch_);
    flat.drop_copy();
    return give_drive_back(*communicator, held);
  }
  communicator->past[sequence % communicator->past.size()] = {sequence, flat.signature()};
  if (steps_of(flat, *communicator, sequence) == FlatRun::End::done) {
    const bool undelivered = !transfer_->delivered();
    if (undelivered_.load(std::memory_order_relaxed) != undelivered) undelivered_.store(undelivered);
    last_end_.store(parts_.clock->about_now(), std::memory_order_relaxed);
    if (undelivered) have_delivered();
    (void)give_drive_back(*communicator, held);
    return Status();
  }
  const auto execution = go_on_or_fail(communicator, flat, sequence);
  const auto engine = weak_from_this().lock();
  if (!engine) {  // it is ending, and waits for the drive
    fail(*communicator, Status(ErrorCode::aborted, "the engine was destroyed while this operation was under way"));
    drive([&] { return execution->done(); }, std::chrono::hours(1));
    (void)give_drive_back(*communicator, held);
    return execution->status();
  }
  (void)give_drive_back(*communicator, held);
  return wait(*execution, std::chrono::nanoseconds::max());
}

FlatRun::End EngineCore::steps_of(FlatRun& flat, CommunicatorCore& communicator, std::uint32_t sequence) {
  if (transfer_->looks_once_a_turn() && flat_calls_.begins_a_turn(parts_.clock->now())) transfer_->next_turn();
  communicator.flat_sequence = sequence;
  FlatRun::End end = FlatRun::End::stopped;
  within_memory(communicator, [&] { end = flat.run(*flat_engine_, communicator, sequence); });
  if (end == FlatRun::End::done) communicator.flat_sequence = 0;  // what comes of it from now on is nonsense
  within_memory(communicator, [&] {
    transfer_->flush();
    if (!transfer_->delivered()) transfer_->look();
  });
  communicator.flat_sequence = 0;
  if (transfer_->looks_once_a_turn()) flat_calls_.looked(parts_.clock->now());
  if (end == FlatRun::End::done) flat_calls_.ran();
  return end;
}

// By a thread that waits: is this the next for it to do, with nothing else under way? Several at a time are sooner over
// than one after the other between hosts, and through sockets where they are many.
bool EngineCore::may_run_at_once(const CommunicatorCore& communicator, const Execution& execution) const {
  return awaited_.execution != nullptr && execution.operation() && !execution.goes_on() && running_count_ == 0 &&
         transfer_ && communicator.queued.size() == 1 &&
         (fresh_.empty() ||
          (communicator.shape().nodes == 1 && (parts_.agreed.shares_memory || fresh_.size() <= most_in_turn))) &&
         execution.call().bytes() <= awaited_.most_bytes;
}

// The first of `queued`. False: it has not been begun, or is to go on from where its FlatRun stopped.
bool EngineCore::run_at_once(CommunicatorCore& communicator, const std::shared_ptr<Execution>& execution) {
  if (!may_run_at_once(communicator, *execution)) return false;
  FlatRun* flat = if_there_is_memory([&] {
    FlatRun* const found = find_flat(communicator, *execution->operation());
    return found != nullptr ? found : make_flat(communicator, execution->call(), *execution->operation());
  });
  if (flat == nullptr || flat->plan() != execution->prepared_shared() || flat->tiling().tiles != execution->tiles() ||
      (!communicator.early.empty() && !flat->expects_what_came(communicator, execution->sequence())) ||
      !flat->take_scratch(flat_scratch_)) {
    if (flat != nullptr) flat->drop_copy();
    return false;
  }
  // What comes meanwhile may end the communicator, and with that all that is queued, but not what is being run.
  communicator.queued.pop_front();
  if (steps_of(*flat, communicator, execution->sequence()) == FlatRun::End::stopped) {
    communicator.queued.push_front(execution);
    execution->go_on_from(*this, communicator.flat.take(*flat));
    return false;
  }
  execution->finish_unstarted();
  finished(execution);
  return true;
}

// The rest of an operation that was begun: it is the next of its communicator.
std::shared_ptr<Execution> EngineCore::go_on(const std::shared_ptr<CommunicatorCore>& communicator, FlatRun& flat,
                                             std::uint32_t sequence) {
  Call call = flat.call();
  const Tiling tiling = tiling_of(*communicator, *flat.plan(), call);
  auto execution = std::make_shared<Execution>(communicator, std::move(call), flat.plan(), sequence, tiling);
  if (execution->watchdog().has_own_limit()) execution->watchdog().call(parts_.clock->now());
  communicator->queued.push_back(execution);
  execution->go_on_from(*this, communicator->flat.take(flat));
  pending_.fetch_add(1);
  within_memory(*communicator, [&] { start_queued(*communicator); });
  return execution;
}

// Peers may be reading what it lent, and who ends it waits for them. Where nobody can, nothing is read any more.
std::shared_ptr<Execution> EngineCore::go_on_or_fail(const std::shared_ptr<CommunicatorCore>& communicator,
                                                     FlatRun& flat, std::uint32_t sequence) {
  std::shared_ptr<Execution> execution;
  within_memory(*communicator, [&] { execution = go_on(communicator, flat, sequence); });
  if (execution) return execution;
  try {
    return go_on(communicator, flat, sequence);
  } catch (const std::bad_alloc&) {
    parts_.endpoint->close();
    throw;
  }
}

}  // namespace fabring
