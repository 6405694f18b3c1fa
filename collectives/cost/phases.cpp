#include "collectives/cost/phases.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "collectives/algorithms/lanes.hpp"

namespace fabring::cost {
namespace {

std::int64_t log2_up(std::int64_t n) { return n <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n - 1)); }
std::int64_t log2_down(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)) - 1; }

/// Parts that each of n sends in the rounds of a circulant reduce-scatter.
std::vector<std::int64_t> circulant_counts(std::int64_t n) {
  std::vector<std::int64_t> counts;
  for (std::int64_t left = n; left > 1; left -= counts.back()) counts.push_back(left / 2);
  return counts;
}

/// The edges of trees that lead from node to node.
struct Crossings {
  std::int64_t of_a_node = 0;  ///< that end at the busiest one, in all trees
  std::int64_t on_a_way = 0;   ///< from a rank to the root, the most
};

/// Of the binomial tree, or of the two in-order binary trees of double_tree.cpp. Ranks lie on nodes in blocks, the
/// largest (`most`) first. It goes to the root from every rank.
Crossings count_crossings(std::int64_t n, std::int64_t nodes, std::int64_t most, std::int64_t trees) {
  const auto above = [&](std::int64_t position) {
    const std::int64_t bit = position & -position;
    if (trees == 1) return position - bit;
    const std::int64_t parent = (position - bit) | (2 * bit);
    return parent < n ? parent : position - bit;
  };
  Crossings found;
  std::vector<std::int64_t> edges(static_cast<std::size_t>(nodes));
  for (std::int64_t tree = 0; tree < trees; ++tree) {
    const auto node = [&](std::int64_t position) {
      const std::int64_t rank = tree == 0 ? position : n % 2 == 0 ? n - 1 - position : (position + 1) % n;
      if (rank < most) return std::size_t{0};
      return static_cast<std::size_t>(1 + (rank - most) * (nodes - 1) / (n - most));
    };
    for (std::int64_t position = 1; position < n; ++position) {
      std::int64_t way = 0;
      for (std::int64_t at = position; at != 0; at = above(at)) {
        if (node(at) == node(above(at))) continue;
        ++way;
        if (at != position) continue;
        ++edges[node(at)];
        ++edges[node(above(at))];
      }
      found.on_a_way = std::max(found.on_a_way, way);
    }
  }
  found.of_a_node = *std::max_element(edges.begin(), edges.end());
  return found;
}

/// The same, kept: a table prices one shape for every size.
const Crossings& crossings(std::int64_t n, std::int64_t nodes, std::int64_t most, std::int64_t trees) {
  struct Counted {
    std::array<std::int64_t, 3> shape{};
    Crossings crossings;
  };
  thread_local std::array<Counted, 2> counted;  // one tree, two trees
  Counted& known = counted[trees == 1 ? 0 : 1];
  if (const std::array<std::int64_t, 3> shape{n, nodes, most}; known.shape != shape)
    known = {shape, count_crossings(n, nodes, most, trees)};
  return known.crossings;
}

/// The shape in the terms of docs/algorithms.md, and phases that many algorithms share.
class World {
 public:
  World(std::uint64_t bytes, const WorldShape& shape)
      : S(bytes), n(shape.ranks), N(shape.nodes), L(shape.most), least(shape.least) {}

  std::uint64_t share(std::int64_t parts) const {
    const auto by = static_cast<std::uint64_t>(std::max<std::int64_t>(parts, 1));
    return (S + by - 1) / by;
  }

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
    return {n - 1 - crossing, crossing, part, 1, reduce ? part : 0, N > 1 ? (parts - 1) * part : 0, 1};
  }
  /// Everybody to everybody, `message` each. `reduced`: bytes a rank reduces in all.
  Phase everybody(std::uint64_t message, std::uint64_t reduced) const {
    const auto outside = static_cast<std::uint64_t>(n - L) * static_cast<std::uint64_t>(L);
    return {N > 1 ? 0 : 1, N > 1 ? 1 : 0, message, n - 1, reduced, N > 1 ? outside * message : 0, L};
  }
  /// One rank to all or all to one.
  Phase fan(std::uint64_t message, std::uint64_t reduced) const {
    return {N > 1 ? 0 : 1, N > 1 ? 1 : 0, message, n - 1, reduced, static_cast<std::uint64_t>(n - L) * message, 1,
            n - 1};
  }
  /// A round with the rank at this distance: a node's last ranks reach into the next.
  Phase round(std::uint64_t message, std::int64_t distance, bool reduce) const {
    const bool crosses = N > 1;
    const std::int64_t flows = std::min<std::int64_t>(distance, L);
    return {crosses ? 0 : 1,
            crosses ? 1 : 0,
            message,
            1,
            reduce ? message : 0,
            crosses ? static_cast<std::uint64_t>(flows) * message : 0,
            std::max<std::int64_t>(flows, 1)};
  }
  /// A round with the rank whose number differs in one bit: of equal nodes of a power of two, inside the node at first.
  Phase exchange(std::uint64_t message, std::int64_t distance, bool reduce) const {
    const bool aligned = least == L && std::has_single_bit(static_cast<std::uint64_t>(L));
    const bool crosses = N > 1 && (distance >= L || !aligned);
    const std::int64_t flows = aligned ? L : std::min(distance, L);
    return {crosses ? 0 : 1,
            crosses ? 1 : 0,
            message,
            1,
            reduce ? message : 0,
            crosses ? static_cast<std::uint64_t>(flows) * message : 0,
            flows};
  }

  Phases allreduce(Algorithm algorithm) const;
  Phases reduce_scatter(Algorithm algorithm, bool reduces) const;  // all_gather is its mirror
  Phases rooted(Algorithm algorithm, bool reduces) const;          // broadcast, reduce
  Phases rooted_blocks(Algorithm algorithm) const;                 // gather, scatter
  Phases alltoall(Algorithm algorithm) const;
  Phases barrier(Algorithm algorithm) const;

 private:
  void tree(Phases& phases, std::uint64_t message, std::int64_t trees, bool reduces) const;
  void up_and_down(Phases& phases, std::uint64_t message, std::int64_t trees) const;
  void fold(Phases& phases, bool reduces) const;

  std::uint64_t S;
  std::int64_t n, N, L, least;
};

/// The two further rounds where n is no power of two.
void World::fold(Phases& phases, bool reduces) const {
  if (std::has_single_bit(static_cast<std::uint64_t>(n))) return;
  phases.list.push_back(round(S, 1, reduces));
  phases.list.push_back(round(S, 1, false));
}

Phases World::reduce_scatter(Algorithm algorithm, bool reduces) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::ring:
      phases.list = {ring(S, reduces)};
      break;
    case Algorithm::hierarchical: {
      const auto lanes = std::max<std::int64_t>(L, 1);
      const std::uint64_t block = share(n);
      const auto reduced = [&](std::int64_t blocks) {
        return reduces ? static_cast<std::uint64_t>(blocks) * block : 0;
      };
      const std::int64_t inside = (L - 1) * N;
      if (ring_between(N, L)) {  // block by block
        phases.list = {{inside, 0, block, 1, reduced(1), 0, 1},
                       {0, N - 1, block, 1, reduced(1), static_cast<std::uint64_t>(N - 1) * share(N), lanes}};
        break;
      }
      phases.list = {{1, 0, block, inside, reduced(inside), 0, 1}};
      for (const std::int64_t count : circulant_counts(N))
        phases.list.push_back(
            {0, 1, block, count, reduced(count), static_cast<std::uint64_t>(count) * share(N), lanes});
      break;
    }
    case Algorithm::pairwise:
      phases.list = {
          {L - 1, n - L, share(n), 1, reduces ? share(n) : 0, static_cast<std::uint64_t>(L * (n - L)) * share(n), L}};
      break;
    case Algorithm::direct_one_shot:
    case Algorithm::direct_two_shot:
      phases.list = {everybody(share(n), reduces ? static_cast<std::uint64_t>(n - 1) * share(n) : 0)};
      break;
    case Algorithm::circulant:
    case Algorithm::bruck:
      for (std::int64_t left = n; const std::int64_t count : circulant_counts(n)) {
        left -= count;  // the distance
        phases.list.push_back(round(static_cast<std::uint64_t>(count) * share(n), left, reduces));
      }
      break;
    case Algorithm::halving_doubling:
    case Algorithm::recursive_doubling:  // blocks double with the distance
      for (std::int64_t distance = 1, m = 1LL << log2_down(n); distance < m; distance *= 2)
        phases.list.push_back(exchange(share(m / distance), distance, reduces));
      fold(phases, reduces);
      break;
    default:
      break;
  }
  return phases;
}

Phases World::allreduce(Algorithm algorithm) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::ring:
      phases.list = {ring(S, true), ring(S, false)};
      break;
    case Algorithm::hierarchical: {
      // Unequal nodes: ranks send each owner its lanes directly, and the smallest node's ranks carry most.
      const bool equal = least == L;
      const std::uint64_t lane = share(least * N);  // a part of it
      const Phase inside{L > 1 ? (equal ? L - 1 : 1) : 0, 0, share(L), equal ? 1 : L - 1, share(L), 0, 1};
      Phase gather = inside;
      gather.reduced = 0;
      phases.list = {inside};
      const auto between = [&](std::int64_t rounds, std::int64_t count, bool reduces) {  // `count` parts in each
        const std::uint64_t bytes = static_cast<std::uint64_t>(count) * lane;
        phases.list.push_back(
            {0, rounds, bytes, 1, reduces ? bytes : 0, static_cast<std::uint64_t>(rounds * count) * share(N), least});
      };
      for (const bool reduces : {true, false}) {
        if (ring_between(N, L)) {
          between(N - 1, 1, reduces);
        } else {
          for (const std::int64_t count : circulant_counts(N)) between(1, count, reduces);
        }
      }
      phases.list.push_back(gather);
      break;
    }
    case Algorithm::recursive_doubling:
      for (std::int64_t distance = 1; distance < 1LL << log2_down(n); distance *= 2) {
        phases.list.push_back(exchange(S, distance, true));
        phases.list.back().aside = S;
      }
      fold(phases, true);
      break;
    case Algorithm::direct_one_shot:
      phases.list = {everybody(S, static_cast<std::uint64_t>(n - 1) * S)};
      phases.list.back().waiting = waiting_for_all(S);
      phases.list.back().aside = S;
      break;
    case Algorithm::direct_two_shot:
      phases.list = {everybody(share(n), static_cast<std::uint64_t>(n - 1) * share(n)), everybody(share(n), 0)};
      phases.list.front().waiting = waiting_for_all(share(n));
      break;
    case Algorithm::binomial:
      up_and_down(phases, S, 1);
      break;
    case Algorithm::double_tree:
      up_and_down(phases, share(2), 2);
      break;
    case Algorithm::star:
      phases.list = {fan(S, static_cast<std::uint64_t>(n - 1) * S), fan(S, 0)};
      break;
    case Algorithm::halving_doubling:  // the largest messages to the nearest
      for (const bool reduces : {true, false})
        for (std::int64_t distance = 1; distance < 1LL << log2_down(n); distance *= 2)
          phases.list.push_back(exchange(share(2 * distance), distance, reduces));
      fold(phases, true);
      break;
    case Algorithm::circulant: {
      phases = reduce_scatter(algorithm, true);
      const Phases gather = reduce_scatter(algorithm, false);
      phases.list.insert(phases.list.end(), gather.list.begin(), gather.list.end());
      break;
    }
    default:
      break;
  }
  const bool both_halves =
      algorithm == Algorithm::ring || algorithm == Algorithm::halving_doubling || algorithm == Algorithm::circulant;
  if (n == 2 && both_halves && phases.list.size() == 2) phases.list.back().answers = true;
  return phases;
}

/// Up or down a binomial tree, or two binary ones in each of which half the ranks are leaves: log2 n rounds, and the
/// busiest rank has log2 n children, or two.
void World::tree(Phases& phases, std::uint64_t message, std::int64_t trees, bool reduces) const {
  const std::int64_t rounds = log2_up(n);
  const std::int64_t between = least == L || N == 1 ? rounds - std::min(rounds, log2_up(L))
                                                    : std::min(rounds, crossings(n, N, L, trees).on_a_way);
  const std::int64_t inside = rounds - between;
  const std::int64_t children = trees == 2 ? 2 : rounds;
  const std::int64_t per_round = trees;
  Phase phase{inside,
              rounds - inside,
              message,
              per_round,
              reduces ? message * static_cast<std::uint64_t>(per_round) : 0,
              static_cast<std::uint64_t>(N > 1 ? between : 0) * message,
              1,
              trees * (n - 1)};
  phase.all_busy = trees == 2;
  phases.list.push_back(phase);
  phases.rounds_of_a_rank += std::min<std::int64_t>(rounds, children + 1);
  phases.messages_of_a_rank += children;
}

/// Both, one after the other for a tile. What comes up to a node goes down from it, so that its links carry a tile once
/// each way for every edge; tiles that come up and such that go down pass each other.
void World::up_and_down(Phases& phases, std::uint64_t message, std::int64_t trees) const {
  const Crossings between = N > 1 ? crossings(n, N, L, trees) : Crossings{};
  for (const bool reduces : {true, false}) {
    tree(phases, message, trees, reduces);
    if (N == 1) continue;
    Phase& phase = phases.list.back();
    const std::int64_t rounds = phase.rounds();
    phase.between_rounds = std::min(rounds, between.on_a_way);
    phase.inside_rounds = rounds - phase.between_rounds;
    phase.node_bytes = static_cast<std::uint64_t>(between.of_a_node) * message / 2;
    phase.round_bytes = message;
  }
}

Phases World::rooted(Algorithm algorithm, bool reduces) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::binomial:
      tree(phases, S, 1, reduces);
      break;
    case Algorithm::double_tree:
      tree(phases, share(2), 2, reduces);
      break;
    case Algorithm::chain: {
      const std::int64_t crossing = N - 1;
      phases.list = {{n - 1 - crossing, crossing, S, 1, reduces ? S : 0, N > 1 ? S : 0, 1, n - 1}};
      phases.rounds_of_a_rank = std::min<std::int64_t>(n - 1, 2);
      phases.messages_of_a_rank = 1;
      break;
    }
    case Algorithm::direct_one_shot:
    case Algorithm::star:
      phases.list = {fan(S, reduces ? static_cast<std::uint64_t>(n - 1) * S : 0)};
      break;
    case Algorithm::ring:  // a reduce-scatter and a gather; a scatter and an all-gather
      phases.list = {ring(S, reduces), fan(share(n), 0)};
      break;
    case Algorithm::circulant:
      phases = reduce_scatter(algorithm, reduces);
      phases.list.push_back(fan(share(n), 0));
      break;
    case Algorithm::hierarchical:
      phases.list = {{L - 1, 0, share(L), 1, reduces ? share(L) : 0, 0, 1},
                     {0, N - 1, share(L), 1, reduces ? share(L) : 0, N > 1 ? S : 0, L},  // chains over the nodes
                     {L - 1, 0, share(L), 1, 0, 0, 1}};
      phases.rounds_of_a_rank = std::min<std::int64_t>(2 * (L - 1) + N - 1, 2 * L);
      phases.messages_of_a_rank = std::max<std::int64_t>(L - 1, 1);
      break;
    default:
      break;
  }
  if (reduces || n == 2) return phases;
  for (Phase& phase : phases.list) phase.downward = true;
  return phases;
}

Phases World::rooted_blocks(Algorithm algorithm) const {
  Phases phases;
  if (algorithm == Algorithm::direct_one_shot || algorithm == Algorithm::star) phases.list = {fan(share(n), 0)};
  if (algorithm == Algorithm::binomial || algorithm == Algorithm::hierarchical)
    for (std::int64_t below = 1; below < n; below *= 2)
      phases.list.push_back(round(static_cast<std::uint64_t>(std::min(below, n - below)) * share(n), 1, false));
  return phases;
}

Phases World::alltoall(Algorithm algorithm) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::direct_one_shot:
    case Algorithm::direct_two_shot:
      phases.list = {everybody(share(n), 0)};
      break;
    case Algorithm::pairwise:
      phases = reduce_scatter(algorithm, false);
      break;
    case Algorithm::bruck:
      for (std::int64_t distance = 1; distance < n; distance *= 2) {
        Phase phase = round(share(n) * static_cast<std::uint64_t>((n + 1) / 2), distance, false);
        phase.reduced = 2 * phase.bytes;  // packed and unpacked
        phases.list.push_back(phase);
      }
      break;
    case Algorithm::hierarchical:
      // Everything is put together once in each stage, and taken apart at the end.
      if (L > 1) phases.list.push_back({1, 0, share(L), L - 1, N > 1 ? S : 0, 0, 1});
      if (N > 1)
        phases.list.push_back(
            {0, 1, share(N), N - 1, L > 1 ? 2 * S : 0, static_cast<std::uint64_t>((N - 1) * L) * share(N), L});
      break;
    default:
      break;
  }
  return phases;
}

Phases World::barrier(Algorithm algorithm) const {
  Phases phases;
  if (algorithm == Algorithm::dissemination || algorithm == Algorithm::recursive_doubling)
    for (std::int64_t distance = 1; distance < n; distance *= 2) phases.list.push_back(round(0, distance, false));
  if (algorithm == Algorithm::binomial) {
    tree(phases, 0, 1, false);
    tree(phases, 0, 1, false);
  }
  if (algorithm == Algorithm::direct_one_shot) phases.list = {everybody(0, 0)};
  return phases;
}

}  // namespace

Phases phases_of(Collective collective, Algorithm algorithm, std::uint64_t bytes, const WorldShape& shape) {
  const World world(bytes, shape);
  switch (collective) {
    case Collective::allreduce:
      return world.allreduce(algorithm);
    case Collective::reduce_scatter:
      return world.reduce_scatter(algorithm, true);
    case Collective::all_gather: {
      Phases phases = world.reduce_scatter(algorithm, false);
      phases.kept = world.share(shape.ranks);
      return phases;
    }
    case Collective::reduce:
      return world.rooted(algorithm, true);
    case Collective::broadcast:
      return world.rooted(algorithm, false);
    case Collective::gather:
    case Collective::scatter:
      return world.rooted_blocks(algorithm);
    case Collective::alltoall: {
      Phases phases = world.alltoall(algorithm);
      phases.kept = world.share(shape.ranks);
      return phases;
    }
    case Collective::barrier:
      return world.barrier(algorithm);
    default:
      return {};
  }
}

}  // namespace fabring::cost
