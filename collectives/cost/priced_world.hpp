#pragma once
// PricedWorld: the phases of every collective over ranks and nodes of one shape, for one number of bytes. What many
// algorithms share is here; phases.cpp has the collectives without a root, rooted_phases.cpp those with one, and trees.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/cost/exchange_crossings.hpp"
#include "collectives/cost/phases.hpp"
#include "collectives/cost/tree_crossings.hpp"

namespace fabring::cost {

inline std::int64_t log2_up(std::int64_t n) {
  return n <= 1 ? 0 : static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}
inline std::int64_t log2_down(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n))) - 1;
}

/// Of a power of two.
inline std::size_t bit_of(std::int64_t power) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(power)));
}

/// Of so many things, for the one of `parts` that has most.
inline std::int64_t per(std::int64_t things, std::int64_t parts) { return (things + parts - 1) / parts; }

/// The shape in the terms of docs/algorithms.md, and phases that many algorithms share.
class PricedWorld {
 public:
  /// `by_number`: partners in the plan follow from the numbers of ranks, wherever these are. If the ranks of a node are
  /// apart, then messages cross, those of all its ranks at once.
  PricedWorld(std::uint64_t bytes, const WorldShape& shape, bool by_number)
      : S(bytes),
        n(shape.ranks),
        N(shape.nodes),
        L(shape.most),
        least(shape.least),
        K(least == L ? L : lane_count(least, L)),
        scattered(by_number && shape.order != RankOrder::by_node),
        in_turn(scattered && shape.order == RankOrder::in_turn),
        blocks_of_nodes(NodeBlocks::of(shape)) {}

  std::uint64_t share(std::int64_t parts) const {
    const auto by = static_cast<std::uint64_t>(std::max<std::int64_t>(parts, 1));
    return (S + by - 1) / by;
  }

  /// So many of the n blocks.
  std::uint64_t blocks(std::int64_t count) const { return static_cast<std::uint64_t>(count) * share(n); }

  /// What is long and waits in scratch until all have come costs a little more than what is reduced as it comes. With
  /// one other rank all of it is a copy more, as what is reduced as it comes need not come to scratch.
  std::uint64_t waiting_for_all(std::uint64_t message) const {
    if (message <= eager_message_bytes) return 0;
    return n == 2 ? message : message / 16;
  }

  /// Once around but one, a part of `of` at a time.
  Phase ring(std::uint64_t of, bool reduce) const {
    const auto parts = static_cast<std::uint64_t>(n);
    const std::uint64_t part = (of + parts - 1) / parts;
    const std::int64_t crossing = N > 1 ? std::min(N, n - 1) : 0;  // of the part that crosses most
    Phase phase{n - 1 - crossing, crossing, part, 1, reduce ? part : 0, N > 1 ? (parts - 1) * part : 0, 1};
    if (N > 1 && L > 1) phase.at_node_end = n - 1;
    phase.from_slots = N > 1 && reduce;
    return phase;
  }
  /// Everybody to everybody, `message` each. `reduced`: bytes a rank reduces in all.
  Phase everybody(std::uint64_t message, std::uint64_t reduced) const {
    const auto outside = static_cast<std::uint64_t>(n - L) * static_cast<std::uint64_t>(L);
    Phase phase{N > 1 ? 0 : 1, N > 1 ? 1 : 0, message, n - 1, reduced, N > 1 ? outside * message : 0, L};
    phase.inside_messages = N > 1 ? L - 1 : 0;
    return phase;
  }
  /// One rank to all or all to one.
  Phase fan(std::uint64_t message, std::uint64_t reduced) const {
    Phase phase{N > 1 ? 0 : 1, N > 1 ? 1 : 0, message, n - 1, reduced, static_cast<std::uint64_t>(n - L) * message, 1,
                n - 1};
    phase.inside_messages = N > 1 ? L - 1 : 0;
    phase.of_one_node = true;
    return phase;
  }
  /// A round with the rank at this distance: a node's last ranks reach into the next.
  Phase round(std::uint64_t message, std::int64_t distance, bool reduce) const {
    const bool crosses = N > 1 && !(in_turn && distance % N == 0);
    const std::int64_t flows = scattered ? L : std::min<std::int64_t>(distance, L);
    Phase phase{crosses ? 0 : 1,
                crosses ? 1 : 0,
                message,
                1,
                reduce ? message : 0,
                crosses ? static_cast<std::uint64_t>(flows) * message : 0,
                std::max<std::int64_t>(flows, 1)};
    phase.rotating = 2 * distance % n != 0;
    return phase;
  }
  /// A round with the rank whose number differs in one bit: of equal nodes of a power of two, inside the node at first.
  Phase exchange(std::uint64_t message, std::int64_t distance, bool reduce) const {
    const bool aligned = least == L && std::has_single_bit(static_cast<std::uint64_t>(n));
    const std::int64_t flows = N == 1      ? 0
                               : scattered ? (stays_in_turn(distance) ? 0 : L)
                               : aligned   ? (distance >= L ? L : 0)
                                           : exchange_crossings(blocks_of_nodes).flows[bit_of(distance)];
    return exchanged(message, flows, reduce);
  }
  /// A message to and from another rank each, of which so many of a node cross.
  Phase exchanged(std::uint64_t message, std::int64_t flows, bool reduce) const {
    const bool crosses = flows > 0;
    return {crosses ? 0 : 1,
            crosses ? 1 : 0,
            message,
            1,
            reduce ? message : 0,
            static_cast<std::uint64_t>(flows) * message,
            std::max<std::int64_t>(flows, 1)};
  }

  /// Around a ring inside the largest node, where a rank without a lane passes on what comes: on a smaller one there
  /// are fewer rounds, and no more bytes on the way.
  Phase lanes_inside(bool reduce) const {
    Phase phase{L - 1, 0, share(K), 1, reduce ? share(K) : 0, 0, 1};
    if (K < L) phase.own_rounds = K;
    return phase;
  }
  /// Ranks of the smallest node that has several. A shape does not tell where another has one alone: as if those
  /// between it and the largest were alike.
  std::int64_t several() const {
    if (least > 1 || N < 3) return least > 1 ? least : L;
    const std::int64_t each = (n - L - 1) / (N - 2);
    return each > 1 ? each : L;
  }
  /// On a smaller node of several ranks a message has all lanes of a rank.
  std::uint64_t longest_share() const { return L > 1 ? static_cast<std::uint64_t>(per(K, several())) * share(K) : 0; }

  Phases allreduce(Algorithm algorithm) const;
  Phases reduce_scatter(Algorithm algorithm, bool reduces) const;  // all_gather is its mirror
  Phases rooted(Algorithm algorithm, bool reduces) const;          // broadcast, reduce
  Phases rooted_blocks(Algorithm algorithm, bool downward) const;  // scatter: downward; gather
  Phases alltoall(Algorithm algorithm) const;
  Phases barrier(Algorithm algorithm) const;

 private:
  /// Does an exchange with the rank whose number differs in the bit `distance` stay on nodes that ranks were dealt to?
  bool stays_in_turn(std::int64_t distance) const {
    const bool aligned =
        std::has_single_bit(static_cast<std::uint64_t>(n)) && std::has_single_bit(static_cast<std::uint64_t>(N));
    return in_turn && aligned && distance >= N;
  }
  /// Edges of a scattered tree at the node with most: of ranks dealt to nodes in turn, those of the first node.
  std::int64_t scattered_edges() const { return L * log2_up(N); }
  /// And those on the longest way in it that lead to another node: where a lower bit of the number is cleared.
  std::int64_t scattered_way() const {
    return in_turn && std::has_single_bit(static_cast<std::uint64_t>(N)) ? log2_up(N) : log2_up(n);
  }
  Crossings crossings_of(Trees trees) const;
  Phases rooted_lanes(bool reduces) const;
  void tree(Phases& phases, std::uint64_t message, Trees trees, bool reduces) const;
  void up_and_down(Phases& phases, std::uint64_t message, Trees trees) const;
  void pair_extra_ranks(Phases& phases) const;

  std::uint64_t S;
  std::int64_t n, N, L, least, K;  // K lanes (algorithms/lanes.hpp)
  bool scattered, in_turn;
  NodeBlocks blocks_of_nodes;
};

}  // namespace fabring::cost
