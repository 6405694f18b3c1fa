#include "runtime/engine/engine_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/engine/tiling.hpp"

namespace fabring {
namespace {

constexpr std::size_t default_scratch_bytes = std::size_t{32} << 20;
constexpr std::size_t most_orphans = 4096;
constexpr std::size_t most_running = 1 << 15;  // their numbers have 16 bits

}  // namespace

EngineCore::EngineCore(EngineParts parts)
    : parts_(std::move(parts)),
      scratch_(parts_.config.scratch_bytes != 0 ? parts_.config.scratch_bytes : default_scratch_bytes) {}

std::shared_ptr<EngineCore> EngineCore::make(EngineParts parts) {
  std::shared_ptr<EngineCore> core(new EngineCore(std::move(parts)));
  const int size = core->parts_.world_size;
  core->disconnected_.assign(size, false);
  if (core->parts_.endpoint)
    core->transfer_ = std::make_unique<Transfer>(*core->parts_.endpoint, core->parts_.self, size, *core);
  std::vector<Rank> everyone(size);
  for (Rank rank = 0; rank < size; ++rank) everyone[rank] = rank;
  core->world_ = core->make_communicator(1, "world", std::move(everyone));
  if (core->parts_.control) {
    // The handler runs in the control thread, which the destructor joins before anything it uses is gone.
    EngineCore* self = core.get();
    core->parts_.control->on_failure([self](const Failure& failure) {
      {
        std::lock_guard lock(self->mutex_);
        self->failures_.push_back(failure);
      }
      self->news_.store(true, std::memory_order_release);
      if (self->parts_.endpoint) self->parts_.endpoint->wake();
      self->notify_waiters();
    });
  }
  return core;
}

EngineCore::~EngineCore() {
  (void)leave();
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
  auto made = std::make_shared<CommunicatorCore>(weak_from_this(), id, std::move(label), std::move(members), self,
                                                 std::move(nodes));
  std::optional<Failure> before;  // the news may be faster than a split
  {
    std::lock_guard lock(mutex_);
    by_id_[id] = made;
    for (const Failure& failure : applied_)
      if (!before && concerns(failure, *made)) before = failure;
  }
  if (before) {
    std::lock_guard lock(made->mutex);
    if (made->failed.ok()) made->failed = explain(*before);
  }
  adopt_.store(true, std::memory_order_release);
  return made;
}

std::uint32_t EngineCore::take_communicator_id(std::uint32_t at_least) {
  std::lock_guard lock(mutex_);
  next_id_ = std::max(next_id_, at_least);
  return next_id_++;
}

std::vector<std::shared_ptr<CommunicatorCore>> EngineCore::communicators() const {
  std::vector<std::shared_ptr<CommunicatorCore>> all;
  std::lock_guard lock(mutex_);
  for (const auto& [id, weak] : by_id_)
    if (auto communicator = weak.lock()) all.push_back(std::move(communicator));
  return all;
}

std::string EngineCore::who(Rank world_rank) const {
  const std::string host = parts_.control ? parts_.control->host_of(world_rank) : "";
  return host.empty() ? fmt::format("rank {}", world_rank) : fmt::format("rank {} (host {})", world_rank, host);
}

// ---- submitting ---------------------------------------------------------------------------------------------------

std::shared_ptr<const ChoiceTable> EngineCore::choices(const WorldShape& shape) {
  std::lock_guard lock(mutex_);
  for (const auto& table : choices_)
    if (table->shape() == shape) return table;
  choices_.push_back(std::make_shared<const ChoiceTable>(ChoiceTable::make(shape, pricing_machine(), parts_.overrides)));
  return choices_.back();
}

Machine EngineCore::pricing_machine() const {
  Machine machine = parts_.machine;
  machine.tiling = tiling_rules();
  return machine;
}

TilingRules EngineCore::tiling_rules() const {
  TilingRules rules;
  if (parts_.config.segment_bytes != 0) rules.segment_bytes = parts_.config.segment_bytes;
  rules.smallest_bytes = std::min(rules.smallest_bytes, rules.segment_bytes);
  if (parts_.config.depth != 0) rules.depth = static_cast<std::uint32_t>(parts_.config.depth);
  return rules;
}

std::shared_ptr<Execution> EngineCore::submit(const std::shared_ptr<CommunicatorCore>& communicator, Call call,
                                              bool background) {
  static const auto no_plan = std::make_shared<const PreparedPlan>(Plan{});
  std::shared_ptr<Execution> execution;
  {
    std::lock_guard lock(communicator->mutex);
    Status failed = communicator->failed;
    if (failed.ok() && left_.load()) failed = Status(ErrorCode::aborted, "this rank has left the job");
    std::shared_ptr<const PreparedPlan> plan;
    if (failed.ok()) {
      auto found = communicator->plans.find_or_make(call, communicator->self, communicator->node_of);
      if (found) plan = std::move(*found);
      if (!found) failed = found.error();
    }
    if (!failed.ok()) {
      failed = failed.with_prefix(call.describe() + ": ");
      execution = std::make_shared<Execution>(communicator, std::move(call), no_plan, 0, Tiling{});
      execution->fail(failed);
      execution->publish();
      return execution;
    }
    const Tiling tiling = choose_tiling(*plan, call, tiling_rules());
    const std::uint32_t sequence = is_message(call.collective) ? 0 : ++communicator->last_sequence;
    execution = std::make_shared<Execution>(communicator, std::move(call), std::move(plan), sequence, tiling);
    std::lock_guard submit_lock(mutex_);
    submitted_.push_back(execution);
    pending_.fetch_add(1);
    if (background && !thread_started_ && !stop_.load()) {
      thread_started_ = true;
      // Without a thread operations still go on while somebody waits; only "nobody waits" needs it.
      if (auto thread = start_thread("fabring-prog", [this] { this->background(); })) thread_ = std::move(*thread);
    }
  }
  news_.store(true, std::memory_order_release);
  if (background) {
    if (parts_.endpoint) parts_.endpoint->wake();
    std::lock_guard lock(turn_mutex_);
    turn_.notify_all();
  }
  return execution;
}

Status EngineCore::prepare(CommunicatorCore& communicator, const Call& call) {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) return communicator.failed;
  const auto plan = communicator.plans.find_or_make(call, communicator.self, communicator.node_of);
  return plan ? Status() : plan.error();
}

void EngineCore::take_submissions() {
  std::vector<std::shared_ptr<Execution>> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(submitted_);
  }
  for (auto& execution : fresh) {
    CommunicatorCore& communicator = *execution->communicator();
    if (execution->point_to_point()) {
      if (const Status failed = failure_of(communicator); failed.ok()) {
        communicator.messages.submit(*this, std::move(execution));
      } else {
        execution->fail(failed.with_prefix(execution->call().describe() + ": "));
        finish_now(execution);
      }
      continue;
    }
    communicator.queued.push_back(std::move(execution));
    start_queued(communicator);
  }
}

Status EngineCore::failure_of(const CommunicatorCore& communicator) const {
  std::lock_guard lock(communicator.mutex);
  if (!communicator.failed.ok()) return communicator.failed;
  return left_.load() ? Status(ErrorCode::aborted, "this rank has left the job") : Status();
}

void EngineCore::start_queued(CommunicatorCore& communicator) {
  const Status failed = failure_of(communicator);
  if (!failed.ok() && !communicator.queued.empty())
    return fail(communicator, failed);  // submitted just before it failed
  while (!communicator.queued.empty() && communicator.active.size() < CommunicatorCore::most_active) {
    const std::shared_ptr<Execution> execution = communicator.queued.front();
    communicator.past[execution->sequence() % communicator.past.size()] = {execution->sequence(),
                                                                           execution->call().signature()};
    Rank peer = -1;
    if (const Status why = early_mismatch(communicator, *execution, peer); !why.ok()) {
      report({ErrorCode::mismatch, communicator.members[peer], parts_.self, communicator.global_id(), why.message()});
      return fail(communicator, why);  // before anything of it is reduced
    }
    if (running_count_ >= most_running) {
      scratch_wanted_ = true;
      return;
    }
    const std::uint16_t index = free_index();
    const Execution::Start started = execution->start(*this, index, parts_.clock->now());
    if (started == Execution::Start::wait) {
      scratch_wanted_ = true;
      return;
    }
    if (started == Execution::Start::failed) {  // the others would wait for this rank
      const Status why = execution->failure();
      report({why.code(), parts_.self, parts_.self, communicator.global_id(),
              fmt::format("{}: {}", who(parts_.self), why.message())});
      return fail(communicator, why);
    }
    communicator.queued.pop_front();
    running_[index] = execution;
    ++running_count_;
    communicator.active.push_back(execution);
    execution->advance();
  }
}

std::uint16_t EngineCore::free_index() {
  std::size_t index = 0;
  while (index < running_.size() && running_[index]) ++index;
  if (index == running_.size()) running_.emplace_back();
  return static_cast<std::uint16_t>(index);
}

bool EngineCore::start_now(const std::shared_ptr<Execution>& execution) {
  if (running_count_ >= most_running) return false;
  const std::uint16_t index = free_index();
  if (execution->start(*this, index, parts_.clock->now()) != Execution::Start::started) return false;
  running_[index] = execution;
  ++running_count_;
  execution->advance();
  return true;
}

void EngineCore::finish_now(const std::shared_ptr<Execution>& execution) {
  execution->finish_unstarted();
  finished(execution);
  news_.store(true, std::memory_order_release);  // somebody may wait for just this
}

void EngineCore::finished(const std::shared_ptr<Execution>& execution) {
  execution->publish();
  pending_.fetch_sub(1);
  if (execution->next_note != Time{} && parts_.control) parts_.control->set_activity("");  // it said that it waits
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
       at != communicator.early.end() && !at->first.point_to_point && at->first.sequence == execution.sequence(); ++at) {
    if (same_call(at->second.record.signature, ours)) continue;
    peer = at->first.peer;
    return mismatch(communicator, peer, execution.sequence(), at->second.record.signature, ours);
  }
  return {};
}

// ---- news from peers ----------------------------------------------------------------------------------------------

bool EngineCore::may_send_early(const CommunicatorCore& communicator, const Execution& execution, std::uint32_t tile,
                                Rank member) const {
  const CommunicatorCore::Member& there = communicator.member[member];
  const std::uint32_t open = there.early_sent - there.early_acked;
  if (open < CommunicatorCore::window / 2) return true;
  if (open >= CommunicatorCore::window) return false;
  for (const auto& other : communicator.active) {
    const int peer = other->prepared().peer_index(member);
    if (peer < 0) continue;
    if (other.get() == &execution) return other->oldest_eager_tile(peer) >= tile;
    if (other->oldest_eager_tile(peer) < other->tiles()) return false;
  }
  return true;
}

void EngineCore::took_early(CommunicatorCore& communicator, Rank rank, bool kept) {
  CommunicatorCore::Member& member = communicator.member[rank];
  ++member.taken;
  if (kept) --member.early_kept;
  if (member.taken - member.told < CommunicatorCore::window / 4) return;
  Record record;
  record.kind = RecordKind::entered;
  record.channel = communicator.id;
  record.consumed = member.told = member.taken;
  transfer_->send_record(communicator.members[rank], record);
}

void EngineCore::keep_early(CommunicatorCore& communicator, Rank member, const Record& record,
                            std::span<const std::byte> payload) {
  const bool windowed = record.kind == RecordKind::data;
  if (windowed ? ++communicator.member[member].early_kept > CommunicatorCore::window
               : ++communicator.early_grants > CommunicatorCore::most_early_grants) {
    suspect(communicator.members[member], Status(ErrorCode::transport_error, "it sent more than it was allowed to"));
    return;
  }
  auto& early = communicator.early[{record.signature.collective == static_cast<std::uint8_t>(Collective::send), record.sequence, record.tile, member, record.message, record.kind}];
  early.record = record;
  early.payload.assign(payload.begin(), payload.end());
}

void EngineCore::on_record(Rank peer, const Record& record, std::span<const std::byte> payload) {
  std::shared_ptr<CommunicatorCore> communicator;
  {
    std::lock_guard lock(mutex_);
    const auto at = by_id_.find(record.channel);
    if (at != by_id_.end()) {
      communicator = at->second.lock();
      if (!communicator) {  // dropped here; nothing of it is needed
        if (record.kind == RecordKind::grant && record.slot >= Transfer::eager_slots)
          transfer_->decline(peer, record.slot);
        return;
      }
    }
  }
  if (!communicator) {
    // A split may be complete there and not yet here.
    if (orphans_.size() >= most_orphans)
      return suspect(peer, Status(ErrorCode::transport_error, "it uses communicators that do not exist here"));
    orphans_.push_back({peer, record, {payload.begin(), payload.end()}});
    return;
  }
  const Rank member = communicator->rank_of_world(peer);
  if (member < 0 || record.kind < RecordKind::data || record.kind > RecordKind::matched ||
      (record.sequence == 0 && record.kind != RecordKind::entered && record.kind != RecordKind::matched) ||
      (record.kind == RecordKind::grant && record.slot < Transfer::eager_slots))
    return suspect(peer, Status(ErrorCode::transport_error, "it sent a message that makes no sense"));
  CommunicatorCore::Member& from = communicator->member[member];
  if (record.consumed - from.early_acked <= from.early_sent - from.early_acked) from.early_acked = record.consumed;
  if (record.kind == RecordKind::entered) return;
  if (!failure_of(*communicator).ok()) {
    if (record.kind == RecordKind::grant) transfer_->decline(peer, record.slot);
    return;
  }
  if (record.signature.collective == static_cast<std::uint8_t>(Collective::send))
    return on_message(*communicator, member, record, payload);
  Execution* execution = communicator->find_active(record.sequence);
  const CommunicatorCore::Past& past = communicator->past[record.sequence % communicator->past.size()];
  if (past.sequence == record.sequence && !same_call(past.signature, record.signature)) {
    if (record.kind == RecordKind::grant) transfer_->decline(peer, record.slot);
    report({ErrorCode::mismatch, peer, parts_.self, communicator->global_id(),
            mismatch(*communicator, member, record.sequence, record.signature, past.signature).message()});
    return;
  }
  // Seen, and alike. It may even come when the operation is over: parcels overtake each other.
  if (record.kind == RecordKind::announce && past.sequence >= record.sequence) return;
  if (execution == nullptr) {
    const bool waits = !communicator->queued.empty() && communicator->queued.front()->sequence() == record.sequence;
    if (!waits && past.sequence != 0 && past.sequence == record.sequence)
      return suspect(peer, Status(ErrorCode::transport_error, "it sent a message for an operation that is over"));
    return keep_early(*communicator, member, record, payload);
  }
  if (!execution->tile_active(record.tile)) {
    if (record.tile >= execution->tiles())
      return suspect(peer, Status(ErrorCode::transport_error, "it sent a message that is in no plan"));
    return keep_early(*communicator, member, record, payload);
  }
  if (record.kind == RecordKind::data) took_early(*communicator, member, false);
  const Status taken = execution->on_record(member, record, payload);
  if (!taken.ok()) return refuse(*communicator, member, *execution, record, taken);
  execution->advance();
}

void EngineCore::on_message(CommunicatorCore& communicator, Rank member, const Record& record,
                            std::span<const std::byte> payload) {
  const Status taken = communicator.messages.on_record(*this, member, record, payload);
  if (taken.ok()) return;
  if (record.kind == RecordKind::grant) transfer_->decline(communicator.members[member], record.slot);
  if (taken.code() != ErrorCode::mismatch) suspect(communicator.members[member], taken);
}

void EngineCore::on_block(std::uint64_t cookie, Outcome outcome, std::uint32_t bytes) {
  const auto index = static_cast<std::uint16_t>(cookie >> 48);
  FABRING_CHECK(index < running_.size() && running_[index]);
  Execution& execution = *running_[index];
  execution.on_block(static_cast<std::uint32_t>(cookie >> 32) & 0xffff, static_cast<StepId>(cookie), outcome, bytes);
  execution.advance();  // forward what was just reduced while it is in the cache
}

// ---- driving ------------------------------------------------------------------------------------------------------

bool EngineCore::ready_to_receive() {
  if (!transfer_) return true;
  const bool ready = transfer_->start();
  transfer_->poll();
  return ready;
}

bool EngineCore::progress() {
  bool moved = false;
  if (news_.exchange(false, std::memory_order_acquire)) {
    take_failures();
    take_submissions();
    moved = true;
  }
  if (adopt_.exchange(false, std::memory_order_acquire) && !orphans_.empty()) {
    std::vector<Orphan> again;
    again.swap(orphans_);
    for (const Orphan& orphan : again) on_record(orphan.peer, orphan.record, orphan.payload);
  }
  if (transfer_) moved = transfer_->poll() > 0 || moved;
  if (running_count_ > 0)
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (running_[i]) {
        moved = running_[i]->advance() || moved;
        finished_some_ = finished_some_ || running_[i]->finished();
      }
  if (transfer_) moved = transfer_->flush() || moved;
  if (finished_some_) {
    finished_some_ = false;
    retire();
    moved = true;
  }
  const Time now = parts_.clock->now();
  if (now >= next_tick_) {
    next_tick_ = now + std::chrono::milliseconds(20);
    tick(now);
  }
  return moved;
}

void EngineCore::retire() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (!running_[i] || !running_[i]->finished()) continue;
    const std::shared_ptr<Execution> execution = std::move(running_[i]);
    running_[i] = nullptr;
    --running_count_;
    CommunicatorCore& communicator = *execution->communicator();
    if (execution->point_to_point()) communicator.messages.retired(*this, *execution);
    std::erase(communicator.active, execution);
    finished(execution);
    if (!communicator.queued.empty()) start_queued(communicator);
  }
  if (scratch_wanted_) {  // somebody may have it now
    scratch_wanted_ = false;
    for (const auto& communicator : communicators())
      if (!communicator->queued.empty()) start_queued(*communicator);
  }
  notify_waiters();
}

void EngineCore::notify_waiters() {
  if (waiters_.load() == 0) return;
  std::lock_guard lock(turn_mutex_);
  turn_.notify_all();
}

void EngineCore::drive(const std::function<bool()>& enough, std::chrono::nanoseconds limit) {
  const auto start = std::chrono::steady_clock::now();
  std::uint32_t idle = 0, busy = 0;
  std::chrono::steady_clock::time_point idle_since;
  while (!enough()) {
    if (progress()) {
      idle = 0;
      // Others' operations may keep it busy past the limit.
      if (++busy % 256 == 0 && std::chrono::steady_clock::now() - start >= limit) return;
      continue;
    }
    if (++idle <= parts_.waiting.spins) continue;
    const auto now = std::chrono::steady_clock::now();
    if (now - start >= limit) return;
    if (idle == parts_.waiting.spins + 1) idle_since = now;
    if (now - idle_since < parts_.waiting.yield_for) {
      std::this_thread::yield();
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(limit - (now - start));
    const auto nap = std::min(left, parts_.waiting.sleep_for);
    if (parts_.endpoint) {
      parts_.endpoint->wait(nap);
    } else {
      std::this_thread::yield();
    }
  }
}

Status EngineCore::wait(Execution& execution, std::chrono::nanoseconds limit) {
  const bool bounded = limit < std::chrono::hours(24 * 365);  // now + nanoseconds::max() would overflow
  const auto end = std::chrono::steady_clock::now() + (bounded ? limit : std::chrono::nanoseconds(0));
  waiters_.fetch_add(1);
  bool asked = false;
  while (!execution.done()) {
    const auto left =
        bounded ? end - std::chrono::steady_clock::now() : std::chrono::nanoseconds(std::chrono::hours(1));
    if (left <= std::chrono::nanoseconds(0)) break;
    if (!left_.load() && drive_.try_lock()) {  // whoever leaves drives until the end
      drive([&] { return execution.done() || left_.load(); }, left);
      drive_.unlock();
    } else {
      if (!asked && parts_.endpoint) parts_.endpoint->wake();  // the progress thread may sleep there
      asked = true;
      std::unique_lock lock(turn_mutex_);
      if (!execution.done())
        turn_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1)));
    }
  }
  waiters_.fetch_sub(1);
  {
    std::lock_guard lock(turn_mutex_);
    turn_.notify_all();  // somebody else may drive now
  }
  if (!execution.done())
    return Status(ErrorCode::timeout, execution.call().describe() + " is not done yet; it goes on");
  return execution.status();
}

void EngineCore::drive_once() {
  if (!drive_.try_lock()) return;
  progress();
  drive_.unlock();
}

void EngineCore::background() {
  while (!stop_.load()) {
    if (pending_.load() > 0 && waiters_.load() == 0 && drive_.try_lock()) {
      drive([&] { return pending_.load() == 0 || waiters_.load() > 0 || stop_.load(); }, std::chrono::milliseconds(50));
      drive_.unlock();
      notify_waiters();
      continue;
    }
    std::unique_lock lock(turn_mutex_);
    if (stop_.load()) return;
    if (pending_.load() == 0) {
      turn_.wait_for(lock, std::chrono::milliseconds(100));
    } else {
      turn_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }
}

Traffic EngineCore::traffic() {
  if (drive_.try_lock()) {
    count_traffic();
    drive_.unlock();
  }  // else somebody drives, perhaps for long: the counts are a tick old at most
  std::lock_guard lock(mutex_);
  return traffic_;
}

void EngineCore::count_traffic() {
  if (!transfer_) return;
  const EndpointCounters counters = parts_.endpoint->counters();
  std::lock_guard lock(mutex_);
  traffic_.payload_bytes_sent = transfer_->payload_bytes_sent();
  traffic_.payload_bytes_received = transfer_->payload_bytes_received();
  traffic_.wire_bytes_sent = counters.bytes_sent;
  traffic_.wire_bytes_received = counters.bytes_received;
  traffic_.messages_sent = counters.messages_sent;
}

// ---- leaving ------------------------------------------------------------------------------------------------------

Status EngineCore::leave() {
  if (left_.exchange(true)) return {};
  std::thread progress_thread;
  {
    std::lock_guard lock(mutex_);  // submit() starts it under the same lock
    stop_.store(true);
    progress_thread = std::move(thread_);
  }
  {
    std::lock_guard lock(turn_mutex_);
    turn_.notify_all();
  }
  if (parts_.endpoint) parts_.endpoint->wake();
  if (progress_thread.joinable()) progress_thread.join();
  std::lock_guard lock(drive_);
  const bool healthy = [&] {
    std::lock_guard world_lock(world_->mutex);
    return world_->failed.ok();
  }();
  if (pending_.load() > 0) {
    const Status why(ErrorCode::aborted, "the engine was destroyed while this operation was under way");
    take_submissions();
    for (const auto& communicator : communicators()) fail(*communicator, why);
    for (const auto& communicator : communicators())
      if (parts_.control && communicator->id != 1)
        report({ErrorCode::aborted, -1, parts_.self, communicator->global_id(), why.message()});
  }
  const std::chrono::milliseconds limit = healthy ? parts_.config.leave_timeout : std::chrono::milliseconds(200);
  drive([&] { return pending_.load() == 0 && (!transfer_ || transfer_->drained()); }, limit);
  Status left;
  if (parts_.control) {
    std::atomic<bool> over{false};
    std::thread goodbye([&] {
      left = parts_.control->leave(limit);
      over.store(true);
      if (parts_.endpoint) parts_.endpoint->wake();
    });
    drive([&] { return over.load(); }, limit + std::chrono::seconds(1));
    goodbye.join();
  }
  if (parts_.endpoint) {
    parts_.endpoint->finish_sending();
    drive([&] { return transfer_->drained(); }, std::chrono::milliseconds(100));
    parts_.endpoint->close();
    // Completions of what was still open: executions must not stay behind with buffers that look busy.
    drive([&] { return pending_.load() == 0; }, std::chrono::milliseconds(200));
  }
  return left;
}

}  // namespace fabring
