#pragma once
// Network: what messages pass on their way: the lane of the sending rank, its network card or the node's memory, the
// switch above, and the same at the receiver. Each lets one message through after the other, in the order in which
// they come; a message occupies several at once (it is forwarded as it comes), so its time is that of the slowest.

#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/cost/machine.hpp"

namespace fabring::simulation {

struct Passage {
  Nanoseconds head = 0;  ///< the first byte is through
  Nanoseconds tail = 0;  ///< the last one
};

class Network {
 public:
  /// `node_of[r]`: node of simulated rank r, nodes numbered from 0.
  Network(const Machine& machine, const std::vector<int>& node_of);

  /// From the rank's memory to the middle of the network. `now` must not go back from call to call of one node.
  Passage leave(int rank, bool same_node, std::uint64_t bytes, Nanoseconds now);
  /// From there to the receiver's memory.
  Passage enter(int rank, bool same_node, std::uint64_t bytes, Passage at);

  Nanoseconds busiest_card() const;                               ///< time the busiest card was sending
  std::uint64_t bytes_between() const { return bytes_between_; }  ///< sent by all simulated ranks to other nodes
  std::uint64_t bytes_inside() const { return bytes_inside_; }

 private:
  /// Things that are alike and let messages through at the same rate.
  struct Resources {
    std::uint64_t rate = 0;  // bytes/s; 0: in nobody's way
    std::vector<Nanoseconds> free_at;
    std::uint64_t last_bytes = 0;  // what `last_time` is of
    Nanoseconds last_time = 0;

    Resources() = default;
    Resources(std::uint64_t of_each, std::size_t count) : rate(of_each), free_at(of_each == 0 ? 0 : count) {}
    Nanoseconds time(std::uint64_t bytes);
    /// Returns the time for which it is held.
    Nanoseconds pass(std::size_t which, std::uint64_t bytes, Passage& passage);
  };
  /// Where a rank has several, the one that is free first takes a message whole, as the engine's do (docs/rails.md).
  std::size_t card(const Resources& cards, int rank) const;
  std::size_t leaf(int rank) const;

  std::vector<int> node_of_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cards_of_;  // by rank: from, to
  std::vector<int> leaf_of_;                                       // by node
  Resources lane_out_[2], lane_in_[2];                             // by rank; [1]: inside the node
  Resources card_out_, card_in_;
  Resources memory_;     // by node
  Resources up_, down_;  // by leaf switch
  std::vector<Nanoseconds> card_busy_;
  std::uint64_t bytes_between_ = 0;
  std::uint64_t bytes_inside_ = 0;
};

}  // namespace fabring::simulation
