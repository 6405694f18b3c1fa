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
    lane_out_[inside] = {machine.tier(inside).lane_bytes_per_second, ranks};
    lane_in_[inside] = lane_out_[inside];
  }

  // Cards are divided evenly: several ranks share one, or one rank has several, as even a number as can be.
  const std::size_t cards = machine.nics;
  card_out_ = {machine.nic_bytes_per_second, static_cast<std::size_t>(nodes) * cards};
  card_in_ = card_out_;
  card_busy_.resize(card_out_.free_at.size());
  std::vector<std::size_t> seen(static_cast<std::size_t>(nodes));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto node = static_cast<std::size_t>(node_of[rank]);
    const auto local = static_cast<std::size_t>(locals[node]);
    const std::size_t place = seen[node]++;
    const std::size_t first = place * cards / local;
    const std::size_t last = std::max((place + 1) * cards / local, first + 1);
    cards_of_.push_back(
        {static_cast<std::uint32_t>(node * cards + first), static_cast<std::uint32_t>(node * cards + last)});
  }

  memory_ = {machine.memory_bytes_per_second, static_cast<std::size_t>(nodes)};
  const int per_leaf = machine.nodes_per_leaf == 0 ? std::max(nodes, 1) : static_cast<int>(machine.nodes_per_leaf);
  for (int node = 0; node < nodes; ++node) leaf_of_.push_back(node / per_leaf);
  const std::uint64_t uplinks = uplink_bytes_per_second(machine, machine.nodes_per_leaf);
  up_ = {uplinks, static_cast<std::size_t>(nodes / per_leaf) + 1};
  down_ = up_;
}

Nanoseconds Network::Resources::time(std::uint64_t bytes) {
  if (bytes != last_bytes) {  // messages of one call have few lengths, and a division takes as long as much else here
    last_bytes = bytes;
    last_time = transfer_ns(bytes, rate);
  }
  return last_time;
}

Nanoseconds Network::Resources::pass(std::size_t which, std::uint64_t bytes, Passage& passage) {
  if (rate == 0) return 0;
  const Nanoseconds held = time(bytes);
  Nanoseconds& free = free_at[which];
  passage.head = std::max(passage.head, free);
  free = passage.head + held;
  passage.tail = std::max(passage.tail, free);
  return held;
}

std::size_t Network::card(const Resources& cards, int rank) const {
  const auto [first, last] = cards_of_[static_cast<std::size_t>(rank)];
  if (last == first + 1) return first;
  const auto at = [&](std::size_t i) { return cards.free_at.begin() + static_cast<std::ptrdiff_t>(i); };
  return static_cast<std::size_t>(std::min_element(at(first), at(last)) - cards.free_at.begin());
}

std::size_t Network::leaf(int rank) const {
  return static_cast<std::size_t>(leaf_of_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(rank)])]);
}

Passage Network::leave(int rank, bool same_node, std::uint64_t bytes, Nanoseconds now) {
  const auto at = static_cast<std::size_t>(rank);
  Passage passage{now, now};
  lane_out_[same_node].pass(at, bytes, passage);
  (same_node ? bytes_inside_ : bytes_between_) += bytes;
  if (same_node) {
    memory_.pass(static_cast<std::size_t>(node_of_[at]), bytes, passage);
  } else {
    if (card_out_.rate != 0) {
      const std::size_t through = card(card_out_, rank);
      card_busy_[through] += card_out_.pass(through, bytes, passage);
    }
    // Also to a neighbour under the same leaf: who that is depends on the placement, which nobody promises.
    if (up_.rate != 0) up_.pass(leaf(rank), bytes, passage);
  }
  return passage;
}

Passage Network::enter(int rank, bool same_node, std::uint64_t bytes, Passage passage) {
  const auto at = static_cast<std::size_t>(rank);
  if (!same_node) {
    if (down_.rate != 0) down_.pass(leaf(rank), bytes, passage);
    if (card_in_.rate != 0) card_in_.pass(card(card_in_, rank), bytes, passage);
  }
  lane_in_[same_node].pass(at, bytes, passage);
  return passage;
}

Nanoseconds Network::busiest_card() const {
  return card_busy_.empty() ? 0 : *std::max_element(card_busy_.begin(), card_busy_.end());
}

}  // namespace fabring::simulation
