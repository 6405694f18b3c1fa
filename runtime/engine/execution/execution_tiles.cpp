// The tiles of an execution: how one begins, with what has come early or has been done by a FlatRun, and how it ends.

#include <algorithm>
#include <utility>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/flat/flat_run.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

void Execution::Tile::make_room(const PreparedPlan& prepared) {
  steps.resize(prepared.plan.steps.size());
  place.lent.resize(prepared.plan.scratch.size());
  there.lent.resize(prepared.plan.scratch.size());
  eager_left.resize(prepared.peers.size());
}

void Execution::Tile::begin(const PreparedPlan& prepared) {
  active = true;
  remaining = steps.size();
  for (std::size_t id = 0; id < steps.size(); ++id) {
    steps[id] = {};
    steps[id].need = prepared.dependencies[id];
  }
  std::fill(place.lent.begin(), place.lent.end(), nullptr);
  landed.clear();
  next_slot_receive = 0;
  looks_for_grants = 0;
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
  tile.begin(*plan_);
  operands_->bind(tile.place, tiling_, index);
  if (on_device_) {
    device_operands_->bind(tile.there, tiling_, index);
    std::fill(tile.there.lent.begin(), tile.there.lent.end(), nullptr);
    for (std::size_t id = 0; id < tile.steps.size(); ++id)
      tile.steps[id].operands_to_come = static_cast<std::uint32_t>(plan_->last_reader[id].size());
    tile.mirrors.clear();
  }
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
      --communicator_->member[at->first.peer].early_grants;
      at = early.erase(at);
      continue;
    }
    const auto found = step_of(tile, at->first.peer, record);
    if (!found) {
      engine_->refuse(*communicator_, at->first.peer, *this, record, found.error());
      if (record.kind != RecordKind::grant) {
        ++at;
      } else {  // it has been answered: whoever drops what came early must not answer it again
        --communicator_->member[at->first.peer].early_grants;
        at = early.erase(at);
      }
      continue;
    }
    const StepId id = *found;
    if (record.kind == RecordKind::grant) {
      (void)take_grant(tile, id, record);
      --communicator_->member[at->first.peer].early_grants;
      at = early.erase(at);
    } else {
      tile.steps[id].data = Data::early;
      if (!at->second.taken) {
        at->second.taken = true;
        communicator_->took_early(at->first.peer, record.bytes, true, engine_->transfer());
      }
      ++at;
    }
  }
}

void Execution::go_on_from(EngineCore& engine, std::unique_ptr<FlatRun> flat) noexcept {
  engine_ = &engine;
  fast_loans_ = flat->take_loans();
  call_.in = flat->call().in;  // the copy that it works on, if it does: what that was made of is written by now
  call_.owned = flat->call().owned;
  call_.uncopied = nullptr;
  flat_ = std::move(flat);
}

// No tile will wait for what the flat run is still sending.
void Execution::wait_for_unwritten() {
  for (const FlatRun::Writing& one : flat_->writings())
    if (!engine_->transfer().is_written(one.loan.peer, one.loan.number)) fast_loans_.add(one.loan);
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
    if (const FlatRun::Writing* writing = flat_->writing(tile.index(), id);
        writing != nullptr && engine_->transfer().is_on_its_way(writing->loan.peer, writing->loan.number)) {
      engine_->transfer().tell_when_written(writing->loan.peer, writing->loan.number,
                                            cookie(index_, tile_slot(tile), id));
      now_outstanding(id);
      --tile.eager_left[static_cast<std::size_t>(plan_->peer_of_step[id])];
      peer_of(id).told = true;
      continue;
    }
    --tile.remaining;
    ++steps_done_;
    for (std::uint32_t i = 0; i < step.successor_count; ++i)
      --tile.steps[plan.successors[step.first_successor + i]].need;
    const std::int32_t peer = plan_->peer_of_step[id];
    if (peer < 0) continue;
    PeerProgress& progress = peers_[static_cast<std::size_t>(peer)];
    if (step.kind == StepKind::send) {
      ++progress.sent;
      --tile.eager_left[static_cast<std::size_t>(peer)];
      progress.told = true;
    } else {
      ++progress.received;
      tile.steps[id].data = Data::here;
    }
  }
  if (tile.index() + 1 == flat_->end_tile() && flat_->writings().empty()) flat_.reset();
  for (StepId id = static_cast<StepId>(plan.steps.size()); id-- > 0;)
    if (!done[id] && tile.steps[id].need == 0) make_ready(tile, id);
}

void Execution::finish_tile(Tile& tile) {
  if (!on_device_ && !tile.stored) operands_->bring_out(tile.place);
  if (store(tile)) return;  // and comes back
  if (tile.has_mirror) leave_mirror(tile);
  tile.active = false;
  --tiles_left_;
  start_tiles();
}

bool Execution::tile_active(std::uint32_t tile) const {
  if (!started_ || tile >= next_tile_) return false;
  const Tile& in_slot = *tiles_[tile % tiling_.depth];
  return in_slot.active && in_slot.index() == tile;
}

std::uint32_t Execution::oldest_eager_tile(int peer_index) const {
  if (!started_) return 0;
  std::uint32_t oldest = next_tile_;  // tiles not begun have all of theirs to send
  for (const auto& tile : tiles_)
    if (tile->active && tile->eager_left[peer_index] > 0) oldest = std::min(oldest, tile->index());
  return oldest;
}

}  // namespace fabring
