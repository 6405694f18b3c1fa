#include "tools/fabring/doctor/hang_waits.hpp"

#include <algorithm>
#include <deque>
#include <optional>

namespace fabring::tools {
namespace {

constexpr std::uint64_t longest_pause_ms = 1000;  // of an operation that goes on
constexpr std::size_t most_ways_tried = 256;      // in a job of thousands every operation may be on one

// How far the rank is on a communicator; 0: has called nothing on it. Nothing: it does not list all that it has.
std::optional<std::uint32_t> called(const RankState& state, std::uint64_t communicator) {
  for (const CommunicatorState& one : state.communicators)
    if (one.id == communicator) return one.called;
  if (state.communicator_count > state.communicators.size()) return std::nullopt;
  return 0;
}

Part part_of_message(const Waiter& waiter, const RankPicture& other) {
  const OperationState& message = *waiter.operation;
  if (other_side(waiter, other).operation != nullptr) return Part::inside;
  if (is_cut(*other.state)) return Part::unknown;
  const bool met = is_receive(message) && (message.phase == OperationPhase::running || message.sequence != 0);
  return met ? Part::finished : Part::absent;
}

}  // namespace

bool needs(const PeerState& peer) { return peer.awaited || peer.sends_in_flight > 0; }

WaitGraph::WaitGraph(const JobPicture& job, std::uint64_t patience_ms)
    : job_(job), still_ms_(std::min(patience_ms, longest_pause_ms)) {
  add_nodes();
  for (Node& node : nodes_) add_edges(node);
  find_circles();
}

void WaitGraph::add_nodes() {
  for (const RankPicture& rank : job_.ranks) {
    if (!rank.state) continue;
    for (const OperationState& operation : rank.state->operations) {
      if (!is_message(operation)) calls_[{operation.communicator, operation.sequence}][rank.rank] = &operation;
      const bool waits = operation.phase != OperationPhase::queued &&
                         std::any_of(operation.peers.begin(), operation.peers.end(), needs);
      if (waits && operation.stuck_ms < still_ms_ && operation.stuck_ms >= still_ms_ / 2)
        young_[rank.rank] = &operation;
      if (!waits || operation.stuck_ms < still_ms_) continue;
      node_of_[&operation] = nodes_.size();
      of_rank_[rank.rank].push_back(nodes_.size());
      nodes_.push_back({{&rank, &operation}, {}, false});
    }
  }
}

Part WaitGraph::part(const Waiter& waiter, Rank rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= job_.ranks.size()) return Part::unknown;
  const RankPicture& other = job_.ranks[static_cast<std::size_t>(rank)];
  if (!other.state || other.state->driver == Driver::unheard) return Part::unknown;
  const OperationState& operation = *waiter.operation;
  if (is_message(operation)) return part_of_message(waiter, other);
  const auto call = calls_.find({operation.communicator, operation.sequence});
  if (call != calls_.end() && call->second.contains(rank)) return Part::inside;
  const auto far = called(*other.state, operation.communicator);
  if (far && *far < operation.sequence) return Part::absent;
  return !far || is_cut(*other.state) ? Part::unknown : Part::finished;
}

const OperationState* WaitGraph::own_wait(Rank rank) const {
  const auto own = of_rank_.find(rank);
  if (own == of_rank_.end()) {
    const auto young = young_.find(rank);
    return young == young_.end() ? nullptr : young->second;
  }
  return nodes_[*std::max_element(own->second.begin(), own->second.end(),
                                  [&](std::size_t a, std::size_t b) {
                                    return nodes_[a].waiter.operation->stuck_ms < nodes_[b].waiter.operation->stuck_ms;
                                  })]
      .waiter.operation;
}

void WaitGraph::add_edges(Node& node) {
  for (const PeerState& peer : node.waiter.operation->peers) {
    if (!needs(peer) || peer.rank == node.waiter.rank->rank) continue;
    const Part there = part(node.waiter, peer.rank);
    const OperationState* same = nullptr;
    if (there == Part::inside)
      same = is_message(*node.waiter.operation)
                 ? other_side(node.waiter, job_.ranks[static_cast<std::size_t>(peer.rank)]).operation
                 : calls_.at({node.waiter.operation->communicator, node.waiter.operation->sequence}).at(peer.rank);
    const auto own = of_rank_.find(peer.rank);
    if (same != nullptr && same->phase != OperationPhase::queued) {
      const auto at = node_of_.find(same);
      if (at == node_of_.end())
        node.ends = true;
      else
        node.edges.push_back({at->second, false});
    } else if ((there == Part::absent || same != nullptr) && own != of_rank_.end()) {
      for (const std::size_t to : own->second) node.edges.push_back({to, there == Part::absent});
    } else {
      node.ends = true;
    }
  }
}

std::vector<bool> WaitGraph::leading_to(const std::vector<bool>& ends) const {
  std::vector<std::vector<std::size_t>> before(nodes_.size());
  for (std::size_t from = 0; from < nodes_.size(); ++from)
    for (const Edge& edge : nodes_[from].edges) before[edge.to].push_back(from);
  std::vector<bool> reached = ends;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (ends[i]) open.push_back(i);
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t from : before[at])
      if (!reached[from]) {
        reached[from] = true;
        open.push_back(from);
      }
  }
  return reached;
}

std::vector<std::size_t> WaitGraph::way(std::size_t from, std::size_t to) const {
  std::vector<std::optional<std::size_t>> before(nodes_.size());
  std::deque<std::size_t> open{from};
  before[from] = from;
  while (!open.empty() && !before[to]) {
    const std::size_t at = open.front();
    open.pop_front();
    for (const Edge& edge : nodes_[at].edges)
      if (!before[edge.to]) {
        before[edge.to] = at;
        open.push_back(edge.to);
      }
  }
  std::vector<std::size_t> nodes;
  if (!before[to]) return nodes;
  for (std::size_t at = to; at != from; at = *before[at]) nodes.push_back(at);
  nodes.push_back(from);
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// Where a row has an end somebody there is the cause; and who waits for a circle is not in it.
void WaitGraph::find_circles() {
  std::vector<bool> ends(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) ends[i] = nodes_[i].ends;
  std::vector<bool> explained = leading_to(ends);
  std::size_t tries_left = most_ways_tried;
  for (std::size_t from = 0; from < nodes_.size(); ++from)
    for (const Edge& edge : nodes_[from].edges) {
      if (explained[from]) break;
      if (!edge.absent || tries_left == 0) continue;
      --tries_left;
      const std::vector<std::size_t> back = way(edge.to, from);
      if (back.empty()) continue;
      std::vector<Waiter> circle{nodes_[from].waiter};
      std::vector<bool> in_it(nodes_.size(), false);
      for (const std::size_t at : back) {
        in_it[at] = true;
        if (at != from) circle.push_back(nodes_[at].waiter);
      }
      circles_.push_back(std::move(circle));
      const std::vector<bool> behind = leading_to(in_it);
      for (std::size_t i = 0; i < explained.size(); ++i) explained[i] = explained[i] || behind[i];
    }
}

}  // namespace fabring::tools
