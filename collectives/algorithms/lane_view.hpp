#pragma once
// LaneView: the lanes of a vector (lanes.hpp) as one rank sees them: what it owns, who owns the rest on its node, and
// who owns the same on the other nodes. Internal to collectives/algorithms/.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/algorithms/pieces.hpp"

namespace fabring {

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
  Rank owner_on_last_node(int lane) const {
    const auto& node = lanes_.nodes.back();
    return node[at(lanes_.position_of(lane, static_cast<int>(node.size())))];
  }

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
inline Block lane_of(const PlanBuilder& plan, Block share, RangeId range) {
  return share.space == Space::scratch ? PlanBuilder::in(share, range) : plan.output(range);
}

}  // namespace fabring
