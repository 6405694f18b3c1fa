#include "runtime/engine/flat_run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/call_buffers.hpp"
#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/local_steps.hpp"
#include "runtime/engine/yield_core.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t yields_per_look = 16;  // at the clock
constexpr std::uint32_t spins_at_full_speed = 64;
constexpr std::uint32_t looks_at_full_speed = 1024;
constexpr std::uint32_t most_yields_for_loan = 64;
constexpr std::size_t least_answer = 1024;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How long a rank waits before it would sleep: spins, then yields.
class Patience {
 public:
  explicit Patience(const WaitPolicy& waiting) : waiting_(waiting) {}
  /// How often to look at one line of memory before again().
  std::uint32_t looks() const { return idle_ == 0 && waiting_.spins > 0 ? looks_at_full_speed : 1; }
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
    yield_core(waiting_);
    return true;
  }

 private:
  const WaitPolicy& waiting_;
  std::uint32_t idle_ = 0;
  std::chrono::steady_clock::time_point since_;
};

std::size_t longest_message_of(const PreparedPlan& plan, const Operands& operands, const Placement& largest) {
  std::size_t longest = 0;
  for (const Step& step : plan.plan.steps)
    if (step.peer >= 0)
      longest = std::max(longest, operands.bytes_of(largest, step.kind == StepKind::send ? step.from : step.to));
  return longest;
}

}  // namespace

// The peer's messages come in the order sent. With a plan that looks alike from both sides that is the order in which
// this rank takes them if each is received as many stages after its number was sent.
bool FlatRun::may_be(const PreparedPlan& plan, const Call& call, const Tiling& tiling, std::size_t longest) {
  Operands operands(plan, call);
  Placement largest;
  operands.bind(largest, tiling, 0);
  if (longest_message_of(plan, operands, largest) > longest) return false;
  if (tiling.tiles == 1) return true;
  if (plan.plan.size != 2) return false;
  std::vector<std::uint32_t> sent, received;
  std::uint32_t stage = 0;
  for (const StepId id : FlatSteps(plan).order) {
    const StepKind kind = plan.plan.steps[id].kind;
    if (receives(kind)) received.push_back(++stage);
    if (kind == StepKind::send) sent.push_back(stage);
  }
  if (sent.empty() || sent.size() != received.size()) return false;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (received[i] - sent[i] != received[0] - sent[0]) return false;
  return true;
}

FlatRun::FlatRun(std::shared_ptr<const PreparedPlan> plan, Call call, const Operation& operation, const Tiling& tiling,
                 const CommunicatorCore& communicator, const Transfer& transfer)
    : plan_(std::move(plan)),
      call_(std::move(call)),
      operation_(operation),
      operands_(*plan_, call_),
      tiling_(tiling),
      steps_(*plan_),
      tiles_(std::min(tiling_.tiles, stages())),
      signature_(call_.signature()) {
  messages_ = messages_of(communicator, transfer);
  if (reduces(call_.collective) && call_.op != ReduceOp::user) kernel_.emplace(call_.carried(), call_.op);
  Placement& largest = tiles_[0].placement;
  operands_.bind(largest, tiling_, 0);
  const std::size_t bytes = operands_.lay_out_scratch(largest);
  scratch_.resize(bytes * tiles_.size());
  for (std::size_t i = 0; i < tiles_.size(); ++i) tiles_[i].placement.scratch = scratch_.data() + i * bytes;
  longest_message_ = longest_message_of(*plan_, operands_, largest);
}

std::vector<FlatRun::Message> FlatRun::messages_of(const CommunicatorCore& communicator,
                                                   const Transfer& transfer) const {
  std::vector<Message> messages(steps_.order.size());
  for (std::uint32_t i = 0; i < messages.size(); ++i) {
    const Step& step = step_at(i);
    if (step.peer < 0) continue;
    const Record record = record_for(communicator, 0, step, 0);
    const Rank peer = communicator.members[step.peer];
    const bool fast = transfer.is_fast(peer) && fits_fast(record);
    messages[i] = {peer, fast, fast ? DataHead(record) : DataHead()};
  }
  return messages;
}

bool FlatRun::take_others(const Operation& operation, const CommunicatorCore& communicator, DeviceRuntime* devices) {
  looked_up_ = false;
  taken_ = fabring::take_buffers(call_, operation, communicator, devices).ok() && !call_.device.any();
  if (!taken_) return false;
  operation_.in = operation.in;
  operation_.out = operation.out;
  operation_.memory = operation.memory;
  return true;
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
  begun_ = turn_ = stage_ = 0;
  loans_.clear();
  const bool over = tiling_.tiles == 1 ? run_one_tile(engine, communicator) : run_in_turns(engine, communicator);
  if (!over || (!loans_.empty() && !await_loans(engine))) return End::stopped;
  if (call_.owned) {  // the next call needs a copy of its own
    call_.owned.reset();
    taken_ = false;
  }
  return End::done;
}

bool FlatRun::run_one_tile(EngineCore& engine, CommunicatorCore& communicator) {
  Tile& tile = tiles_[0];
  if (!looked_up_) {
    look_up_places(tile);
    looked_up_ = true;
  }
  operands_.bring_in(tile.placement);
  begun_ = 1;
  end_ = static_cast<std::uint32_t>(steps_.order.size());
  for (next_ = 0; next_ < end_; ++next_)
    if (!run_next(engine, communicator, tile)) return false;
  operands_.bring_out(tile.placement);
  turn_ = stages();  // it is done
  return true;
}

bool FlatRun::run_in_turns(EngineCore& engine, CommunicatorCore& communicator) {
  for (turn_ = 0; turn_ < tiling_.tiles + stages() - 1; ++turn_) {
    stage_ = turn_ < tiling_.tiles ? 0 : turn_ - tiling_.tiles + 1;
    next_ = stage_begin(stage_);
    if (turn_ > 0 && engine.is_wanted()) return false;
    for (const std::uint32_t last = std::min(turn_, stages() - 1); stage_ <= last; ++stage_)
      if (!run_stage(engine, communicator)) return false;
  }
  return true;
}

// Each peer gives back in order what it was lent, so the last of each stands for those before it.
void FlatRun::lent(Rank peer, std::uint32_t number) {
  const auto known = std::ranges::find(loans_, peer, &FastLoan::peer);
  if (known == loans_.end())
    loans_.push_back({peer, number});
  else
    known->number = number;
}

// No peer reads the caller's memory any more.
bool FlatRun::await_loans(EngineCore& engine) const {
  engine.transfer().flush();
  const auto is_back = [&](const FastLoan& loan) { return engine.transfer().is_back(loan.peer, loan.number); };
  for (std::uint32_t idle = 0; !std::ranges::all_of(loans_, is_back); ++idle) {
    if (engine.has_news() || idle > engine.waiting().spins + most_yields_for_loan) return false;
    if (idle <= engine.waiting().spins) {
      pause();
    } else {
      yield_core(engine.waiting());
    }
  }
  return true;
}

bool FlatRun::run_stage(EngineCore& engine, CommunicatorCore& communicator) {
  const std::uint32_t number = turn_ - stage_;
  Tile& tile = tiles_[number % tiles_.size()];
  next_ = stage_begin(stage_);
  if (stage_ == 0) {
    operands_.bind(tile.placement, tiling_, number);
    look_up_places(tile);
    operands_.bring_in(tile.placement);
    ++begun_;
  }
  for (end_ = steps_.stage_ends[stage_]; next_ < end_; ++next_)
    if (!run_next(engine, communicator, tile)) return false;
  if (stage_ + 1 == stages()) operands_.bring_out(tile.placement);
  return true;
}

std::uint32_t FlatRun::first_tile() const { return turn_ < stages() ? 0 : turn_ - stages() + 1; }

std::vector<StepId> FlatRun::done(std::uint32_t tile) const {
  if (tiling_.tiles == 1) return {steps_.order.begin(), steps_.order.begin() + next_};
  std::vector<StepId> steps;
  for (std::uint32_t stage = 0; stage < stages(); ++stage) {
    const std::uint32_t turn = tile + stage;
    if (turn > turn_ || (turn == turn_ && stage > stage_)) break;
    const std::uint32_t end = turn == turn_ && stage == stage_ ? next_ : steps_.stage_ends[stage];
    steps.insert(steps.end(), steps_.order.begin() + stage_begin(stage), steps_.order.begin() + end);
  }
  return steps;
}

bool FlatRun::run_next(EngineCore& engine, CommunicatorCore& communicator, Tile& tile) {
  const Step& step = step_at(next_);
  if (step.kind == StepKind::send) return send(engine, communicator, tile);
  if (receives(step.kind)) return receive(engine, communicator, tile);
  run_local(tile, step);
  return true;
}

void FlatRun::run_local(const Tile& tile, const Step& step) const {
  if (step.kind != StepKind::reduce) return run_local_step(call_, plan_->plan, operands_, tile.placement, step);
  const FlatPlaces::Place& place = tile.places.of[next_];
  fold(place, {&tile.places.sources[place.first_source], step.operand_count});
}

bool FlatRun::may_send(const CommunicatorCore& communicator, const Step& step) {
  const CommunicatorCore::Member& member = communicator.member[step.peer];
  return member.early_sent - member.early_acked < CommunicatorCore::window / 2;
}

Record FlatRun::record_for(const CommunicatorCore& communicator, std::uint32_t tile, const Step& step,
                           std::size_t bytes) const {
  Record record;
  record.channel = communicator.id;
  record.sequence = sequence_;
  record.tile = tile;
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(bytes);
  record.consumed = communicator.member[step.peer].taken;
  record.signature = signature_;
  return record;
}

void FlatRun::sent(CommunicatorCore& communicator, const Step& step, std::uint32_t consumed) {
  CommunicatorCore::Member& member = communicator.member[step.peer];
  member.told = consumed;
  ++member.early_sent;
}

bool FlatRun::send(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  const Message& message = messages_[next_];
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (!message.fast || !may_send(communicator, step)) return send_in_time(engine, communicator, tile);
  if (place.bytes >= FastLoan::least_bytes && lend(engine, communicator, tile)) return true;
  const std::uint32_t consumed = communicator.member[step.peer].taken;
  if (!engine.transfer().put_fast(message.peer, message.head.with(sequence_, tile.placement.tile, consumed),
                                  {place.from, place.bytes}))
    return send_in_time(engine, communicator, tile);
  sent(communicator, step, consumed);
  return true;
}

bool FlatRun::lend(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile) {
  const StepId id = steps_.order[next_];
  const FlatPlaces::Place& place = tile.places.of[next_];
  const Record record = record_for(communicator, tile.placement.tile, step_at(next_), place.bytes);
  const Rank peer = messages_[next_].peer;
  std::uint32_t loan = 0;
  if (!plan_->may_be_lent[id] || !engine.transfer().lend_fast(peer, record, {place.from, place.bytes},
                                                              operands_.comes_back_there(tile.placement, id), loan))
    return false;
  lent(peer, loan);
  sent(communicator, step_at(next_), record.consumed);
  return true;
}

// Once the peer has taken what was sent before, and there is room.
bool FlatRun::send_in_time(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  for (Patience patience(engine.waiting()); !may_send(communicator, step);) {
    hear_news(engine, communicator, step.peer);
    if (!may_send(communicator, step) && (engine.has_news() || !patience.again())) return false;
  }
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (messages_[next_].fast && place.bytes >= FastLoan::least_bytes && lend(engine, communicator, tile)) return true;
  const Record record = record_for(communicator, tile.placement.tile, step, place.bytes);
  Transfer& transfer = engine.transfer();
  for (Patience patience(engine.waiting());
       !transfer.send_now(messages_[next_].peer, record, {place.from, place.bytes});) {
    transfer.look();
    transfer.flush();
    if (engine.has_news() || !patience.again()) return false;
  }
  sent(communicator, step, record.consumed);
  return true;
}

bool FlatRun::receive(EngineCore& engine, CommunicatorCore& communicator, Tile& tile) {
  if (!communicator.early.empty() && take_kept(engine, communicator, tile)) return true;
  std::span<const std::byte> payload;
  if (!take_front(engine, communicator, tile, payload) && !await(engine, communicator, tile, payload)) return false;
  const bool reduces = steps_.operand_of_next[next_] != FlatSteps::none;
  const Step& step = step_at(next_);
  const Rank peer = messages_[next_].peer;
  if (reduces)
    reduce_with(tile, payload);
  else
    use(tile, payload);
  Transfer& transfer = engine.transfer();
  if (!transfer.is_intact(peer)) return false;
  if (reduces) ++next_;
  if (reduces || !answer(engine, communicator, tile)) transfer.pop(peer, payload.size());
  engine.took_early(communicator, step.peer, false);
  return true;
}

void FlatRun::fold(const FlatPlaces::Place& place, std::span<const void* const> sources) const {
  if (kernel_)
    (*kernel_)(place.to, sources, place.count);
  else
    fabring::fold(call_, place.to, sources, place.count);
}

void FlatRun::use(const Tile& tile, std::span<const std::byte> payload) {
  const Step& step = step_at(next_);
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (step.kind == StepKind::recv_reduce) {
    std::array<const void*, 2> sources{place.from, payload.data()};
    if (step.incoming_first) std::swap(sources[0], sources[1]);
    fold(place, sources);
  } else if (place.to != payload.data()) {
    copy_bytes(place.to, payload.data(), payload.size());
  }
}

// Instead of bringing it to scratch, from where the next step alone would read it.
void FlatRun::reduce_with(Tile& tile, std::span<const std::byte> payload) {
  const FlatPlaces::Place& place = tile.places.of[next_ + 1];
  const std::span<const void*> sources{&tile.places.sources[place.first_source], step_at(next_ + 1).operand_count};
  const void*& incoming = sources[steps_.operand_of_next[next_]];
  const void* const in_scratch = std::exchange(incoming, payload.data());
  fold(place, sources);
  incoming = in_scratch;
}

// A message that came before the call, or while its sender was heard of.
bool FlatRun::take_kept(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  const auto at =
      communicator.early.find({false, sequence_, tile.placement.tile, step.peer, step.message, RecordKind::data});
  if (at == communicator.early.end() || at->second.payload.size() != tile.places.of[next_].bytes) return false;
  use(tile, at->second.payload);
  communicator.early.erase(at);
  engine.took_early(communicator, step.peer, true);
  return true;
}

// What was made of a message goes back to its sender at once: then it takes the message's place.
bool FlatRun::answer(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& received = step_at(next_);
  const FlatPlaces::Place& result = tile.places.of[next_];
  if (result.bytes < least_answer || next_ + 1 >= end_ || !messages_[next_].fast) return false;
  const Step& next = step_at(next_ + 1);
  const FlatPlaces::Place& answered = tile.places.of[next_ + 1];
  if (received.kind != StepKind::recv_reduce || next.kind != StepKind::send || next.peer != received.peer ||
      answered.from != result.to || answered.bytes != result.bytes || !may_send(communicator, next))
    return false;
  Record record = record_for(communicator, tile.placement.tile, next, answered.bytes);
  ++record.consumed;  // that message is being taken
  if (!engine.transfer().answer_fast(messages_[next_].peer, record, {result.to, result.bytes})) return false;
  sent(communicator, next, record.consumed);
  ++next_;
  return true;
}

// From whom this operation receives nothing, or nothing yet: how much of ours it has taken.
void FlatRun::hear_news(EngineCore& engine, CommunicatorCore& communicator, Rank member) {
  Record record;
  std::span<const std::byte> payload;
  const Rank peer = communicator.members[member];
  while (engine.transfer().front(peer, record, payload)) {
    if (record.channel == communicator.id) engine.heard_of(communicator, member, record.consumed);
    if (record.channel == communicator.id && record.sequence == sequence_) return;
    engine.transfer().take(peer, record, payload);
  }
}

// The message that is next, if it is there: most often it is, or is the next to come.
bool FlatRun::take_front(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile,
                         std::span<const std::byte>& payload) const {
  const Message& message = messages_[next_];
  FastMessage came;
  if (!message.fast || !engine.transfer().front_fast(message.peer, came) ||
      came.payload.size() != tile.places.of[next_].bytes ||
      !message.head.is_of(came.head, sequence_, tile.placement.tile))
    return false;
  engine.heard_of(communicator, step_at(next_).peer, DataHead::consumed(came.head));
  payload = came.payload;
  return true;
}

// Whatever this operation does not expect is for another one, and for the engine to keep; or it is the sign of a
// mismatch, and the engine sees to that once there is an Execution to compare with.
bool FlatRun::await(EngineCore& engine, CommunicatorCore& communicator, const Tile& tile,
                    std::span<const std::byte>& payload) {
  const Step& step = step_at(next_);
  const Message& message = messages_[next_];
  Transfer& transfer = engine.transfer();
  transfer.flush();  // they may sleep
  Record record;
  Patience patience(engine.waiting());
  while (true) {
    const bool there = !message.fast || transfer.await_fast(message.peer, patience.looks());
    if (there && take_front(engine, communicator, tile, payload)) return true;
    if (there && transfer.front(message.peer, record, payload)) {
      const bool ours = record.channel == communicator.id && record.sequence == sequence_;
      if (ours && record.kind == RecordKind::data && record.message == step.message &&
          record.tile == tile.placement.tile && payload.size() == tile.places.of[next_].bytes &&
          record.signature == signature_) {
        engine.heard_of(communicator, step.peer, record.consumed);
        return true;
      }
      if (ours) return false;
      transfer.take(message.peer, record, payload);
      continue;
    }
    if (engine.has_news() || !patience.again()) return false;
  }
}

}  // namespace fabring
