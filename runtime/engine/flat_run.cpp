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
constexpr std::uint32_t most_yields_for_loan = 64;
constexpr std::size_t least_answer = 1024;

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

// What others wait for comes first; receives keep the plan's order, which is that of the messages.
std::vector<StepId> in_order(const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan;
  std::vector<StepId> order;
  std::vector<std::uint32_t> need = prepared.dependencies;
  std::vector<bool> taken(plan.steps.size(), false);
  const auto take_next = [&](auto&& wanted) {
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      if (taken[id] || need[id] > 0 || !wanted(plan.steps[id].kind)) continue;
      taken[id] = true;
      order.push_back(id);
      for (std::uint32_t i = 0; i < plan.steps[id].successor_count; ++i)
        --need[plan.successors[plan.steps[id].first_successor + i]];
      return true;
    }
    return false;
  };
  while (take_next([](StepKind kind) { return kind == StepKind::send; }) ||
         take_next([](StepKind kind) { return !receives(kind); }) || take_next(receives)) {
  }
  return order;
}

}  // namespace

// The peer's messages come in the order sent. With a plan that looks alike from both sides that is the order in which
// this rank takes them if each is received as many stages after its number was sent.
bool FlatRun::may_be(const PreparedPlan& plan, const Tiling& tiling) {
  if (tiling.tiles == 1) return true;
  if (plan.plan.size != 2) return false;
  std::vector<std::uint32_t> sent, received;
  std::uint32_t stage = 0;
  for (const StepId id : in_order(plan)) {
    const StepKind kind = plan.plan.steps[id].kind;
    if (receives(kind)) received.push_back(++stage);
    if (kind == StepKind::send) sent.push_back(stage);
  }
  if (sent.empty() || sent.size() != received.size()) return false;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (received[i] - sent[i] != received[0] - sent[0]) return false;
  return true;
}

FlatRun::FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling)
    : plan_(std::move(plan)),
      call_(std::move(call)),
      operation_(operation),
      operands_(*plan_, call_),
      tiling_(tiling),
      order_(in_order(*plan_)),
      signature_(call_.signature()) {
  for (std::uint32_t i = 0; i < order_.size(); ++i)
    if (receives(plan_->plan.steps[order_[i]].kind)) stage_ends_.push_back(i);
  stage_ends_.push_back(static_cast<std::uint32_t>(order_.size()));
  places_.resize(std::min(tiling_.tiles, stages()));
  operands_.bind(places_[0], tiling_, 0);
  const std::size_t bytes = operands_.lay_out_scratch(places_[0]);
  scratch_.resize(bytes * places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].scratch = scratch_.data() + i * bytes;
  for (const Step& step : plan_->plan.steps)
    if (step.peer >= 0)
      longest_message_ =
          std::max(longest_message_, operands_.bytes_of(places_[0], step.kind == StepKind::send ? step.from : step.to));
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

bool FlatRun::fits(const EngineCore& engine, const CommunicatorCore& communicator) const {
  if (longest_message_ > engine.eager_limit()) return false;
  return tiling_.tiles == 1 ||
         std::all_of(plan_->peers.begin(), plan_->peers.end(), [&](const PreparedPlan::Peer& peer) {
           return engine.transfer().is_fast(communicator.members[peer.rank]);
         });
}

bool FlatRun::expects_what_came(const CommunicatorCore& communicator, std::uint32_t sequence) const {
  const auto& early = communicator.early;
  for (auto at = early.lower_bound({false, sequence, 0, 0, 0, RecordKind::data});
       at != early.end() && !at->first.point_to_point && at->first.sequence == sequence; ++at) {
    const CommunicatorCore::EarlyKey& came = at->first;
    if (came.kind != RecordKind::data || came.tile >= tiling_.tiles ||
        !same_call(at->second.record.signature, signature_) ||
        std::ranges::none_of(plan_->plan.steps, [&](const Step& step) {
          return receives(step.kind) && step.peer == came.peer && step.message == came.message;
        }))
      return false;
  }
  return true;
}

FlatRun::End FlatRun::run(EngineCore& engine, CommunicatorCore& communicator, std::uint32_t sequence) {
  sequence_ = sequence;
  begun_ = 0;
  loan_.reset();
  for (turn_ = 0; turn_ < tiling_.tiles + stages() - 1; ++turn_) {
    stage_ = turn_ < tiling_.tiles ? 0 : turn_ - tiling_.tiles + 1;
    next_ = stage_begin(stage_);
    if (turn_ > 0 && engine.is_wanted()) return End::stopped;
    for (const std::uint32_t last = std::min(turn_, stages() - 1); stage_ <= last; ++stage_)
      if (!run_stage(engine, communicator)) return End::stopped;
  }
  if (loan_ && !await_loan(engine)) return End::stopped;
  if (call_.owned) call_.owned.reset();
  return End::done;
}

// The peer needs nothing more to read what it was lent last.
bool FlatRun::await_loan(EngineCore& engine) const {
  engine.transfer().flush();
  for (std::uint32_t idle = 0; !engine.transfer().is_back(loan_->peer, loan_->number); ++idle) {
    if (engine.has_news() || idle > engine.waiting().spins + most_yields_for_loan) return false;
    if (idle <= engine.waiting().spins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  return true;
}

bool FlatRun::run_stage(EngineCore& engine, CommunicatorCore& communicator) {
  const std::uint32_t tile = turn_ - stage_;
  Placement& place = places_[tile % places_.size()];
  next_ = stage_begin(stage_);
  if (stage_ == 0) {
    if (tiling_.tiles > 1) operands_.bind(place, tiling_, tile);
    operands_.bring_in(place);
    ++begun_;
  }
  for (; next_ < stage_ends_[stage_]; ++next_)
    if (!run(engine, communicator, place, order_[next_])) return false;
  if (stage_ + 1 == stages()) operands_.bring_out(place);
  return true;
}

std::uint32_t FlatRun::first_tile() const { return turn_ < stages() ? 0 : turn_ - stages() + 1; }

std::vector<StepId> FlatRun::done(std::uint32_t tile) const {
  std::vector<StepId> steps;
  for (std::uint32_t stage = 0; stage < stages(); ++stage) {
    const std::uint32_t turn = tile + stage;
    if (turn > turn_ || (turn == turn_ && stage > stage_)) break;
    const std::uint32_t end = turn == turn_ && stage == stage_ ? next_ : stage_ends_[stage];
    steps.insert(steps.end(), order_.begin() + stage_begin(stage), order_.begin() + end);
  }
  return steps;
}

bool FlatRun::run(EngineCore& engine, CommunicatorCore& communicator, const Placement& place, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (step.kind == StepKind::send) return send(engine, communicator, place, id);
  if (receives(step.kind)) return receive(engine, communicator, place, id);
  run_local_step(call_, plan_->plan, operands_, place, step);
  return true;
}

bool FlatRun::may_send(const CommunicatorCore& communicator, const Step& step) {
  const CommunicatorCore::Member& member = communicator.member[step.peer];
  return member.early_sent - member.early_acked < CommunicatorCore::window / 2;
}

Record FlatRun::record_for(CommunicatorCore& communicator, const Placement& place, const Step& step) const {
  CommunicatorCore::Member& member = communicator.member[step.peer];
  Record record;
  record.channel = communicator.id;
  record.sequence = sequence_;
  record.tile = place.tile;
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(operands_.bytes_of(place, step.from));
  record.consumed = member.taken;
  record.signature = signature_;
  return record;
}

void FlatRun::sent(CommunicatorCore& communicator, const Step& step, const Record& record) {
  CommunicatorCore::Member& member = communicator.member[step.peer];
  member.told = record.consumed;
  ++member.early_sent;
}

bool FlatRun::send(EngineCore& engine, CommunicatorCore& communicator, const Placement& place, StepId id) {
  const Step& step = plan_->plan.steps[id];
  for (Patience patience(engine.waiting()); !may_send(communicator, step);) {
    hear_news(engine, communicator, step.peer);
    if (!may_send(communicator, step) && (engine.has_news() || !patience.again())) return false;
  }
  const Record record = record_for(communicator, place, step);
  const auto from = operands_.at(place, step.from);
  Transfer& transfer = engine.transfer();
  const Rank peer = communicator.members[step.peer];
  std::uint32_t loan = 0;
  if (from.size() >= FastLoan::least_bytes && plan_->may_be_lent[id] && transfer.is_fast(peer) &&
      transfer.lend_fast(peer, record, from, operands_.comes_back_there(place, id), loan)) {
    loan_ = {peer, loan};
    sent(communicator, step, record);
    return true;
  }
  for (Patience patience(engine.waiting()); !transfer.send_now(peer, record, from);) {
    transfer.look();
    transfer.flush();
    if (engine.has_news() || !patience.again()) return false;
  }
  sent(communicator, step, record);
  return true;
}

bool FlatRun::receive(EngineCore& engine, CommunicatorCore& communicator, const Placement& place, StepId id) {
  const Step& step = plan_->plan.steps[id];
  if (take_kept(engine, communicator, place, step)) return true;
  const auto to = operands_.at(place, step.to);
  std::span<const std::byte> payload;
  if (!await(engine, communicator, place.tile, step, to.size(), payload)) return false;
  use(place, step, payload);
  Transfer& transfer = engine.transfer();
  const Rank peer = communicator.members[step.peer];
  if (!transfer.is_intact(peer)) return false;
  if (!answer(engine, communicator, place, step, to)) transfer.pop(peer, payload.size());
  engine.took_early(communicator, step.peer, false);
  return true;
}

void FlatRun::use(const Placement& place, const Step& step, std::span<const std::byte> payload) {
  const auto to = operands_.at(place, step.to);
  if (step.kind == StepKind::recv_reduce) {
    fold_incoming(call_, operands_, place, step, payload.data());
  } else if (to.data() != payload.data() && !to.empty()) {
    std::memcpy(to.data(), payload.data(), to.size());
  }
}

// A message that came before the call, or while its sender was heard of.
bool FlatRun::take_kept(EngineCore& engine, CommunicatorCore& communicator, const Placement& place, const Step& step) {
  if (communicator.early.empty()) return false;
  const auto at = communicator.early.find({false, sequence_, place.tile, step.peer, step.message, RecordKind::data});
  if (at == communicator.early.end() || at->second.payload.size() != operands_.at(place, step.to).size()) return false;
  use(place, step, at->second.payload);
  communicator.early.erase(at);
  engine.took_early(communicator, step.peer, true);
  return true;
}

// What was made of a message goes back to its sender at once: then it takes the message's place.
bool FlatRun::answer(EngineCore& engine, CommunicatorCore& communicator, const Placement& place, const Step& received,
                     std::span<const std::byte> result) {
  if (result.size() < least_answer || next_ + 1 >= stage_ends_[stage_] ||
      !engine.transfer().is_fast(communicator.members[received.peer]))
    return false;
  const Step& next = plan_->plan.steps[order_[next_ + 1]];
  if (received.kind != StepKind::recv_reduce || next.kind != StepKind::send || next.peer != received.peer ||
      operands_.at(place, next.from).data() != result.data() || operands_.bytes_of(place, next.from) != result.size() ||
      !may_send(communicator, next))
    return false;
  Record record = record_for(communicator, place, next);
  ++record.consumed;  // that message is being taken
  if (!engine.transfer().answer_fast(communicator.members[next.peer], record, result)) return false;
  sent(communicator, next, record);
  ++next_;
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
bool FlatRun::await(EngineCore& engine, CommunicatorCore& communicator, std::uint32_t tile, const Step& step,
                    std::size_t bytes, std::span<const std::byte>& payload) {
  const Rank peer = communicator.members[step.peer];
  Transfer& transfer = engine.transfer();
  Record record;
  Patience patience(engine.waiting());
  while (true) {
    if (transfer.front(peer, record, payload)) {
      const bool ours = record.channel == communicator.id && record.sequence == sequence_;
      if (ours && record.kind == RecordKind::data && record.message == step.message && record.tile == tile &&
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
