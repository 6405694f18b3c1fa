#include "runtime/engine/engine_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/engine/execution/tiling.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t world_id = std::uint64_t{1} << 32;  // global

// One more operation that is pending, unless it is not submitted after all.
class CountedAsPending {
 public:
  explicit CountedAsPending(std::atomic<std::size_t>& pending) : pending_(pending) { pending_.fetch_add(1); }
  ~CountedAsPending() {
    if (!kept_) pending_.fetch_sub(1);
  }
  CountedAsPending(const CountedAsPending&) = delete;
  CountedAsPending& operator=(const CountedAsPending&) = delete;
  void keep() { kept_ = true; }

 private:
  std::atomic<std::size_t>& pending_;
  bool kept_ = false;
};

}  // namespace

EngineCore::EngineCore(EngineParts parts)
    : parts_(std::move(parts)),
      refusals_(parts_.self, parts_.control.get(), [this](Rank rank) { return who(rank); }),
      mapped_(parts_.endpoint ? parts_.endpoint->mapped_memory() : nullptr),
      scratch_(scratch_budget(parts_.config), parts_.endpoint ? parts_.endpoint->memory() : nullptr),
      devices_(parts_),
      orphans_(parts_.world_size),
      progress_thread_(
          *drive_, {pending_, undelivered_},
          [this](const std::function<bool()>& enough, std::chrono::nanoseconds limit) {
            HeldDrive held(*drive_);
            drive(enough, limit, parts_.background_waiting);
            release_drive(held);
            notify_waiters();
          },
          parts_.progress_cpus),
      suspects_(parts_.self, parts_.world_size),
      settling_({[this](Rank rank) { return is_away(rank); },
                 [this](Rank rank) { return parts_.endpoint->bytes_in_motion(rank); },
                 [this](Rank rank) { give_up_waiting_for(rank); }},
                parts_.log),
      shrinks_(parts_.self, parts_.world_size, parts_.control.get(),
               {[this](Rank rank) { return who(rank); }, [this](Rank rank) { return who_and_what(rank); },
                [this](Rank rank) { return context_of(rank); },
                [this](const std::string& text) { parts_.log.warning(text); }}),
      membership_check_(parts_.self, parts_.world_size, parts_.control.get(), *parts_.clock,
                        [this](Rank rank) { return who(rank); }) {}

std::shared_ptr<EngineCore> EngineCore::make(EngineParts parts) {
  std::shared_ptr<EngineCore> core(new EngineCore(std::move(parts)));
  const int size = core->parts_.world_size;
  core->began_ = core->parts_.clock->now();
  if (core->parts_.endpoint)
    core->transfer_ =
        std::make_unique<Transfer>(*core->parts_.endpoint, core->parts_.self, size, *core, core->parts_.agreed.parcels);
  if (core->transfer_ && core->parts_.endpoint->poll_calls_kernel() && !core->parts_.waiting.own_core())
    core->transfer_->look_once_a_turn();
  if (core->transfer_ && core->parts_.waiting.own_core()) core->transfer_->let_streams_gather();
  if (core->transfer_) core->devices_.meet(*core->transfer_);
  if (core->transfer_)
    core->flat_engine_.emplace(FlatEngine{*core->transfer_, core->flat_scratch_, core->mapped_, core->parts_.waiting,
                                          *core->parts_.clock, core->news_, core->orphans_, core->drive_->asked});
  // Where memory of GPUs is lent messages are as long as all of the budget can hold a few of.
  MemoryAccount at_most = core->memory();
  if (core->parts_.endpoint) at_most.channels = core->parts_.endpoint->most_held_bytes();
  if (core->parts_.agreed.lent_segment_bytes == 0)
    core->scratch_.limit(scratch_beside(at_most.scratch_limit, at_most.connections(), at_most.peers));
  std::size_t eager = fabring::eager_bytes;
  if (core->transfer_) eager = std::min(core->transfer_->most_record_bytes(), most_unasked_bytes);
  eager = core->parts_.eager_bytes.value_or(eager);
  if (core->parts_.agreed.unasked_limit != 0) eager = std::min(eager, core->parts_.agreed.unasked_limit);
  core->parts_.eager_bytes = eager;
  std::vector<Rank> everyone(size);
  for (Rank rank = 0; rank < size; ++rank) everyone[rank] = rank;
  core->world_ = core->make_communicator(1, "world", std::move(everyone));
  if (core->parts_.control) {
    // The handler runs in the control thread, which the destructor joins before anything it uses is gone.
    EngineCore* self = core.get();
    ControlPlane* control = core->parts_.control.get();
    control->on_failure([self, control](const Failure& failure) {
      self->shrinks_.lost(failure);
      {
        std::lock_guard lock(self->mutex_);
        self->failures_.push_back(failure);
      }
      self->news_.store(true, std::memory_order_release);
      self->wake_driver();
      self->notify_waiters();
      if (self->looks_when_idle_.load()) control->after({}, [self, control] { self->look_after_failure(*control); });
    });
    control->on_goodbye([self](Rank rank, const std::string& account) {
      self->heard_goodbye(rank, account);
      self->shrinks_.gone(rank, true);
    });
    control->on_ended([self](Rank rank) { self->shrinks_.gone(rank, true); });
    control->on_letter([self](Rank from, std::string_view letter) { self->heard_letter(from, letter); });
    control->on_refusal([self](const RefusedCall& refusal) {
      self->refusals_.heard(refusal, [self](std::uint32_t id) { return self->is_gone(id); });
    });
  }
  return core;
}

EngineCore::~EngineCore() {
  (void)leave();
  {
    std::lock_guard lock(*drive_);
    drive_->engine = nullptr;
  }
  door_.reset();
  if (parts_.control) parts_.control->end_thread();  // which may look at this engine until then
  parts_.control.reset();
  parts_.endpoint.reset();  // before the memory that was posted to it
}

std::shared_ptr<CommunicatorCore> EngineCore::make_communicator(std::uint32_t id, std::string label,
                                                                std::vector<Rank> members) {
  Rank self = -1;
  std::vector<int> nodes;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == parts_.self) self = static_cast<Rank>(i);
    nodes.push_back(parts_.node_of.empty() ? 0 : parts_.node_of[members[i]]);
  }
  // A child of fork() lets it be: what its end would touch may be locked for ever there, by a thread of the parent.
  const auto end = [](CommunicatorCore* communicator) {
    if (communicator->origin.is_here()) delete communicator;
  };
  // Not make_shared: its memory would stay as long as by_id_ knows it.
  std::shared_ptr<CommunicatorCore> made(
      new CommunicatorCore(weak_from_this(), drive_, id, std::move(label), std::move(members), self, std::move(nodes)),
      end);
  if (made->size() > 1) {
    made->keep_account_in(account_book_);
    made->leave_grants_to(dropped_grants_);
    made->tell_refusals_by(refusals_.of_dropped());
  }
  made->made_at = parts_.clock->now();
  std::optional<Failure> before;  // the news may be faster than a split
  {
    std::lock_guard lock(mutex_);
    by_id_[id] = made;
    claimed_ids_.give_back(id);
    for (const Failure& failure : applied_) {
      if (!before && concerns(failure, *made)) before = failure;
      made->made_after_world = made->made_after_world || failure.communicator == 0 || failure.communicator == world_id;
    }
  }
  if (before) {
    std::lock_guard lock(made->mutex);
    made->fail(explain(*before));
  }
  orphans_.look_again();
  return made;
}

std::shared_ptr<CommunicatorCore> EngineCore::make_subgroup(std::uint32_t id, std::string label,
                                                            std::vector<Rank> members) {
  {
    std::lock_guard lock(mutex_);
    if (is_used(id) || claimed_ids_.contains(id)) return nullptr;
  }
  refusals_.made_subgroup(id);  // before it has the number: another thread is refused for that afterwards
  {
    std::lock_guard lock(mutex_);
    if (is_used(id) || !claimed_ids_.claim(id)) return nullptr;
  }
  auto made = make_communicator(id, std::move(label), std::move(members));
  membership_check_.made(made);
  return made;
}

// Those who wait in the one of that number that this rank has made need not hear of another that it does not make.
// Which that was is forgotten in time, but only of one that is gone here.
void EngineCore::refused_subgroup(std::uint32_t id, const Status& why) {
  bool gone = false, here = false;
  {
    std::lock_guard lock(mutex_);
    const auto at = by_id_.find(id);
    gone = at == by_id_.end() ? gone_.contains(id) : at->second.expired();
    here = !gone && (at != by_id_.end() || claimed_ids_.contains(id));
  }
  std::uint64_t made = gone || here ? membership_check_.digest_of_made(id) : 0;
  if (gone && made == 0) made = members_forgotten;
  // Another thread may be making it: what that has made is known when this is told.
  refusals_.refused_subgroup(id, why,
                             [this, id, made] { return made != 0 ? made : membership_check_.digest_of_made(id); });
}

// The first byte says what it is about.
void EngineCore::heard_letter(Rank from, std::string_view letter) {
  if (letter.starts_with(MemberList::mark)) membership_check_.heard(from, letter.substr(1));
  if (letter.starts_with(DroppedLetter::mark)) heard_of_dropped(from, letter.substr(1));
  if (letter.starts_with(ShrinkLetter::mark)) shrinks_.heard(from, letter.substr(1));
}

bool EngineCore::is_used(std::uint32_t id) const { return by_id_.contains(id) || gone_.contains(id); }

std::uint32_t EngineCore::propose_communicator_id(std::uint32_t at_least, std::uint32_t parent, unsigned failed) {
  std::lock_guard lock(mutex_);
  return claimed_ids_.propose(at_least, parent, failed, [this](std::uint32_t id) { return is_used(id); });
}

bool EngineCore::claim_communicator_id(std::uint32_t proposed, std::uint32_t agreed) {
  std::lock_guard lock(mutex_);
  return claimed_ids_.claim_agreed(proposed, agreed, [this](std::uint32_t id) { return is_used(id); });
}

void EngineCore::give_back_communicator_id(std::uint32_t id) {
  std::lock_guard lock(mutex_);
  claimed_ids_.give_back(id);
}

std::vector<std::shared_ptr<CommunicatorCore>> EngineCore::communicators() const {
  std::vector<std::shared_ptr<CommunicatorCore>> all;
  std::lock_guard lock(mutex_);
  for (auto at = by_id_.begin(); at != by_id_.end();) {
    if (auto communicator = at->second.lock()) {
      all.push_back(std::move(communicator));
      ++at;
    } else {
      gone_.insert(at->first);
      at = by_id_.erase(at);
    }
  }
  return all;
}

bool EngineCore::is_gone(std::uint32_t id) const {
  std::lock_guard lock(mutex_);
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? gone_.contains(id) : at->second.expired();
}

std::string EngineCore::who(Rank world_rank) const {
  const std::string host = parts_.control ? parts_.control->host_of(world_rank) : "";
  return host.empty() ? fmt::format("rank {}", world_rank) : fmt::format("rank {} (host {})", world_rank, host);
}

// ---- submitting ---------------------------------------------------------------------------------------------------

// Blocks of the program that this operation works on.
EngineCore::KeptMemory EngineCore::memory_of(const Call& call) const {
  const std::array<Tensor, 1> vector{{{call.in, call.out, call.count}}};
  return memory_of(call.tensors ? std::span<const Tensor>(*call.tensors) : vector);
}

EngineCore::KeptMemory EngineCore::memory_of(std::span<const Tensor> tensors) const {
  KeptMemory blocks;
  for (const Tensor& tensor : tensors)
    for (auto& block : mapped_.keep(tensor.in, tensor.out))
      if (block && (blocks.empty() || blocks.back() != block)) blocks.push_back(std::move(block));
  return blocks;
}

std::shared_ptr<Execution> EngineCore::submit(const std::shared_ptr<CommunicatorCore>& communicator, Call call,
                                              bool background, const Operation* operation) {
  static const auto no_plan = std::make_shared<const PreparedPlan>(Plan{});
  std::shared_ptr<Execution> execution;
  (void)devices_.share(call, communicator->members.size() == 1);
  devices_.make_kernels_ready(call);
  {
    std::lock_guard lock(communicator->mutex);
    // Before it is looked whether this rank leaves, which waits for what is pending; and before it has its number:
    // nothing that is run at once comes between.
    CountedAsPending counted(pending_);
    Status failed = communicator->failed;
    if (failed.ok() && leaving_.has_begun()) failed = has_left();
    std::shared_ptr<const PreparedPlan> plan;
    if (failed.ok()) {
      auto found = communicator->plans.find_or_make(call, communicator->self, communicator->node_of);
      if (found) plan = std::move(*found);
      if (!found) failed = found.error();
    }
    if (!failed.ok()) {
      communicator->untold = false;
      ErrorContext context = failed.context();
      context.collective = call.called();
      context.sequence = is_message(call.collective) ? 0 : next_sequence(communicator->last_sequence.load());
      context.bytes = call.bytes();
      if (call.step_of == StepOf::none) failed = failed.with_prefix(call.describe() + ": ");  // run_step() names others
      failed = failed.with_context(context);
      execution = std::make_shared<Execution>(communicator, std::move(call), no_plan, 0, Tiling{});
      execution->fail(failed);
      execution->publish();
      return execution;
    }
    const Tiling tiling = tiling_of(*communicator, *plan, call);
    auto memory = memory_of(call);
    const bool flat = operation != nullptr && is_flat(call);
    execution = std::make_shared<Execution>(communicator, std::move(call), std::move(plan), 0, tiling);
    if (flat) execution->was_asked_by(*operation);
    if (execution->watchdog().has_own_limit()) execution->watchdog().call(parts_.clock->now());
    execution->hold(std::move(memory));
    refusals_.called(*communicator, execution->call());
    std::lock_guard submit_lock(mutex_);
    submitted_.push_back(execution);
    // The others count on it from here on: there is nothing more that it needs memory for.
    if (!is_message(execution->call().collective)) execution->has_number(communicator->take_sequence());
    counted.keep();
    if (background) progress_thread_.start();
  }
  news_.store(true);
  if (background) set_going(*execution);
  return execution;
}

Status EngineCore::prepare(CommunicatorCore& communicator, const Call& call) {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) {
    communicator.untold = false;
    return communicator.failed;
  }
  const auto plan = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
  return plan ? Status() : plan.error();
}

void EngineCore::take_submissions() {
  std::lock_guard lock(mutex_);
  fresh_.insert(fresh_.end(), std::make_move_iterator(submitted_.begin()), std::make_move_iterator(submitted_.end()));
  submitted_.clear();
}

// In the order they were called. Those after the one that somebody waits for stay, as it may wait for the next in a
// moment, and then runs that itself.
bool EngineCore::begin_fresh() {
  const auto is_over = [&] { return awaited_.execution != nullptr && awaited_.execution->done(); };
  while (!fresh_.empty() && !is_over()) {
    const std::shared_ptr<Execution> execution = fresh_.front();
    const std::shared_ptr<CommunicatorCore> communicator = execution->communicator();  // it may be the last that has it
    if (execution->point_to_point()) {
      fresh_.pop_front();
      begin_message(*communicator, execution);
      continue;
    }
    communicator->queued.push_back(execution);
    fresh_.pop_front();
    within_memory(*communicator, [&] { start_queued(*communicator); });
  }
  if (!is_over()) return false;
  if (transfer_) {
    transfer_->deliver();  // the program may compute now, and nobody flush
    undelivered_.store(!transfer_->delivered());
  }
  return true;
}

void EngineCore::begin_message(CommunicatorCore& communicator, const std::shared_ptr<Execution>& execution) {
  within_memory(communicator, [&] {
    if (failure_of(communicator).ok()) communicator.messages.submit(*this, execution);
  });
  const Status failed = failure_of(communicator);
  if (failed.ok() || execution->failed() || execution->done()) return;
  {
    std::lock_guard lock(communicator.mutex);
    communicator.untold = false;
  }
  execution->fail(failed.with_prefix(execution->call().describe() + ": "));
  finish_now(execution);
}

Status EngineCore::failure_of(const CommunicatorCore& communicator) const {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) return communicator.failed;
  return leaving_.takes_nothing() ? has_left() : Status();
}

Status EngineCore::has_left() { return {ErrorCode::aborted, "this rank has left the job"}; }

void EngineCore::start_queued(CommunicatorCore& communicator) {
  const Status failed = failure_of(communicator);
  if (!failed.ok() && !communicator.queued.empty())
    return fail(communicator, failed);  // submitted just before it failed
  while (!communicator.queued.empty() && communicator.may_begin(*communicator.queued.front())) {
    const std::shared_ptr<Execution> execution = communicator.queued.front();
    communicator.past[execution->sequence() % communicator.past.size()] = {execution->sequence(),
                                                                           execution->call().signature()};
    Rank peer = -1;
    if (const Status why = early_mismatch(communicator, *execution, peer); !why.ok()) {
      const Failure failure{ErrorCode::mismatch, communicator.members[peer], parts_.self, communicator.global_id(),
                            why.message()};
      if (membership_check_.hold_back(communicator, failure)) return;
      report(failure);
      return fail(communicator, why);  // before anything of it is reduced
    }
    if (run_at_once(communicator, execution)) continue;
    if (execution->goes_on())  // it has taken messages, of which one may have ended all
      if (const Status met = failure_of(communicator); !met.ok()) return fail(communicator, met);
    if (running_count_ >= parts_.most_running) {
      scratch_wanted_ = true;
      return;
    }
    const std::uint16_t index = free_index();
    const Execution::Start started = execution->start(*this, index, parts_.clock->now());
    if (started == Execution::Start::wait) {
      scratch_wanted_ = true;
      return;
    }
    if (started == Execution::Start::failed) {
      cannot_start(*execution);
      return fail(communicator, execution->failure());
    }
    communicator.active.push_back(execution);
    now_running(execution, index);
    communicator.queued.pop_front();
    execution->advance();
  }
}

// The others would wait for this rank.
void EngineCore::cannot_start(const Execution& execution) {
  const Status& why = execution.failure();
  report({why.code(), parts_.self, parts_.self, execution.communicator()->global_id(),
          fmt::format("{}: {}", who(parts_.self), why.message())});
}

std::uint16_t EngineCore::free_index() {
  std::size_t& index = first_free_;
  while (index < running_.size() && running_[index]) ++index;
  if (index == running_.size()) running_.emplace_back();
  return static_cast<std::uint16_t>(index);
}

void EngineCore::now_running(const std::shared_ptr<Execution>& execution, std::uint16_t index) {
  running_[index] = execution;
  ++running_count_;
}

bool EngineCore::start_now(const std::shared_ptr<Execution>& execution) {
  const bool room = running_count_ < parts_.most_running;
  const std::uint16_t index = room ? free_index() : 0;
  const Execution::Start started = room ? execution->start(*this, index, parts_.clock->now()) : Execution::Start::wait;
  if (started == Execution::Start::failed) cannot_start(*execution);
  if (started == Execution::Start::wait) scratch_wanted_ = true;
  if (started != Execution::Start::started) return false;
  now_running(execution, index);
  execution->advance();
  return true;
}

bool EngineCore::may_start_ahead() const { return running_count_ < parts_.most_running / 2; }

void EngineCore::finish_now(const std::shared_ptr<Execution>& execution) {
  execution->finish_unstarted();
  finished(execution);
  news_.store(true, std::memory_order_release);  // somebody may wait for just this
}

void EngineCore::finished(const std::shared_ptr<Execution>& execution) {
  execution->publish();
  pending_.fetch_sub(1);
  last_end_.store(parts_.clock->now(), std::memory_order_relaxed);
  if (execution->watchdog().has_been_noted() && parts_.control)
    parts_.control->set_activity("");  // it said that it waits
  notify_waiters();
}

std::shared_ptr<const PreparedPlan> EngineCore::message_plan(CommunicatorCore& communicator, Collective collective,
                                                             Rank peer) {
  Call call;
  call.collective = collective;
  call.root = peer;
  std::lock_guard lock(communicator.mutex);
  return *communicator.plans.find_or_make(call, communicator.self, communicator.node_of);  // such a plan always exists
}

// What members sent before the call was made here: did they call the same?
Status EngineCore::early_mismatch(const CommunicatorCore& communicator, const Execution& execution, Rank& peer) const {
  const Signature ours = execution.call().signature();
  const CommunicatorCore::EarlyKey from{false, execution.sequence(), 0, 0, 0, RecordKind::data};
  for (auto at = communicator.early.lower_bound(from);
       at != communicator.early.end() && !at->first.point_to_point && at->first.sequence == execution.sequence();
       ++at) {
    if (same_call(at->second.record.signature, ours)) continue;
    peer = at->first.peer;
    const Record& theirs = at->second.record;
    return mismatch(communicator, peer, execution.sequence(), theirs.signature,
                    signature_towards(execution.call(), communicator.size(), peer, theirs.kind));
  }
  return {};
}

}  // namespace fabring
