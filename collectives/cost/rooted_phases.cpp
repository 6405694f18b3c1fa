// Trees, and the collectives with a root.

#include <algorithm>

#include "collectives/cost/priced_world.hpp"
#include "collectives/cost/tree_crossings.hpp"

namespace fabring::cost {

Crossings PricedWorld::crossings_of(Trees trees) const {
  if (N == 1) return {};
  if (!scattered) return crossings(blocks_of_nodes, trees);
  return {.of_a_node = scattered_edges(), .to_children = scattered_edges(), .on_a_way = scattered_way()};
}

/// Up or down a binomial tree, or two binary ones in each of which half the ranks are leaves: log2 n rounds, and the
/// busiest rank has log2 n children, or two.
void PricedWorld::tree(Phases& phases, std::uint64_t message, Trees trees, bool reduces) const {
  const Crossings crossing = crossings_of(trees);
  const std::int64_t at_once = trees == Trees::binomial ? 1 : 2;
  const std::int64_t rounds = trees == Trees::two_binary_below_root ? std::max(log2_up(n), crossing.depth) : log2_up(n);
  const std::int64_t between = std::min(rounds, crossing.on_a_way);
  const std::int64_t children = at_once == 2 ? 2 : rounds;
  Phase phase{rounds - between,
              between,
              message,
              at_once,
              reduces ? message * static_cast<std::uint64_t>(at_once) : 0,
              static_cast<std::uint64_t>(crossing.to_children) * message,
              scattered ? L : std::min(at_once, L),
              at_once * (n - 1)};
  if (between > 0)
    phase.round_bytes = std::max(static_cast<std::uint64_t>(std::min(at_once, crossing.to_children)) * message,
                                 phase.node_bytes / static_cast<std::uint64_t>(between));
  phase.passing_on = n / 2 - 1;
  phase.all_busy = at_once == 2;
  phases.list.push_back(phase);
  phases.rounds_of_a_rank += std::min<std::int64_t>(rounds, children + 1);
  phases.messages_of_a_rank += children;
}

/// Both, one after the other for a tile. What comes up to a node goes down from it, so that its links carry a tile once
/// each way for every edge; tiles that come up and such that go down pass each other.
void PricedWorld::up_and_down(Phases& phases, std::uint64_t message, Trees trees) const {
  const Crossings between = crossings_of(trees);
  for (const bool reduces : {true, false}) {
    tree(phases, message, trees, reduces);
    if (N == 1) continue;
    Phase& phase = phases.list.back();
    const std::int64_t rounds = phase.rounds();
    phase.between_rounds = std::min(rounds, between.on_a_way);
    phase.inside_rounds = rounds - phase.between_rounds;
    phase.node_bytes = static_cast<std::uint64_t>(between.of_a_node) * message / 2;
    if (!scattered) phase.round_bytes = message;
  }
}

/// Hierarchical: a chain of each lane over the nodes, and between the root and the ranks beside it.
Phases PricedWorld::rooted_lanes(bool reduces) const {
  Phases phases;
  const Phase inside = lanes_inside(false);
  phases.list = {lanes_inside(reduces)};
  if (N > 1) {
    Phase chain{0, N - 1, share(K), 1, reduces ? share(K) : 0, S, K};  // node_bytes: once in all
    chain.round_bytes = S;
    chain.flows_apart = true;
    chain.own_rounds = 1;
    chain.of_smallest = per(K, least);
    chain.smallest_in_slots = blocks_of_nodes.full_before != 1;  // else the chain to rank 0 begins there
    phases.list.push_back(chain);
  }
  if (K > 1) phases.list.push_back(N > 1 ? Phase{1, 0, share(K), K - 1, 0, 0, 1} : inside);
  phases.rounds_of_a_rank = N == 1 ? std::min(2 * inside.rounds(), 2 * K) : inside.rounds() + 2;
  phases.messages_of_a_rank = std::max<std::int64_t>(K - 1, 1);
  phases.longest = longest_share();
  return phases;
}

Phases PricedWorld::rooted(Algorithm algorithm, bool reduces) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::binomial:
      tree(phases, S, Trees::binomial, reduces);
      break;
    case Algorithm::double_tree:
      tree(phases, share(2), Trees::two_binary_below_root, reduces);
      break;
    case Algorithm::chain: {
      const std::int64_t crossing = scattered ? n - 1 : N - 1;
      const std::int64_t at_once = scattered ? L : 1;  // of a node's ranks
      phases.list = {{n - 1 - crossing, crossing, S, 1, reduces ? S : 0,
                      N > 1 ? static_cast<std::uint64_t>(at_once) * S : 0, at_once, n - 1}};
      phases.list.back().round_bytes = phases.list.back().node_bytes;
      phases.list.back().passing_on = n - 2;
      phases.rounds_of_a_rank = std::min<std::int64_t>(n - 1, 2);
      phases.messages_of_a_rank = 1;
      break;
    }
    case Algorithm::direct_one_shot:
    case Algorithm::star:
      phases.list = {fan(S, reduces ? static_cast<std::uint64_t>(n - 1) * S : 0)};
      break;
    case Algorithm::direct_two_shot:  // the same, directly, of shares for all but the root
      phases.list = {everybody(share(n - 1), reduces ? static_cast<std::uint64_t>(n - 1) * share(n - 1) : 0),
                     fan(share(n - 1), 0)};
      if (reduces) phases.list.front().waiting = waiting_for_all(share(n - 1));
      // Shares go on as they come; results come to the root a tile at a time. Closest to the simulation.
      phases.list.back().further_percent = reduces ? 50 : 0;
      break;
    case Algorithm::ring:  // a reduce-scatter and a gather; a scatter and an all-gather
      phases.list = {ring(S, reduces), fan(share(n), 0)};
      break;
    case Algorithm::circulant:
      phases = reduce_scatter(algorithm, reduces);
      phases.list.push_back(fan(share(n), 0));
      break;
    case Algorithm::hierarchical:
      phases = rooted_lanes(reduces);
      break;
    case Algorithm::fold:  // a reduce alone
      phases.list = {{L > 1 ? 1 : 0, 0, share(L), L - 1, static_cast<std::uint64_t>(L - 1) * share(L), 0, 1},
                     {0, N - 1, share(several()), per(several(), least), share(least), N > 1 ? S : 0, least},
                     {N > 1 ? 0 : 1, N > 1 ? 1 : 0, share(L), 1, 0, N > 1 ? S : 0, least}};
      phases.list[1].round_bytes = N > 1 ? S : 0;
      phases.list[1].flows_apart = true;
      if (N == 2) phases.list[2].further_percent = 0;  // there and back
      phases.rounds_of_a_rank = std::min<std::int64_t>(N + 1, 3);
      break;
    default:
      break;
  }
  if (reduces || n == 2) return phases;
  for (Phase& phase : phases.list) phase.downward = true;
  return phases;
}

/// A binomial tree's messages are longer the nearer they are to the root: as if all were as long as those on the
/// longest way on average.
Phases PricedWorld::rooted_blocks(Algorithm algorithm, bool downward) const {
  Phases phases;
  if (algorithm == Algorithm::direct_one_shot || algorithm == Algorithm::star) phases.list = {fan(share(n), 0)};
  if (algorithm == Algorithm::binomial) {
    const std::int64_t rounds = std::max<std::int64_t>(log2_up(n), 1);
    const std::uint64_t of_others = static_cast<std::uint64_t>(n - 1) * share(n);
    const std::int64_t between = std::min(rounds, crossings_of(Trees::binomial).on_a_way);
    phases.list = {
        {rounds - between, between, of_others / static_cast<std::uint64_t>(rounds), 1, 0, blocks(n - L), 1, n - 1}};
    if (between > 0) phases.list.back().round_bytes = blocks(n - L) / static_cast<std::uint64_t>(between);
    phases.list.back().passing_on = n / 2 - 1;
    if (n > 2) phases.kept = of_others;  // packed on the root but for what travels alone, and unpacked elsewhere
  }
  if (algorithm == Algorithm::hierarchical) {
    const std::int64_t outside = n - L;
    const std::int64_t carriers = L;  // the ranks of the root's node; beside a root alone they are what direct is
    const std::int64_t each = per(outside, carriers);
    const std::int64_t of_root = n - 1 - each;  // from the ranks beside it
    if (N > 1)
      phases.list = {{0, 1, share(n), each, 0, static_cast<std::uint64_t>(outside) * share(n), carriers, outside}};
    if (of_root > 0) phases.list.push_back({1, 0, share(n), of_root, 0, 0, 1, of_root});
  }
  for (Phase& phase : phases.list) {
    phase.downward = downward && n > 2;
    phase.of_one_node = true;
  }
  return phases;
}

}  // namespace fabring::cost
