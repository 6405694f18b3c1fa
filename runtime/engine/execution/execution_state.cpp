// What an Execution answers when it is asked how far it is and whom it waits for.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

std::string Execution::place() const {
  return fmt::format("in {} #{} on communicator '{}'", name(call_.collective), sequence_, communicator_->label);
}

std::vector<Rank> Execution::peers_outstanding() const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].outstanding > 0) ranks.push_back(communicator_->members[plan_->peers[i].rank]);
  if (fast_loans_.empty()) return ranks;
  const std::vector<Rank> readers = fast_loans_.readers(engine_->transfer());
  ranks.insert(ranks.end(), readers.begin(), readers.end());
  return ranks;
}

int Execution::busy_device() const {
  if (copies_ == 0) return -1;
  const DeviceBuffers& from = delivered_from_ ? delivered_from_->call().device : call_.device;
  return from.in >= 0 ? from.in : call_.device.out;
}

bool Execution::awaits(const Tile& tile, StepId id) const {
  const StepKind kind = plan_->plan.steps[id].kind;
  return (kind == StepKind::recv || kind == StepKind::recv_reduce) &&
         (tile.steps[id].need == 0 || tile.steps[id].data == Data::posted) && tile.steps[id].data != Data::here &&
         tile.steps[id].data != Data::early && tile.steps[id].data != Data::used &&
         tile.steps[id].data != Data::on_its_way && !skipped(tile, id);
}

std::vector<Rank> Execution::waiting_for() const {
  std::vector<Rank> ranks;
  if (!started_ && point_to_point() && call_.root >= 0) ranks.push_back(call_.root);
  for (const auto& tile : tiles_) {
    if (!tile->active) continue;
    for (StepId id = 0; id < plan_->plan.steps.size(); ++id) {
      if (awaits(*tile, id) || tile->steps[id].waiting) ranks.push_back(plan_->plan.steps[id].peer);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<Rank> Execution::held_up_by() const {
  std::vector<Rank> ranks = waiting_for();
  if (!ranks.empty()) return ranks;
  for (const Rank holder : peers_outstanding()) ranks.push_back(communicator_->rank_of_world(holder));
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

OperationState Execution::state(const CommunicatorCore& communicator, OperationPhase phase, Time now) const {
  const auto ago = [&](Time then) {
    return then == Time{} || now < then
               ? 0
               : static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count());
  };
  OperationState state;
  state.communicator = communicator.global_id();
  state.sequence = sequence_;
  state.call = call_.describe();
  state.bytes = call_.bytes();
  state.phase = phase;
  state.begun_ms = ago(watchdog_.begun_at());
  state.stuck_ms = ago(watchdog_.stuck_since());
  const std::vector<Rank> awaited = held_up_by();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const PreparedPlan::Peer& peer = plan_->peers[i];
    PeerState one;
    one.rank = communicator.members[peer.rank];
    one.sent = peers_[i].sent;
    one.to_send = static_cast<std::uint32_t>(peer.sends.size()) * tiling_.tiles;
    one.received = peers_[i].received;
    one.to_receive = static_cast<std::uint32_t>(peer.receives.size()) * tiling_.tiles;
    one.in_flight = peers_[i].outstanding;
    one.sends_in_flight = peers_[i].sends_outstanding;
    one.awaited = std::binary_search(awaited.begin(), awaited.end(), peer.rank);
    state.peers.push_back(one);
  }
  if (state.peers.empty())  // a send or receive that has not begun
    for (const Rank rank : awaited) {
      PeerState one;
      one.rank = communicator.members[rank];
      one.awaited = true;
      state.peers.push_back(one);
    }
  std::stable_sort(state.peers.begin(), state.peers.end(),
                   [](const PeerState& a, const PeerState& b) { return a.awaited && !b.awaited; });
  state.peer_count = static_cast<std::uint32_t>(state.peers.size());
  if (state.peers.size() > RankState::most_peers) state.peers.resize(RankState::most_peers);
  return state;
}

std::uint64_t Execution::bytes_done() const {
  if (!started_) return 0;
  return call_.bytes() / tiling_.tiles * (tiling_.tiles - tiles_left_);
}

}  // namespace fabring
