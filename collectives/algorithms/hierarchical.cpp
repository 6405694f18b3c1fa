// Hierarchical: the vector is cut into lanes (lanes.hpp); on every node each lane belongs to one rank, and the owners
// of a lane move it between the nodes, all lanes at the same time. The slow links carry the least there can be, over
// all local ranks. docs/algorithms.md has the picture.

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/algorithms/forms.hpp"
#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

/// The lanes as one rank sees them.
class LaneView {
 public:
  LaneView(PlanBuilder& plan, std::span<const int> node_of)
      : plan_(plan),
        lanes_(make_lanes(node_of)),
        node_index_(node_with(node_of, plan.rank())),
        root_node_(node_with(node_of, plan.root())),
        node_(lanes_.nodes[node_index_], plan.rank()) {
    const int ranks = node_.size();
    for (int i = 0; i < ranks; ++i) {
      shares_.push_back(
          plan.parts(plan.whole(), lanes_.first_lane(i, ranks), lanes_.last_lane(i, ranks), lanes_.count));
    }
  }

  const Group& node() const { return node_; }
  int nodes() const { return static_cast<int>(lanes_.nodes.size()); }
  int node_index() const { return static_cast<int>(node_index_); }
  bool with_root() const { return node_index_ == root_node_; }
  /// What each rank of the node owns, and this one.
  std::span<const RangeId> shares() const { return shares_; }
  RangeId mine() const { return shares_[at(node_.index())]; }
  int first_lane() const { return lanes_.first_lane(node_.index(), node_.size()); }
  int last_lane() const { return lanes_.last_lane(node_.index(), node_.size()); }
  RangeId range(int lane) const { return plan_.part(plan_.whole(), lane, lanes_.count); }
  int lanes() const { return lanes_.count; }
  /// The rank of this node that owns `lane`.
  Rank owner(int lane) const { return node_.at(lanes_.position_of(lane, node_.size())); }
  /// A lane for each rank: share i is then part i of a ring over the node. Otherwise shares go to their owners
  /// directly.
  bool ring_inside() const { return node_.size() == lanes_.count; }

  /// The owners of a lane, one for each node, from node `first` on.
  Group rail(int lane, std::size_t first) const {
    std::vector<Rank> ranks;
    ranks.reserve(lanes_.nodes.size());
    for (std::size_t i = 0; i < lanes_.nodes.size(); ++i) {
      const auto& node = lanes_.nodes[(first + i) % lanes_.nodes.size()];
      ranks.push_back(node[at(lanes_.position_of(lane, static_cast<int>(node.size())))]);
    }
    return {std::move(ranks), plan_.rank()};
  }
  std::size_t root_node() const { return root_node_; }

  void all_gather_inside(int holder = -1) const {
    if (ring_inside()) {
      ring_all_gather(plan_, node_, shares_, holder);
    } else {
      direct_all_gather(plan_, node_, shares_, holder);
    }
  }

  std::uint64_t lane_length() const { return part_of(message_unit, static_cast<std::uint64_t>(lanes_.count)); }
  static std::uint64_t part_of(std::uint64_t whole, std::uint64_t count) { return (whole + count - 1) / count; }
  /// Inside a node of several ranks travel the lanes of one rank; between nodes messages of at most `between`.
  void bound_messages(std::uint64_t between) const {
    std::uint64_t longest = nodes() > 1 ? between : 0;
    for (const auto& node : lanes_.nodes) {
      const std::uint64_t lanes = part_of(static_cast<std::uint64_t>(lanes_.count), node.size());
      if (node.size() > 1) longest = std::max(longest, lane_length() * lanes);
    }
    plan_.bound_messages(longest);
  }

 private:
  std::size_t node_with(std::span<const int> node_of, Rank rank) const {
    std::size_t i = 0;
    while (node_of[at(lanes_.nodes[i].front())] != node_of[at(rank)]) ++i;
    return i;
  }

  PlanBuilder& plan_;
  Lanes lanes_;
  std::size_t node_index_;
  std::size_t root_node_;
  Group node_;
  std::vector<RangeId> shares_;
};

/// Where a lane lies whose share is in `share`.
Block lane_of(const PlanBuilder& plan, Block share, RangeId range) {
  return share.space == Space::scratch ? PlanBuilder::in(share, range) : plan.output(range);
}

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
  if (view.ring_inside()) {
    ring_reduce_scatter(plan, view.node(), view.shares());
  } else {
    direct_reduce_scatter(plan, view.node(), view.shares());
  }
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
  view.all_gather_inside();
}

// Reduce-scatter inside the node, a chain of each lane over the nodes to the root's, whose ranks hand it to the root.
void reduce_by_hierarchical(PlanBuilder& plan, const PlanRequest& request) {
  const LaneView view(plan, request.node_of);
  view.bound_messages(view.lane_length());
  const bool alone = view.node().size() == 1;
  Block share = plan.output(view.mine());
  if (!plan.is_root() && !plan.empty(view.mine())) share = plan.scratch(view.mine());
  if (!alone && view.ring_inside()) {
    ring_reduce_scatter(plan, view.node(), view.shares(), share);
  } else if (!alone) {
    direct_reduce_scatter(plan, view.node(), view.shares(), share);
  }
  for (int lane = view.first_lane(); lane < view.last_lane(); ++lane) {
    const RangeId range = view.range(lane);
    const Group chain = view.rail(lane, view.root_node() + 1);
    const Block to = lane_of(plan, share, range);
    Block sum = alone ? plan.input(range) : to;
    if (chain.index() > 0) {
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
  view.all_gather_inside(holder);
}

}  // namespace fabring
