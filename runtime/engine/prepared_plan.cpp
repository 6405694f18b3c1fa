#include "runtime/engine/prepared_plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/check.hpp"

namespace fabring {
namespace {
bool is_message(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::recv_reduce;
}

std::size_t largest_message_of(const Plan& plan) {
  if (plan.ranges.empty()) return 0;
  std::vector<Extent> extents(plan.ranges.size());
  fabring::bind(plan, PreparedPlan::measure, extents);
  std::size_t largest = 0;
  for (const Step& step : plan.steps)
    if (is_message(step.kind))
      largest = std::max(largest, extents[step.kind == StepKind::send ? step.from.range : step.to.range].count);
  return largest;
}
}  // namespace

PreparedPlan::PreparedPlan(Plan made) : plan(std::move(made)) {
  std::vector<Rank> ranks;
  for (const Step& step : plan.steps)
    if (is_message(step.kind)) ranks.push_back(step.peer);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (Rank rank : ranks) peers.push_back({rank, {}, {}});

  peer_of_step.assign(plan.steps.size(), -1);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    dependencies.push_back(step.dependencies);
    if (step.dependencies == 0) first_steps.push_back(id);
    if (!is_message(step.kind)) continue;
    const int index = peer_index(step.peer);
    peer_of_step[id] = index;
    auto& list = step.kind == StepKind::send ? peers[index].sends : peers[index].receives;
    FABRING_CHECK(step.message == list.size());  // plan_check proves it; the builder numbers them so
    list.push_back(id);
    if (step.kind == StepKind::recv_reduce) slot_receives.push_back(id);
  }
  largest_message = largest_message_of(plan);
}

Result<std::size_t> agreed_largest_message(const PlanRequest& request) {
  const auto ranks = static_cast<Rank>(request.node_of.size());
  std::map<int, int> node_sizes;
  for (int node : request.node_of) ++node_sizes[node];
  std::set<int> seen;  // sizes of node
  std::size_t largest = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (!seen.insert(node_sizes[request.node_of[rank]]).second) continue;
    PlanRequest other = request;
    other.rank = rank;
    const auto plan = make_allreduce(other);
    if (!plan) return plan.error();
    largest = std::max(largest, largest_message_of(*plan));
  }
  return largest;
}

int PreparedPlan::peer_index(Rank rank) const {
  const auto at = std::lower_bound(peers.begin(), peers.end(), rank,
                                   [](const Peer& peer, Rank wanted) { return peer.rank < wanted; });
  return at != peers.end() && at->rank == rank ? static_cast<int>(at - peers.begin()) : -1;
}

}  // namespace fabring
