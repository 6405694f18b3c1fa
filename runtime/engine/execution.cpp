#include "runtime/engine/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/flat_run.hpp"
#include "runtime/engine/local_steps.hpp"

namespace fabring {
namespace {

// Slots in all: enough to keep both directions busy, few enough to stay in the second-level cache.
constexpr std::size_t most_slots = 8;

}  // namespace

std::uint64_t Execution::cookie(std::uint16_t index, std::uint32_t tile_slot, StepId step) {
  return (std::uint64_t{index} << 48) | (std::uint64_t{tile_slot & 0xffff} << 32) | step;
}

Execution::Execution(std::shared_ptr<CommunicatorCore> communicator, Call call,
                     std::shared_ptr<const PreparedPlan> plan, std::uint32_t sequence, Tiling tiling)
    : communicator_(std::move(communicator)),
      call_(std::move(call)),
      plan_(std::move(plan)),
      sequence_(sequence),
      tiling_(tiling),
      signature_(call_.signature()) {}

Execution::~Execution() = default;

void Execution::pair_with(Rank peer, std::uint32_t sequence, std::size_t count, std::int32_t tag,
                          std::shared_ptr<const PreparedPlan> plan, const TilingRules& rules) {
  call_.root = peer;
  call_.count = count;
  call_.tag = tag;
  sequence_ = sequence;
  plan_ = std::move(plan);
  tiling_ = choose_tiling(*plan_, call_, rules);
  signature_ = call_.signature();
  signature_.collective = static_cast<std::uint8_t>(Collective::send);  // what the record is about, from either side
  received_ = {peer, tag, count};
}

// ---- starting -----------------------------------------------------------------------------------------------------

// All that it needs or nothing. The first operation of a communicator gets the least it can run with also beyond the
// budget: two communicators that wait for each other's scratch on different ranks would wait for ever. So the engine
// holds at most its budget and one such least for every communicator.
Execution::Start Execution::reserve() {
  if (stay_on_device()) return Start::started;
  if (call_.device.any()) choose_path();
  const std::size_t large = lay_out();
  if (!bounce_of_step_.empty()) staging_bytes_ = bounces_ * bounce_bytes();
  // While as many tiles as usual communicate, one is copied in and one out.
  const std::uint32_t wanted = staging_bytes_ > 0 ? tiling_.depth + 2 : tiling_.depth;
  for (std::uint32_t depth = std::min(wanted, tiling_.tiles); depth > 0; --depth)
    if (borrow(depth, std::min({large * depth, most_slots, std::size_t{depth} * 2}), false)) return Start::started;
  if (!communicator_->active.empty()) return Start::wait;
  const Scratch& scratch = engine_->scratch();
  const bool possible = slot_bytes_ + area_bytes_ <= scratch.budget();
  if (possible && borrow(1, std::min<std::size_t>(large, 1), true)) return Start::started;
  failure_ = Status(ErrorCode::out_of_memory,
                    fmt::format("{} needs blocks of {} bytes of scratch and {} more, but {}", call_.describe(),
                                slot_bytes_, area_bytes_,
                                possible ? std::string("this machine has no more memory")
                                         : fmt::format("FABRING_SCRATCH_BYTES allows {} in all; raise it or lower "
                                                       "FABRING_SEGMENT_BYTES",
                                                       scratch.budget())));
  return Start::failed;
}

// How much the largest tile needs; how many recv_reduce messages of a tile need a slot.
std::size_t Execution::lay_out() {
  Placement largest;
  operands_->bind(largest, tiling_, tiling_.cuts ? tiling_.cuts->largest : 0);
  area_bytes_ = operands_->lay_out_scratch(largest);
  staging_bytes_ = operands_->lay_out_staging(largest);
  slot_bytes_ = 0;
  std::size_t large = 0;
  for (StepId id : plan_->slot_receives) {
    const std::size_t bytes = operands_->bytes_of(largest, plan_->plan.steps[id].to);
    if (bytes <= eager_limit_) continue;
    slot_bytes_ = std::max(slot_bytes_, bytes);
    ++large;
  }
  return large;
}

bool Execution::borrow(std::uint32_t depth, std::size_t slots, bool beyond_budget) {
  Scratch& scratch = engine_->scratch();
  std::vector<std::byte*> areas, stagings;
  while (slots_.size() < slots) {
    std::byte* slot = scratch.borrow(slot_bytes_, beyond_budget);
    if (slot == nullptr) break;
    slots_.push_back(slot);
  }
  while (area_bytes_ > 0 && areas.size() < depth) {
    std::byte* area = scratch.borrow(area_bytes_, beyond_budget);
    if (area == nullptr) break;
    areas.push_back(area);
  }
  while (staging_bytes_ > 0 && stagings.size() < depth) {
    std::byte* staging = engine_->staging().borrow(staging_bytes_, beyond_budget);
    if (staging == nullptr) break;
    stagings.push_back(staging);
  }
  if (slots_.size() < slots || (area_bytes_ > 0 && areas.size() < depth) ||
      (staging_bytes_ > 0 && stagings.size() < depth)) {
    for (std::byte* staging : stagings) engine_->staging().give_back(staging, staging_bytes_);
    for (std::byte* slot : slots_) scratch.give_back(slot, slot_bytes_);
    for (std::byte* area : areas) scratch.give_back(area, area_bytes_);
    slots_.clear();
    return false;
  }
  tiling_.depth = depth;
  free_slots_ = slots_;
  for (std::uint32_t i = 0; i < depth; ++i) {
    tiles_.push_back(std::make_unique<Tile>());
    if (area_bytes_ > 0) tiles_.back()->place.scratch = areas[i];
    if (staging_bytes_ > 0) tiles_.back()->place.staging = stagings[i];
  }
  return true;
}

Execution::Start Execution::start(EngineCore& engine, std::uint16_t index, Time now) {
  engine_ = &engine;
  // A send or receive has said all it can in its announcement: what is left waits for grants.
  eager_limit_ = point_to_point() ? 0 : engine.eager_limit();
  index_ = index;
  operands_ = std::make_unique<Operands>(*plan_, call_);
  const std::size_t held = held_.size();
  if (const Start reserved = reserve(); reserved != Start::started) {
    held_.resize(held);  // it will choose again
    return reserved;
  }
  started_ = true;
  begun_at = now;
  tiles_left_ = tiling_.tiles;
  outstanding_per_peer_.assign(plan_->peers.size(), 0);
  moved_per_peer_.assign(plan_->peers.size(), {});
  told_.assign(plan_->peers.size(), point_to_point());
  const std::size_t steps = plan_->plan.steps.size();
  if (flat_) {
    next_tile_ = flat_->first_tile();
    tiles_left_ -= next_tile_;
    steps_done_ = next_tile_ * steps;
    for (std::size_t i = 0; i < plan_->peers.size(); ++i) {
      const auto all = [&](const std::vector<StepId>& list) {
        return static_cast<std::uint32_t>(list.size()) * next_tile_;
      };
      moved_per_peer_[i] = {all(plan_->peers[i].sends), all(plan_->peers[i].receives)};
    }
  }
  for (auto& tile : tiles_) {
    tile->need.resize(steps);
    tile->data.resize(steps);
    tile->early.resize(steps);
    tile->operands_to_come.resize(steps);
    tile->granted.resize(steps);
    tile->waiting.resize(steps);
    tile->by_ticket.resize(steps);
    tile->only_ticket.resize(steps);
    tile->in_full.resize(steps);
    tile->by_card.resize(steps);
    tile->slot.resize(steps);
    tile->lent.resize(steps);
    tile->lending.resize(steps);
    tile->bounced.resize(steps);
    tile->place.lent.resize(plan_->plan.scratch.size());
    tile->there.lent.resize(plan_->plan.scratch.size());
    tile->eager_left.resize(plan_->peers.size());
  }
  waits_for_stream_ = call_.device.ready || delivered_from_;
  if (!waits_for_stream_) start_tiles();
  return Start::started;
}

bool Execution::tile_active(std::uint32_t tile) const {
  if (!started_ || tile >= next_tile_) return false;
  const Tile& in_slot = *tiles_[tile % tiling_.depth];
  return in_slot.active && in_slot.index() == tile;
}

// Of tiles that start together the oldest goes first, though what was made ready last is run first: grants leave in
// that order and are used in it, and only when the oldest tile is over can another begin.
void Execution::start_tiles() {
  const auto bottom = static_cast<std::ptrdiff_t>(ready_.size());
  while (next_tile_ < tiling_.tiles && !tiles_[next_tile_ % tiling_.depth]->active) {
    const std::uint32_t index = next_tile_++;
    const auto older = static_cast<std::ptrdiff_t>(ready_.size());
    start_tile(index);
    std::rotate(ready_.begin() + bottom, ready_.begin() + older, ready_.end());
  }
}

void Execution::start_tile(std::uint32_t index) {
  Tile& tile = *tiles_[index % tiling_.depth];
  tile.active = true;
  tile.remaining = plan_->plan.steps.size();
  operands_->bind(tile.place, tiling_, index);
  std::copy(plan_->dependencies.begin(), plan_->dependencies.end(), tile.need.begin());
  std::fill(tile.data.begin(), tile.data.end(), Data::none);
  std::fill(tile.early.begin(), tile.early.end(), Early::none);
  std::fill(tile.granted.begin(), tile.granted.end(), Slot{0});
  std::fill(tile.waiting.begin(), tile.waiting.end(), false);
  std::fill(tile.by_ticket.begin(), tile.by_ticket.end(), false);
  std::fill(tile.only_ticket.begin(), tile.only_ticket.end(), false);
  std::fill(tile.in_full.begin(), tile.in_full.end(), false);
  std::fill(tile.by_card.begin(), tile.by_card.end(), false);
  std::fill(tile.slot.begin(), tile.slot.end(), nullptr);
  std::fill(tile.place.lent.begin(), tile.place.lent.end(), nullptr);
  if (on_device_) {
    device_operands_->bind(tile.there, tiling_, index);
    std::fill(tile.there.lent.begin(), tile.there.lent.end(), nullptr);
    for (std::size_t id = 0; id < tile.operands_to_come.size(); ++id)
      tile.operands_to_come[id] = static_cast<std::uint32_t>(plan_->last_reader[id].size());
    tile.mirrors.clear();
  }
  std::fill(tile.lending.begin(), tile.lending.end(), false);
  std::fill(tile.bounced.begin(), tile.bounced.end(), false);
  tile.next_slot_receive = 0;
  for (std::size_t i = 0; i < plan_->peers.size(); ++i) {
    tile.eager_left[i] = 0;
    for (StepId id : plan_->peers[i].sends)
      if (message_bytes(tile, id) <= eager_limit_ && !skipped(tile, id)) ++tile.eager_left[i];
  }
  if (!delivered_.empty()) take_delivered(tile);
  if (tile.remaining == 0) {
    finish_tile(tile);
    return;
  }
  const bool loading = load(tile);
  if (!loading && !on_device_) operands_->bring_in(tile.place);
  // Nothing comes early for a receive: what is there under its numbers is for the send to the same rank.
  if (!communicator_->early.empty() && call_.collective != Collective::recv) take_early(tile);
  if (flat_ && index < flat_->end_tile()) return go_on(tile);
  if (loading) return;
  for (auto at = plan_->first_steps.rbegin(); at != plan_->first_steps.rend(); ++at) make_ready(tile, *at);
}

void Execution::go_on_from(EngineCore& engine, std::unique_ptr<FlatRun> flat) {
  engine_ = &engine;
  fast_loans_ = flat->loans();
  flat_ = std::move(flat);
}

// As if every step that is done had been done here.
void Execution::go_on(Tile& tile) {
  const Plan& plan = plan_->plan;
  const auto scratch = flat_->scratch(tile.index());
  if (!scratch.empty()) std::copy(scratch.begin(), scratch.end(), tile.place.scratch);
  std::vector<bool> done(plan.steps.size(), false);
  for (const StepId id : flat_->done(tile.index())) {
    const Step& step = plan.steps[id];
    done[id] = true;
    --tile.remaining;
    ++steps_done_;
    for (std::uint32_t i = 0; i < step.successor_count; ++i) --tile.need[plan.successors[step.first_successor + i]];
    const std::int32_t peer = plan_->peer_of_step[id];
    if (peer < 0) continue;
    Moved& moved = moved_per_peer_[static_cast<std::size_t>(peer)];
    if (step.kind == StepKind::send) {
      ++moved.sent;
      --tile.eager_left[static_cast<std::size_t>(peer)];
      told_[static_cast<std::size_t>(peer)] = true;
    } else {
      ++moved.received;
      tile.data[id] = Data::here;
    }
  }
  if (tile.index() + 1 == flat_->end_tile()) flat_.reset();
  for (StepId id = static_cast<StepId>(plan.steps.size()); id-- > 0;)
    if (!done[id] && tile.need[id] == 0) make_ready(tile, id);
}

// What came early for this tile.
void Execution::take_early(Tile& tile) {
  auto& early = communicator_->early;
  const CommunicatorCore::EarlyKey from{point_to_point(), sequence_, tile.index(), 0, 0, RecordKind::data};
  for (auto at = early.lower_bound(from); at != early.end() && at->first.point_to_point == point_to_point() &&
                                          at->first.sequence == sequence_ && at->first.tile == tile.index();) {
    if (point_to_point() && at->first.peer != call_.root) {  // numbers are those of a pair
      ++at;
      continue;
    }
    const Record record = at->second.record;
    if (record.kind == RecordKind::announce) {
      if (const Status fits = check_length(at->first.peer, record); !fits.ok())
        engine_->refuse(*communicator_, at->first.peer, *this, record, fits);
      --communicator_->early_grants;
      at = early.erase(at);
      continue;
    }
    const auto found = step_of(tile, at->first.peer, record);
    if (!found) {
      engine_->refuse(*communicator_, at->first.peer, *this, record, found.error());
      if (record.kind != RecordKind::grant) {
        ++at;
      } else {  // it has been answered: whoever drops what came early must not answer it again
        --communicator_->early_grants;
        at = early.erase(at);
      }
      continue;
    }
    const StepId id = *found;
    if (record.kind == RecordKind::grant) {
      (void)take_grant(tile, id, record);
      --communicator_->early_grants;
      at = early.erase(at);
    } else {
      tile.data[id] = Data::early;
      if (!at->second.taken) {
        at->second.taken = true;
        engine_->took_early(*communicator_, at->first.peer, true);
      }
      ++at;
    }
  }
}

std::uint32_t Execution::oldest_eager_tile(int peer_index) const {
  if (!started_) return 0;
  std::uint32_t oldest = next_tile_;  // tiles not begun have all of theirs to send
  for (const auto& tile : tiles_)
    if (tile->active && tile->eager_left[peer_index] > 0) oldest = std::min(oldest, tile->index());
  return oldest;
}

// ---- running ------------------------------------------------------------------------------------------------------

void Execution::make_ready(Tile& tile, StepId id) {
  ready_.push_back({&tile, id});
  if (is_receive(ready_.back())) ++ready_receives_;
}

bool Execution::advance() {
  if (failed() || !started_) return false;
  bool moved = false;
  if (waits_for_stream_ && !wait_for_stream()) return false;
  if (!retry_.empty()) {
    retrying_.swap(retry_);
    for (const Ready& again : retrying_) run(*again.tile, again.step);
    retrying_.clear();
  }
  read_loan_ = false;
  while (!ready_.empty() && !failed()) {
    if (!choose_next()) break;
    const Ready next = ready_.back();
    ready_.pop_back();
    if (is_receive(next)) --ready_receives_;
    run(*next.tile, next.step);
    moved = true;
  }
  if (slot_bytes_ > 0 && !failed()) post_slot_receives();
  return std::exchange(mirror_left_, false) || moved;
}

// The most recent step is the last of ready_. But once a peer's memory has been read, which takes long, news comes
// before the next reduction (false: only such are left); and of several that of the oldest tile goes first, so that
// tiles end one by one and others can begin.
bool Execution::choose_next() {
  const auto reduces = [this](const Ready& ready) { return plan_->plan.steps[ready.step].kind == StepKind::reduce; };
  if (!reduces(ready_.back())) return true;
  if (read_loan_) {
    const auto other = std::find_if_not(ready_.rbegin(), ready_.rend(), reduces);
    if (other == ready_.rend()) return false;
    std::swap(*other, ready_.back());
    return true;
  }
  for (Ready& other : ready_)
    if (reduces(other) && other.tile->index() < ready_.back().tile->index()) std::swap(other, ready_.back());
  return true;
}

void Execution::run(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  switch (step.kind) {
    case StepKind::send:
      return run_send(tile, id);
    case StepKind::recv:
      return run_recv(tile, id);
    case StepKind::recv_reduce:
      return run_recv_reduce(tile, id);
    case StepKind::reduce:
    case StepKind::copy:
    case StepKind::finish:
      if (on_device_) return run_on_device(tile, id);
      if (copy_on_device(tile, id)) return;
      run_local_step(call_, plan_->plan, *operands_, tile.place, step);
      if (!give_back_read(tile, id)) return;
      break;
  }
  step_done(tile, id);
}

void Execution::step_done(Tile& tile, StepId id) {
  const Step& step = plan_->plan.steps[id];
  --tile.remaining;
  ++steps_done_;
  if (const std::int32_t peer = plan_->peer_of_step[id]; peer >= 0) {
    Moved& moved = moved_per_peer_[static_cast<std::size_t>(peer)];
    ++(step.kind == StepKind::send ? moved.sent : moved.received);
  }
  if (on_device_ && step.kind == StepKind::recv) operand_came(tile, id);
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = plan_->plan.successors[step.first_successor + i];
    if (tile.lending[id] && plan_->comes_back(id, next)) continue;  // it did not wait for this
    if (--tile.need[next] == 0) make_ready(tile, next);
  }
  if (tile.remaining == 0) finish_tile(tile);
}

void Execution::finish_tile(Tile& tile) {
  if (!on_device_) operands_->bring_out(tile.place);
  if (store(tile)) return;  // and comes back
  if (tile.has_mirror) leave_mirror(tile);
  tile.active = false;
  --tiles_left_;
  start_tiles();
}

// ---- ending -------------------------------------------------------------------------------------------------------

void Execution::fail(const Status& why) {
  if (failed()) return;
  failure_ = why;
  ready_.clear();
  ready_receives_ = 0;
  retry_.clear();
  if (!started_) return;
  for (auto& tile : tiles_) {
    if (!tile->active) continue;
    for (StepId id = 0; id < tile->granted.size(); ++id) {
      if (tile->granted[id] == 0) continue;
      engine_->transfer().decline(world_rank(id), tile->granted[id]);
      tile->granted[id] = 0;
    }
    for (StepId id = 0; id < tile->lent.size(); ++id)
      if (!tile->lent[id].reading) (void)give_back(*tile, id);
  }
}

void Execution::publish() {
  if (on_device_) {
    give_back_for_device();
  } else if (engine_ != nullptr) {
    for (std::byte* slot : slots_) engine_->scratch().give_back(slot, slot_bytes_);
    for (auto& tile : tiles_)
      if (tile->place.scratch != nullptr) engine_->scratch().give_back(tile->place.scratch, area_bytes_);
    for (auto& tile : tiles_)
      if (tile->place.staging != nullptr) engine_->staging().give_back(tile->place.staging, staging_bytes_);
  }
  slots_.clear();
  tiles_.clear();
  call_.owned.reset();
  call_.device.ready.reset();
  held_.clear();
  status_ = failure_;
  void (*listener)(void*) = nullptr;
  {
    std::lock_guard lock(listener_mutex_);
    done_.store(true, std::memory_order_release);
    listener = std::exchange(listener_, nullptr);
  }
  if (listener != nullptr) listener(listener_context_);
}

void Execution::notify(void (*function)(void*), void* context) {
  {
    std::lock_guard lock(listener_mutex_);
    if (!done()) {
      listener_ = function;
      listener_context_ = context;
      return;
    }
  }
  if (function != nullptr) function(context);
}

}  // namespace fabring
