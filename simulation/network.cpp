#include "simulation/network.hpp"

#include <algorithm>

namespace fabring::simulation {

Network::Network(const Machine& machine, const std::vector<int>& node_of) : node_of_(node_of) {
  const std::size_t ranks = node_of.size();
  int nodes = 0;
  for (int node : node_of) nodes = std::max(nodes, node + 1);
  std::vector<int> locals(static_cast<std::size_t>(nodes));
  for (int node : node_of) ++locals[static_cast<std::size_t>(node)];
  for (const bool inside : {false, true}) {
    lane_out_[inside].assign(ranks, {machine.tier(inside).lane_bytes_per_second, 0, 0});
    lane_in_[inside] = lane_out_[inside];
  }

  // Cards are divided evenly: several ranks share one, or one rank has several, as even a number as can be.
  const std::size_t cards = machine.nics;
  card_out_.assign(static_cast<std::size_t>(nodes) * cards, {machine.nic_bytes_per_second, 0, 0});
  card_in_ = card_out_;
  std::vector<std::size_t> seen(static_cast<std::size_t>(nodes));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<std::size_t>(node_of[rank]);
    const auto local = static_cast<std::size_t>(locals[node]);
    const std::size_t place = seen[node]++;
    const std::size_t first = place * cards / local;
    cards_of_.push_back({node * cards + first, node * cards + std::max((place + 1) * cards / local, first + 1)});
  }

  memory_.assign(static_cast<std::size_t>(nodes), {machine.memory_bytes_per_second, 0, 0});
  const int per_leaf = machine.nodes_per_leaf == 0 ? std::max(nodes, 1) : static_cast<int>(machine.nodes_per_leaf);
  for (int node = 0; node < nodes; ++node) leaf_of_.push_back(node / per_leaf);
  const std::uint64_t uplinks = uplink_bytes_per_second(machine, machine.nodes_per_leaf);
  up_.assign(static_cast<std::size_t>(nodes / per_leaf) + 1, {uplinks, 0, 0});
  down_ = up_;
}

Network::Resource& Network::card(std::vector<Resource>& cards, int rank) const {
  const auto [first, last] = cards_of_[static_cast<std::size_t>(rank)];
  const auto at = [&](std::size_t i) { return cards.begin() + static_cast<std::ptrdiff_t>(i); };
  return *std::min_element(at(first), at(last),
                           [](const Resource& a, const Resource& b) { return a.free_at < b.free_at; });
}

void Network::pass(Resource& resource, std::uint64_t bytes, Passage& passage) {
  if (resource.rate == 0) return;
  const Nanoseconds time = transfer_ns(bytes, resource.rate);
  passage.head = std::max(passage.head, resource.free_at);
  resource.free_at = passage.head + time;
  resource.busy += time;
  passage.tail = std::max(passage.tail, resource.free_at);
}

Passage Network::leave(int rank, bool same_node, std::uint64_t bytes, Nanoseconds now) {
  const auto at = static_cast<std::size_t>(rank);
  Passage passage{now, now};
  pass(lane_out_[same_node][at], bytes, passage);
  (same_node ? bytes_inside_ : bytes_between_) += bytes;
  if (same_node) {
    pass(memory_[static_cast<std::size_t>(node_of_[at])], bytes, passage);
  } else {
    pass(card(card_out_, rank), bytes, passage);
    // Also to a neighbour under the same leaf: who that is depends on the placement, which nobody promises.
    pass(up_[static_cast<std::size_t>(leaf_of_[static_cast<std::size_t>(node_of_[at])])], bytes, passage);
  }
  return passage;
}

Passage Network::enter(int rank, bool same_node, std::uint64_t bytes, Passage passage) {
  const auto at = static_cast<std::size_t>(rank);
  if (!same_node) {
    pass(down_[static_cast<std::size_t>(leaf_of_[static_cast<std::size_t>(node_of_[at])])], bytes, passage);
    pass(card(card_in_, rank), bytes, passage);
  }
  pass(lane_in_[same_node][at], bytes, passage);
  return passage;
}

Nanoseconds Network::busiest_card() const {
  Nanoseconds most = 0;
  for (const Resource& each : card_out_) most = std::max(most, each.busy);
  return most;
}

}  // namespace fabring::simulation
