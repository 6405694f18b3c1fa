// The life of an execution: it starts, runs what is ready, and ends.

#include "runtime/engine/execution/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/local_steps.hpp"
#include "runtime/engine/flat/flat_run.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

[[noreturn]] void end_with(const char* what) {
  std::fprintf(stderr,
               "fabring: the function that was to be called at the end of an operation (notify) threw an exception "
               "(%s), which it must not: operations under way would stand still; this process ends\n",
               what);
  std::abort();
}

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
      tiling_(std::move(tiling)),
      watchdog_(call_.timeout),
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
  if (call_.collective == Collective::recv) received_ = {peer, tag, count};
}

Execution::Start Execution::start(EngineCore& engine, std::uint16_t index, Time now) {
  engine_ = &engine;
  // A send or receive has said all it can in its announcement: what is left waits for grants.
  eager_limit_ = point_to_point() ? 0 : tiling_.eager_bytes;
  fits_cache_ = engine.cache_bytes() == 0 || call_.carried_bytes() <= engine.cache_bytes();
  index_ = index;
  operands_ = std::make_unique<Operands>(*plan_, call_);
  const std::size_t held = held_.size();
  if (const Start reserved = reserve(); reserved != Start::started) {
    held_.resize(held);  // it will choose again
    return reserved;
  }
  started_ = true;
  watchdog_.begin(now);
  if (plan_->is_readable && !call_.device.any())
    read_ = flat_ ? flat_->chosen_read() : communicator_->choose_read(call_, engine.mapped(), engine.clock());
  call_.copy_input();
  tiles_left_ = tiling_.tiles;
  peers_.assign(plan_->peers.size(), {.told = point_to_point()});
  const std::size_t steps = plan_->plan.steps.size();
  if (flat_) {
    next_tile_ = flat_->first_tile();
    tiles_left_ -= next_tile_;
    steps_done_ = next_tile_ * steps;
    for (std::size_t i = 0; i < plan_->peers.size(); ++i) {
      const auto all = [&](const std::vector<StepId>& list) {
        return static_cast<std::uint32_t>(list.size()) * next_tile_;
      };
      peers_[i].sent = all(plan_->peers[i].sends);
      peers_[i].received = all(plan_->peers[i].receives);
    }
  }
  for (auto& tile : tiles_) tile->make_room(*plan_);
  waits_for_stream_ = call_.device.ready || delivered_from_;
  if (!waits_for_stream_) start_tiles();
  return Start::started;
}

// ---- running ------------------------------------------------------------------------------------------------------

void Execution::make_ready(Tile& tile, StepId id) {
  ready_.push_back({&tile, id});
  if (is_receive(ready_.back())) ++ready_receives_;
}

bool Execution::advance() {
  if (failed() || !started_ || !intact_) return false;
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
  return std::exchange(look_again_, false) || moved;
}

// The most recent step is the last of ready_. But before a reduction, which takes long, what can be received is
// granted, so that peers need not wait for it. Once a peer's memory has been read, which takes long, news comes before
// the next reduction (false: only such are left); and of several that of the oldest tile goes first, so that tiles end
// one by one and others can begin.
bool Execution::choose_next() {
  const auto reduces = [this](const Ready& ready) { return plan_->plan.steps[ready.step].kind == StepKind::reduce; };
  if (!reduces(ready_.back())) return true;
  if (ready_receives_ > 0) {
    std::swap(*std::find_if(ready_.rbegin(), ready_.rend(), [this](const Ready& ready) { return is_receive(ready); }),
              ready_.back());
    return true;
  }
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
      if (step.kind == StepKind::reduce && awaits_grants(tile, id)) return retry_.push_back({&tile, id});
      run_local(tile, id);
      if (!tile.landed.empty()) empty_landings(tile, id);
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
    PeerProgress& progress = peers_[static_cast<std::size_t>(peer)];
    ++(step.kind == StepKind::send ? progress.sent : progress.received);
  }
  if (on_device_ && step.kind == StepKind::recv) operand_came(tile, id);
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = plan_->plan.successors[step.first_successor + i];
    if (tile.steps[id].lending && plan_->comes_back(id, next)) continue;  // it did not wait for this
    if (--tile.steps[next].need == 0) make_ready(tile, next);
  }
  if (tile.remaining == 0) finish_tile(tile);
}

// ---- ending -------------------------------------------------------------------------------------------------------

// Sends without their grants wait, as they do before these come.
void Execution::give_up_on(Rank member) {
  const int at = started_ && !failed() ? plan_->peer_index(member) : -1;
  if (at < 0) return;
  for (auto& tile : tiles_) {
    if (!tile->active) continue;
    for (const StepId id : plan_->peers[at].sends) {
      if (tile->steps[id].granted == 0) continue;
      engine_->transfer().decline(world_rank(id), tile->steps[id].granted);
      tile->steps[id].granted = 0;
    }
    for (const StepId id : plan_->peers[at].receives) bring_home(*tile, id);
  }
}

void Execution::fail(const Status& why) {
  if (failed()) return;
  failure_ = why;
  ready_.clear();
  ready_receives_ = 0;
  retry_.clear();
  if (flat_) wait_for_unwritten();
  if (!started_) return;
  for (auto& tile : tiles_) {
    if (!tile->active) continue;
    for (StepId id = 0; id < tile->steps.size(); ++id) {
      if (tile->steps[id].granted == 0) continue;
      engine_->transfer().decline(world_rank(id), tile->steps[id].granted);
      tile->steps[id].granted = 0;
    }
    for (StepId id = 0; id < tile->steps.size(); ++id)
      if (!tile->steps[id].lent.reading) (void)give_back(*tile, id);
    for (const Tile::Landed& one : tile->landed)
      engine_->transfer().empty_landing(world_rank(one.receive), one.landing);
    tile->landed.clear();
  }
}

void Execution::publish() {
  if (started_ && !failed()) read_.over(call_.bytes(), engine_->clock());
  if (on_device_) {
    give_back_for_device();
    if (!took_mirror_) engine_->devices().needs_mirrors(false);
  } else if (engine_ != nullptr) {
    give_back_scratch();
  }
  slots_.clear();
  tiles_.clear();
  flat_.reset();
  call_.owned.reset();
  call_.device.ready.reset();
  held_.clear();
  be_done();
}

void Execution::abandon() {
  if (const int device = busy_device(); device >= 0)
    failure_ = failure_.with_prefix(
        fmt::format("GPU {} has not run what was posted to it, and may still read and write the buffers: ", device));
  be_done();
}

void Execution::be_done() {
  status_ = failure_;
  void (*listener)(void*) = nullptr;
  {
    std::lock_guard lock(listener_mutex_);
    done_.store(true, std::memory_order_release);
    listener = std::exchange(listener_, nullptr);
  }
  if (listener != nullptr) tell(listener, listener_context_);
}

// Its caller may hold the drive, on which every rank of the job waits: better an end that all hear of than a rank that
// is stuck.
void Execution::tell(void (*function)(void*), void* context) {
  try {
    function(context);
  } catch (const std::exception& thrown) {
    end_with(thrown.what());
  } catch (...) {
    end_with("of no std type");
  }
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
  if (function != nullptr) tell(function, context);
}

}  // namespace fabring
