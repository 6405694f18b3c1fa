#include "runtime/engine/flat/flat_run.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/execution/local_steps.hpp"
#include "runtime/engine/flat/flat_engine.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

constexpr std::size_t least_answer = 1024;
constexpr std::size_t answered_part = 8 * 1024;  // whole elements, still in the first-level cache when they are copied

}  // namespace

FlatRun::End FlatRun::run(const FlatEngine& engine, CommunicatorCore& communicator, std::uint32_t sequence) {
  sequence_ = sequence;
  begun_ = turn_ = stage_ = 0;
  loans_.clear();
  writing_.clear();
  if (plan_->is_readable) read_ = communicator.choose_read(call_, engine.mapped, engine.clock);
  if (!run_to_end(engine, communicator)) return End::stopped;
  read_.over(call_.bytes(), engine.clock);
  drop_copy();
  give_scratch_back(engine.scratch);
  return End::done;
}

bool FlatRun::run_to_end(const FlatEngine& engine, CommunicatorCore& communicator) {
  const bool over = tiling_.tiles == 1 ? run_one_tile(engine, communicator) : run_in_turns(engine, communicator);
  lend_what_is_unwritten(engine);
  return over && (loans_.empty() || await_loans(engine));
}

bool FlatRun::run_one_tile(const FlatEngine& engine, CommunicatorCore& communicator) {
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

bool FlatRun::run_in_turns(const FlatEngine& engine, CommunicatorCore& communicator) {
  for (turn_ = 0; turn_ <= turn_of(tiling_.tiles - 1, stages() - 1); ++turn_) {
    const std::uint32_t first = one_by_one() ? turn_ % stages() : turn_ < tiling_.tiles ? 0 : turn_ - tiling_.tiles + 1;
    const std::uint32_t last = one_by_one() ? first : std::min(turn_, stages() - 1);
    stage_ = first;
    next_ = stage_begin(stage_);
    if (turn_ > 0 && engine.is_wanted()) return false;
    for (; stage_ <= last; ++stage_)
      if (!run_stage(engine, communicator)) return false;
  }
  return true;
}

bool FlatRun::run_stage(const FlatEngine& engine, CommunicatorCore& communicator) {
  const std::uint32_t number = one_by_one() ? turn_ / stages() : turn_ - stage_;
  Tile& tile = tiles_[number % tiles_.size()];
  next_ = stage_begin(stage_);
  if (stage_ == 0) {
    if (!writing_.empty() && number >= tiles_.size() &&
        !await_written(engine, number - static_cast<std::uint32_t>(tiles_.size())))
      return false;  // it has this place in scratch
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

std::uint32_t FlatRun::turn_of(std::uint32_t tile, std::uint32_t stage) const {
  return one_by_one() ? tile * stages() + stage : tile + stage;
}

std::uint32_t FlatRun::first_tile() const {
  return one_by_one() ? turn_ / stages() : turn_ < stages() ? 0 : turn_ - stages() + 1;
}

std::vector<StepId> FlatRun::done(std::uint32_t tile) const {
  if (tiling_.tiles == 1) return {steps_.order.begin(), steps_.order.begin() + next_};
  std::vector<StepId> steps;
  for (std::uint32_t stage = 0; stage < stages(); ++stage) {
    const std::uint32_t turn = turn_of(tile, stage);
    if (turn > turn_ || (turn == turn_ && stage > stage_)) break;
    const std::uint32_t end = turn == turn_ && stage == stage_ ? next_ : steps_.stage_ends[stage];
    steps.insert(steps.end(), steps_.order.begin() + stage_begin(stage), steps_.order.begin() + end);
  }
  return steps;
}

bool FlatRun::run_next(const FlatEngine& engine, CommunicatorCore& communicator, Tile& tile) {
  const Step& step = step_at(next_);
  if (step.kind == StepKind::send) return send(engine, communicator, tile);
  if (receives(step.kind)) return receive(engine, communicator, tile);
  if (!writing_.empty() && !await_written(engine, tile.placement.tile)) return false;
  run_local(tile, step);
  return true;
}

void FlatRun::run_local(const Tile& tile, const Step& step) const {
  if (step.kind != StepKind::reduce) return run_local_step(call_, plan_->plan, operands_, tile.placement, step);
  const FlatPlaces::Place& place = tile.places.of[next_];
  fold(place.to, {&tile.places.sources[place.first_source], step.operand_count}, place.count);
}

bool FlatRun::may_send(const CommunicatorCore& communicator, const Step& step) {
  return communicator.member[step.peer].early_open() < CommunicatorCore::window / 2;
}

Record FlatRun::record_for(const CommunicatorCore& communicator, std::uint32_t tile, const Step& step,
                           std::size_t bytes) const {
  Record record;
  record.communicator = communicator.id;
  record.sequence = sequence_;
  record.tile = tile;
  record.message = step.message;
  record.bytes = static_cast<std::uint32_t>(bytes);
  record.consumed = communicator.member[step.peer].taken;
  record.signature = signature_;
  return record;
}

void FlatRun::sent(CommunicatorCore& communicator, const Step& step, std::size_t bytes, std::uint32_t consumed) {
  CommunicatorCore::Member& member = communicator.member[step.peer];
  member.told = consumed;
  member.early_sent += CommunicatorCore::weight_of(bytes);
}

bool FlatRun::send(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  const Message& message = messages_[next_];
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (!message.fast || !may_send(communicator, step)) return send_in_time(engine, communicator, tile);
  if (place.bytes >= FastLoan::least_bytes && lend(engine, communicator, tile)) return true;
  const std::uint32_t consumed = communicator.member[step.peer].taken;
  if (!engine.transfer.put_fast(message.peer, message.head.with(sequence_, tile.placement.tile, consumed),
                                {place.from, place.bytes}))
    return send_in_time(engine, communicator, tile);
  sent(communicator, step, place.bytes, consumed);
  return true;
}

bool FlatRun::lend(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile) {
  const StepId id = steps_.order[next_];
  const FlatPlaces::Place& place = tile.places.of[next_];
  const Record record = record_for(communicator, tile.placement.tile, step_at(next_), place.bytes);
  const Rank peer = messages_[next_].peer;
  std::uint32_t loan = 0;
  const LoanTerms terms{.answerable = operands_.comes_back_there(tile.placement, id), .readable = read_.is_read()};
  if (!plan_->may_be_lent[id] || !engine.transfer.lend_fast(peer, record, {place.from, place.bytes}, terms, loan))
    return false;
  loans_.add({peer, loan});
  sent(communicator, step_at(next_), place.bytes, record.consumed);
  return true;
}

bool FlatRun::receive(const FlatEngine& engine, CommunicatorCore& communicator, Tile& tile) {
  if (!writing_.empty() && !await_written(engine, tile.placement.tile)) return false;
  if (!communicator.early.empty() && take_kept(engine, communicator, tile)) return true;
  FastMessage came;
  if (!take_front(engine, communicator, tile, came) && !await(engine, communicator, tile, came)) return false;
  const std::span<const std::byte> payload = came.payload;
  const bool reduces = steps_.operand_of_next[next_] != FlatSteps::none;
  const Step& step = step_at(next_);
  const Rank peer = messages_[next_].peer;
  Transfer& transfer = engine.transfer;
  std::byte* const answer_place = !reduces && is_answered(communicator, tile) ? transfer.answer_place(peer) : nullptr;
  if (came.is_away()) {
    if (!transfer.bring(peer, came, tile.places.of[next_].to)) return false;
  } else if (reduces) {
    reduce_with(tile, payload);
  } else {
    use(tile, payload, answer_place);
  }
  if (!transfer.is_intact(peer)) return false;
  if (reduces) ++next_;
  if (answer_place != nullptr)
    answer(engine, communicator, tile);
  else
    transfer.pop(peer, payload.size());
  communicator.took_early(step.peer, payload.size(), false, transfer);
  return true;
}

// The message that is next, if it is there: most often it is, or is the next to come.
bool FlatRun::take_front(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile,
                         FastMessage& came) const {
  const Message& message = messages_[next_];
  if (!message.fast || !engine.transfer.front_fast(message.peer, came) ||
      came.payload.size() != tile.places.of[next_].bytes ||
      !message.head.is_of(came.head, sequence_, tile.placement.tile) || (came.is_away() && !moves()))
    return false;
  communicator.heard_of(step_at(next_).peer, DataHead::consumed(came.head));
  return true;
}

void FlatRun::fold(std::byte* to, std::span<const void* const> sources, std::size_t count) const {
  if (kernel_)
    (*kernel_)(to, sources, count);
  else
    fabring::fold(call_, to, sources, count);
}

void FlatRun::use(const Tile& tile, std::span<const std::byte> payload, std::byte* answer_place) const {
  const Step& step = step_at(next_);
  const FlatPlaces::Place& place = tile.places.of[next_];
  if (step.kind == StepKind::recv_reduce) {
    if (answer_place != nullptr) return reduce_to_both(place, payload, answer_place);
    std::array<const void*, 2> sources{place.from, payload.data()};
    if (step.incoming_first) std::swap(sources[0], sources[1]);
    fold(place.to, sources, place.count);
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
  fold(place.to, sources, place.count);
  incoming = in_scratch;
}

// A message that came before the call, or while its sender was heard of.
bool FlatRun::take_kept(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& step = step_at(next_);
  const auto at =
      communicator.early.find({false, sequence_, tile.placement.tile, step.peer, step.message, RecordKind::data});
  if (at == communicator.early.end() || at->second.payload.size() != tile.places.of[next_].bytes) return false;
  use(tile, at->second.payload);
  communicator.took_early(step.peer, at->second.payload.size(), true, engine.transfer);
  communicator.early.erase(at);
  return true;
}

// Part by part: what is copied has not left the first-level cache.
void FlatRun::reduce_to_both(const FlatPlaces::Place& place, std::span<const std::byte> payload,
                             std::byte* answer_place) const {
  for (std::size_t at = 0; at < place.bytes; at += answered_part) {
    const std::size_t bytes = std::min(answered_part, place.bytes - at);
    std::array<const void*, 2> sources{place.from + at, payload.data() + at};
    if (step_at(next_).incoming_first) std::swap(sources[0], sources[1]);
    fold(place.to + at, sources, bytes / size_of(call_.carried()));
    copy_bytes(answer_place + at, place.to + at, bytes);
  }
}

// What was made of a message goes back to its sender at once: then it takes the message's place.
bool FlatRun::is_answered(const CommunicatorCore& communicator, const Tile& tile) const {
  const Step& received = step_at(next_);
  const FlatPlaces::Place& result = tile.places.of[next_];
  if (result.bytes < least_answer || next_ + 1 >= end_ || !messages_[next_].fast || !messages_[next_ + 1].fast)
    return false;
  const Step& next = step_at(next_ + 1);
  const FlatPlaces::Place& answered = tile.places.of[next_ + 1];
  return received.kind == StepKind::recv_reduce && next.kind == StepKind::send && next.peer == received.peer &&
         answered.from == result.to && answered.bytes == result.bytes && may_send(communicator, next);
}

void FlatRun::answer(const FlatEngine& engine, CommunicatorCore& communicator, const Tile& tile) {
  const Step& next = step_at(next_ + 1);
  Record record = record_for(communicator, tile.placement.tile, next, tile.places.of[next_ + 1].bytes);
  ++record.consumed;  // that message is being taken
  engine.transfer.answer_fast(messages_[next_].peer, record);
  sent(communicator, next, record.bytes, record.consumed);
  ++next_;
}

}  // namespace fabring
