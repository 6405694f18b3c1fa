// The reporting side of EngineCore: what this rank is doing, for whoever asks (`fabring status`, another rank). The
// state belongs to the driver, so it is the driver that looks, once every tick while somebody asks; when nobody drives,
// who asks takes the drive for that moment. Nothing is written down while nobody asks.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "fabring/version.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/status/status_wire.hpp"

namespace fabring {
namespace {

constexpr auto drivers_limit = std::chrono::milliseconds(400);  // a driver looks every 20 ms
constexpr auto others_limit = std::chrono::milliseconds(1000);

std::uint64_t milliseconds(Time duration) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()));
}

// What is said of a rank is bounded, so what tells most comes first.
int weight(CommunicatorCore& communicator, bool busy) {
  std::lock_guard lock(communicator.mutex);
  return !communicator.failed.ok() && !communicator.shrunk ? 0 : busy ? 1 : 2;
}

int weight(OperationPhase phase) {
  return phase == OperationPhase::running ? 0 : phase == OperationPhase::waiting ? 1 : 2;
}

}  // namespace

void EngineCore::ask_state(StateAskers::Tell tell) {
  if (!askers_.add(std::move(tell)) || !drive_->try_lock()) return;
  HeldDrive held(*drive_);
  release_drive(held);
}

// Between the last tick of a driver and its unlocking somebody may ask and find the drive taken.
void EngineCore::release_drive(HeldDrive& held) {
  do {
    within_memory([&] { tell_state(); });
    held.unlock();
  } while (drive_->asked.load() && held.try_lock_again());
}

void EngineCore::tell_state() {
  if (!drive_->asked.load(std::memory_order_relaxed)) return;
  const std::vector<StateAskers::Tell> askers = askers_.take();
  if (askers.empty()) return;
  const RankState state = look();
  for (const auto& tell : askers) tell(state);
}

RankState EngineCore::outline(const std::set<const CommunicatorCore*>& busy) const {
  RankState state;
  const Time now = parts_.clock->now();
  state.rank = parts_.self;
  state.world = parts_.world_size;
  state.job_id = parts_.config.job_id;
  state.version = FABRING_VERSION;
  state.host = parts_.host;
  state.pid = static_cast<std::uint32_t>(::getpid());
  state.up_ms = milliseconds(now - began_);
  if (const Time ended = last_end_.load(std::memory_order_relaxed); ended != Time{})
    state.idle_ms = static_cast<std::int64_t>(milliseconds(now - ended));
  state.leaving = leaving_.has_begun();
  if (parts_.control) state.strangers = parts_.control->strangers();
  {
    const std::lock_guard lock(mutex_);
    state.left_out.assign(left_out_.begin(), left_out_.end());
  }
  auto all = communicators();
  const auto by_id = [](const auto& a, const auto& b) { return a->id < b->id; };
  std::sort(all.begin(), all.end(), by_id);
  state.communicator_count = static_cast<std::uint32_t>(all.size());
  if (all.size() > RankState::most_communicators) {
    std::vector<std::pair<int, std::shared_ptr<CommunicatorCore>>> weighed;
    for (auto& communicator : all)
      weighed.emplace_back(weight(*communicator, busy.contains(communicator.get())), communicator);
    std::stable_sort(weighed.begin(), weighed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    all.clear();
    for (std::size_t i = 0; i < RankState::most_communicators; ++i) all.push_back(std::move(weighed[i].second));
    std::sort(all.begin(), all.end(), by_id);
  }
  for (const auto& communicator : all) {
    CommunicatorState one;
    one.id = communicator->global_id();
    one.label = communicator->label;
    one.members = static_cast<std::uint32_t>(communicator->size());
    std::lock_guard lock(communicator->mutex);
    one.called = communicator->last_sequence;
    if (!communicator->failed.ok()) {
      one.failed = static_cast<std::uint8_t>(communicator->failed.code());
      one.failure = communicator->failed.message();
    }
    one.shrunk = communicator->shrunk;
    state.communicators.push_back(std::move(one));
  }
  return state;
}

// With the drive held.
RankState EngineCore::look() {
  struct UnderWay {
    std::shared_ptr<CommunicatorCore> communicator;
    std::shared_ptr<Execution> execution;
    OperationPhase phase;
    auto place() const { return std::tuple(weight(phase), execution->watchdog().begun_at()); }
  };
  std::vector<UnderWay> operations;
  const auto all = communicators();
  for (const auto& communicator : all) {
    for (auto& execution : communicator->running())
      if (!execution->failed()) operations.push_back({communicator, execution, OperationPhase::running});
    for (auto& execution : communicator->messages.waiting())
      if (!execution->failed()) operations.push_back({communicator, execution, OperationPhase::waiting});
    for (const auto& execution : communicator->queued)
      operations.push_back({communicator, execution, OperationPhase::queued});
  }
  std::vector<std::shared_ptr<Execution>> submitted;
  {
    std::lock_guard lock(mutex_);
    submitted = submitted_;
  }
  submitted.insert(submitted.begin(), fresh_.begin(), fresh_.end());
  for (const auto& execution : submitted)
    operations.push_back({execution->communicator(), execution, OperationPhase::queued});
  std::stable_sort(operations.begin(), operations.end(),
                   [](const UnderWay& a, const UnderWay& b) { return a.place() < b.place(); });
  const auto count = static_cast<std::uint32_t>(operations.size());
  operations.resize(std::min(operations.size(), RankState::most_operations));
  std::set<const CommunicatorCore*> busy;
  for (const UnderWay& one : operations) busy.insert(one.communicator.get());
  RankState state = outline(busy);
  state.operation_count = count;
  state.memory = memory();
  if (parts_.endpoint) state.strangers += parts_.endpoint->counters().strangers;
  const Time now = parts_.clock->now();
  for (const UnderWay& one : operations)
    state.operations.push_back(one.execution->state(*one.communicator, one.phase, now));
  for (const auto& communicator : all)
    for (CommunicatorState& one : state.communicators)
      if (one.id == communicator->global_id()) {
        const auto& past = communicator->past[one.called % communicator->past.size()];
        if (past.sequence == one.called && one.called != 0) one.last_call = describe(past.signature);
      }
  state.driver = pending_.load() > 0 ? Driver::thread : Driver::nobody;
  return state;
}

MemoryAccount EngineCore::memory() const {
  MemoryAccount memory;
  memory.peers = static_cast<std::uint32_t>(std::max(parts_.world_size - 1, 0));
  if (transfer_) {
    const Transfer::Memory held = transfer_->memory();
    memory.posted = held.posted;
    memory.outgoing = held.outgoing;
    memory.landings = held.landings;
    memory.channels = parts_.endpoint->held_bytes();
  }
  memory.scratch = scratch_.held() + flat_scratch_.held();
  memory.scratch_lent = scratch_.lent();
  memory.scratch_most = scratch_.most_held() + flat_scratch_.held();
  memory.scratch_limit = scratch_.budget();
  memory.pinned = devices_.staging().held();
  memory.pinned_limit = devices_.staging().budget();
  memory.copies = input_copies_.held();
  memory.mapped = mapped_.bytes();
  return memory;
}

RankState EngineCore::state() {
  struct Given {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<RankState> state;
  };
  const auto given = std::make_shared<Given>();
  ask_state([given](const RankState& state) {
    std::lock_guard lock(given->mutex);
    given->state = state;
    given->changed.notify_all();
  });
  std::unique_lock lock(given->mutex);
  if (given->changed.wait_for(lock, drivers_limit, [&] { return given->state.has_value(); })) return *given->state;
  lock.unlock();
  RankState unheard = outline();
  unheard.driver = Driver::unheard;
  unheard.operation_count = static_cast<std::uint32_t>(pending_.load());
  return unheard;
}

std::vector<RankNews> EngineCore::news(bool everybody) {
  RankNews own;
  own.rank = parts_.self;
  own.host = parts_.host;
  own.pid = static_cast<std::uint32_t>(::getpid());
  own.presence = RankNews::Presence::answered;
  own.silent_ms = 0;
  own.state = state().encode();
  if (!everybody || !parts_.control) return {std::move(own)};
  std::vector<RankNews> all = parts_.control->ask_states(others_limit);
  if (static_cast<std::size_t>(own.rank) >= all.size()) return {std::move(own)};
  all[static_cast<std::size_t>(own.rank)] = std::move(own);
  return all;
}

Status EngineCore::open_status_door(std::uint64_t job_nonce) {
  if (parts_.control)
    parts_.control->on_question([this, plane = parts_.control.get()](std::uint64_t token) {
      ask_state([plane, token](const RankState& state) { plane->give_state(token, state.encode()); });
    });
  auto door = StatusDoor::open(status_name(job_nonce, parts_.self), [this](bool everybody) { return news(everybody); });
  if (!door) return door.error();
  door_ = std::move(*door);
  return {};
}

}  // namespace fabring
