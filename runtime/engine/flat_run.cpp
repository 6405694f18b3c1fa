#include "runtime/engine/flat_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/engine/call_buffers.hpp"
#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/local_steps.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t yields_per_look = 16;  // at the clock
constexpr std::uint32_t spins_at_full_speed = 64;

bool receives(StepKind kind) { return kind == StepKind::recv || kind == StepKind::recv_reduce; }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How long a rank waits before it would sleep: spins, then yields.
class Patience {
 public:
  explicit Patience(const WaitPolicy& waiting) : waiting_(waiting) {}
  bool fresh() const { return idle_ == 0; }
  /// False once it is over.
  bool again() {
    if (++idle_ <= waiting_.spins) {
      if (idle_ > spins_at_full_speed) pause();
      return true;
    }
    if (const std::uint32_t yields = idle_ - waiting_.spins; yields % yields_per_look == 1) {
      const auto now = std::chrono::steady_clock::now();
      if (yields == 1) since_ = now;
      if (now - since_ >= waiting_.yield_for) return false;
    }
    std::this_thread::yield();
    return true;
  }

 private:
  const WaitPolicy& waiting_;
  std::uint32_t idle_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace

FlatRun::FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling)
    : plan_(std::move(plan)),
      call_(std::move(call)),
      operation_(operation),
      operands_(*plan_, call_),
      signature_(call_.signature()) {
  operands_.bind(place_, tiling, 0);
  scratch_.resize(operands_.lay_out_scratch(place_));
  place_.scratch = scratch_.data();
  for (const Step& step : plan_->plan.steps)
    if (step.peer >= 0)
      longest_message_ =
          std::max(longest_message_, operands_.bytes_of(place_, step.kind == StepKind::send ? step.from : step.to));
  arrange();
}

// What others wait for comes first; receives keep the plan's order, which is that of the messages.
void FlatRun::arrange() {
  const Plan& plan = plan_->plan;
  std::vector<std::uint32_t> need = plan_->dependencies;
  std::vector<bool> taken(plan.steps.size(), false);
  const auto take_next = [&](auto&& wanted) {
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      if (taken[id] || need[id] > 0 || !wanted(plan.steps[id].kind)) continue;
      taken[id] = true;
      order_.push_back(id);
      for (std::uint32_t i = 0; i < plan.steps[id].successor_count; ++i)
        --need[plan.successors[plan.steps[id].first_successor + i]];
      return true;
    }
    return false;
  };
  while (take_next([](StepKind kind) { return kind == StepKind::send; }) ||
         take_next([](StepKind kind) { return !receives(kind); }) || take_next(receives)) {
  }
}

bool FlatRun::serves(const Operation& operation) const {
  return operation.collective == operation_.collective && operation.count == operation_.count &&
         operation.type == operation_.type && operation.reduction == operation_.reduction &&
         operation.root == operation_.root && !operation.by_blocks && operation.tensors.empty() &&
         operation.wire_type == operation_.wire_type && operation.timeout == operation_.timeout;
}

bool FlatRun::take_buffers(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices) {
  return fabring::take_buffers(call_, operation, communicator, devices).ok() && !call_.device.any();
}

bool FlatRun::fits(const EngineCore& engine) const { return longest_message_ <= engine.eager_limit(); }

FlatRun::End FlatRun::run(EngineCore& engine, CommunicatorCore& communicator, std::uint32_t sequence) {
  sequence_ = sequence;
  operands_.bring_in(place_);
  for (next_ = 0; next_ < order_.size(); ++next_)
    if (!run(engine, communicator, plan_->plan.steps[order_[next_]])) return End::stopped;
  operands_.bring_out(place_);
  if (call_.owned) call_.owned.reset();
  return End::done;
}

bool FlatRun::run(EngineCore& engine, CommunicatorCore& communicator, const Step& step) {
  if (step.kind == StepKind::send) return send(engine, communicator, step);
  if (receives(step.kind)) return receive(engine, communicator, step);
  run_local_step(call_, plan_->plan, operands_, place_, step);
  return true;
}

bool FlatRun::send(EngineCore& engine, CommunicatorCore& communicator, const Step& step) {
  CommunicatorCore::Member& member = communicator.member[step.peer];
  const auto holds_back = [&] { return member.early_sent - member.early_acked >= CommunicatorCore::window / 2; };
  for (Patience patience(engine.waiting()); holds_back();) {
    hear_news(engine, communicator, step.peer);
    if (holds_back() && (engine.has_news() || !patience.again())) return false;
  }
  const auto from = operands_.at(place_, step.from);
  Record record;
  record.channel = communicator.id;
  record.sequence = sequence_;
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(from.size());
  record.consumed = member.taken;
  record.signature = signature_;
  const Rank peer = communicator.members[step.peer];
  for (Patience patience(engine.waiting()); !engine.transfer().send_now(peer, record, from);) {
    engine.transfer().look();
    engine.transfer().flush();
    if (engine.has_news() || !patience.again()) return false;
  }
  member.told = member.taken;
  ++member.early_sent;
  return true;
}

bool FlatRun::receive(EngineCore& engine, CommunicatorCore& communicator, const Step& step) {
  const auto to = operands_.at(place_, step.to);
  std::span<const std::byte> payload;
  if (!await(engine, communicator, step, to.size(), payload)) return false;
  if (step.kind == StepKind::recv_reduce) {
    fold_incoming(call_, operands_, place_, step, payload.data());
  } else if (!to.empty()) {
    std::memcpy(to.data(), payload.data(), to.size());
  }
  engine.transfer().pop(communicator.members[step.peer], payload.size());
  engine.took_early(communicator, step.peer, false);
  return true;
}

// From whom this operation receives nothing, or nothing yet: how much of ours it has taken.
void FlatRun::hear_news(EngineCore& engine, CommunicatorCore& communicator, Rank member) {
  Record record;
  std::span<const std::byte> payload;
  const Rank peer = communicator.members[member];
  while (engine.transfer().front(peer, record, payload)) {
    if (record.channel == communicator.id) engine.heard_of(communicator, member, record);
    if (record.channel == communicator.id && record.sequence == sequence_) return;
    engine.transfer().take(peer, record, payload);
  }
}

// Whatever this operation does not expect is for another one, and for the engine to keep; or it is the sign of a
// mismatch, and the engine sees to that once there is an Execution to compare with.
bool FlatRun::await(EngineCore& engine, CommunicatorCore& communicator, const Step& step, std::size_t bytes,
                    std::span<const std::byte>& payload) {
  const Rank peer = communicator.members[step.peer];
  Transfer& transfer = engine.transfer();
  Record record;
  Patience patience(engine.waiting());
  while (true) {
    if (transfer.front(peer, record, payload)) {
      const bool ours = record.channel == communicator.id && record.sequence == sequence_;
      if (ours && record.kind == RecordKind::data && record.message == step.message && record.tile == 0 &&
          payload.size() == bytes && record.signature == signature_) {
        engine.heard_of(communicator, step.peer, record);
        return true;
      }
      if (ours) return false;
      transfer.take(peer, record, payload);
      continue;
    }
    if (patience.fresh()) transfer.flush();  // they may sleep
    if (engine.has_news() || !patience.again()) return false;
  }
}

}  // namespace fabring
