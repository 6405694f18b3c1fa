#include "runtime/engine/prepared_plan.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace fabring {
namespace {

bool is_message(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::recv_reduce;
}

}  // namespace

PreparedPlan::PreparedPlan(Plan made) : plan(std::move(made)), input(input_blocks(plan)), output(output_blocks(plan)) {
  for (RangeId id = 0; plan.blocks != 0 && id < plan.ranges.size(); ++id) blocks.push_back(blocks_of(plan, id));

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
}

int PreparedPlan::peer_index(Rank rank) const {
  const auto at = std::lower_bound(peers.begin(), peers.end(), rank,
                                   [](const Peer& peer, Rank wanted) { return peer.rank < wanted; });
  return at != peers.end() && at->rank == rank ? static_cast<int>(at - peers.begin()) : -1;
}

}  // namespace fabring
