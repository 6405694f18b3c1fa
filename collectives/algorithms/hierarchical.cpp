// Hierarchical: the vector is cut into lanes (lanes.hpp); on every node each lane belongs to one rank, and the owners
// of a lane move it between the nodes, all lanes at the same time. The slow links carry the least there can be, over
// all local ranks. docs/algorithms.md has the picture.

#include <array>
#include <bit>
#include <optional>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/lane_view.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// Many nodes reduce a lane in few rounds.
std::vector<Exchange> few_rounds(int node, int nodes) {
  return std::has_single_bit(static_cast<unsigned>(nodes)) ? halving_rounds(node, nodes)
                                                           : circulant_rounds(node, nodes);
}

}  // namespace

// Reduce-scatter inside the node, an allreduce of each lane among the nodes, all-gather inside.
void allreduce_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, request.node_of);
  const bool in_ring = ring_between(view.nodes(), view.lanes());
  const auto rounds =
      in_ring ? ring_rounds(view.node_index(), view.nodes()) : few_rounds(view.node_index(), view.nodes());
  const std::uint64_t part = LaneView::part_of(view.lane_length(), static_cast<std::uint64_t>(view.nodes()));
  view.bound_messages(longest_message(rounds, part));
  ring_reduce_scatter(plan, view.node(), view.shares());
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const Group rail = view.rail(lane, 0);
    const RangeId range = view.range(lane);
    reduce_scatter_in_rounds(plan, rail, range, rounds);
    finish_if_avg(plan, request.op, plan.part(range, rail.index(), rail.size()));
    if (in_ring) {
      ring_all_gather(plan, rail, cut(plan, range, rail.size()));
    } else {
      all_gather_in_rounds(plan, rail, range, rounds);
    }
  }
  ring_all_gather(plan, view.node(), view.shares());
}

// Reduce-scatter inside the node, a chain of each lane over the nodes to the root's, whose ranks hand it to the root.
void reduce_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, request.node_of);
  view.bound_messages(view.lane_length());
  const bool alone = view.node().size() == 1;
  Block share = plan.output(view.mine());
  if (!alone && !plan.is_root() && !plan.empty(view.mine())) share = plan.scratch(view.mine());
  if (!alone) ring_reduce_scatter(plan, view.node(), view.shares(), share);
  std::array<std::optional<Block>, 3> areas;  // of a rank alone on its node, for one lane after the other
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const RangeId range = view.range(lane);
    const Group chain = view.rail(lane, view.root_node() + 1);
    Block to = lane_of(plan, share, range);
    Block sum = alone ? plan.input(range) : to;
    if (chain.index() > 0) {
      if (alone && !plan.is_root()) {
        std::optional<Block>& area = areas[at(lane) % areas.size()];
        if (!area) area = plan.scratch(range);
        to = PlanBuilder::in(*area, range);
      }
      plan.recv_reduce(chain.previous(), to, sum, /*incoming_first=*/true);
      sum = to;
    }
    if (!view.with_root()) {
      plan.send(chain.next(), sum);
      continue;
    }
    finish_if_avg(plan, request.op, to);
    if (!plan.is_root()) plan.send(plan.root(), to);
  }
  for (int lane = 0; lane < view.lanes() && plan.is_root(); ++lane) {
    if (view.owner(lane) != plan.rank()) plan.recv(view.owner(lane), view.range(lane));
  }
}

// The root hands its node's ranks their lanes, a chain of each lane over the nodes, all-gather inside the nodes.
void broadcast_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, request.node_of);
  view.bound_messages(view.lane_length());
  const Group& node = view.node();
  int holder = -1;
  if (view.with_root()) {
    for (holder = 0; node.at(holder) != plan.root();) ++holder;
    for (int k = 1; k < node.size(); ++k) {
      const RangeId share = view.shares()[at((holder + k) % node.size())];
      if (plan.empty(share)) continue;
      if (plan.is_root()) plan.send(node.at(holder + k), share);
      if (plan.rank() == node.at(holder + k)) plan.recv(plan.root(), share);
    }
  }
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const Group chain = view.rail(lane, view.root_node());
    if (chain.index() > 0) plan.recv(chain.previous(), view.range(lane));
    if (chain.index() + 1 < chain.size()) plan.send(chain.next(), view.range(lane));
  }
  ring_all_gather(plan, view.node(), view.shares(), holder);
}

}  // namespace fabring
