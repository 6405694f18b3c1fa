#include "collectives/cost/phases.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/lanes.hpp"
#include "collectives/cost/priced_world.hpp"

namespace fabring::cost {
namespace {

/// Parts that each of n sends in the rounds of a circulant reduce-scatter.
std::vector<std::int64_t> circulant_counts(std::int64_t n) {
  std::vector<std::int64_t> counts;
  for (std::int64_t left = n; left > 1; left -= counts.back()) counts.push_back(left / 2);
  return counts;
}

/// Several blocks of ranks travel together (packed.cpp): all of them are copied once, together or apart.
bool packs_blocks(Algorithm algorithm) {
  return algorithm == Algorithm::circulant || algorithm == Algorithm::bruck ||
         algorithm == Algorithm::halving_doubling || algorithm == Algorithm::recursive_doubling;
}

/// Hops from rank to rank, of nodes that have several: each of a node's ranks sends all of it over the node's cards.
void share_cards(Phases& phases, std::int64_t ranks) {
  for (Phase& phase : phases.list) {
    if (!phase.flows_apart) continue;
    phase.node_bytes *= static_cast<std::uint64_t>(ranks);
    phase.round_bytes *= static_cast<std::uint64_t>(ranks);
    phase.flows = ranks;
  }
}

/// Partners follow from the numbers of ranks, wherever these are: since operands must stay in their order, or blocks of
/// neighbours travel together, or because the farthest partners come first, who are on the own node where ranks were
/// dealt out. All others go by nodes (algorithms/node_order.hpp).
bool goes_by_number(Collective collective, Algorithm algorithm) {
  return keeps_order(collective, algorithm) || packs_blocks(algorithm);
}

}  // namespace

/// The two further rounds where n is no power of two.
void PricedWorld::pair_extra_ranks(Phases& phases) const {
  if (std::has_single_bit(static_cast<std::uint64_t>(n))) return;
  const std::int64_t flows = N == 1 ? 0 : scattered ? L : exchange_crossings(blocks_of_nodes).paired;
  for (const bool reduced : {true, false}) phases.list.push_back(exchanged(S, flows, reduced));
}

Phases PricedWorld::reduce_scatter(Algorithm algorithm, bool reduces) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::ring:
      phases.list = {ring(S, reduces)};
      break;
    case Algorithm::hierarchical: {
      const std::int64_t inside = (L - 1) * per(n, L);
      const std::int64_t of_one = per(L, least);  // of a node's blocks, those that a rank of the smallest carries
      const auto reduced = [&](std::int64_t count) { return reduces ? blocks(count) : 0; };
      const auto between = [&](std::int64_t rounds, std::int64_t count, std::uint64_t node_bytes) {
        phases.list.push_back({0, rounds, share(n), count, reduced(count), node_bytes, L});
        phases.list.back().sole_rank = least == 1 && L > 1;
        phases.list.back().sends_or_receives = phases.list.back().sole_rank && N == 2;
        phases.list.back().from_slots = reduces && !phases.list.back().sole_rank;
        phases.list.back().smallest_in_slots = false;  // closest to the simulation
      };
      const std::vector<std::int64_t> counts = circulant_counts(N);
      const bool ringed = ring_between(N, L);
      // A node's own parts of a sum are put together before each round in which it travels.
      const std::int64_t rounds_between = ringed ? N - 1 : static_cast<std::int64_t>(counts.size());
      const std::int64_t rounds = L == 1 ? 0 : N == 1 ? inside : reduces ? 1 + rounds_between : 1;
      const std::int64_t at_a_time = per(inside, std::max<std::int64_t>(rounds, 1));
      phases.list = {{rounds, 0, share(n), at_a_time, reduced(at_a_time), 0, 1}};
      phases.list.back().from_slots = reduces && N > 1;
      if (ringed) {
        between(N - 1, of_one, blocks(n - least));
        break;
      }
      for (const std::int64_t count : counts) between(1, count * of_one, static_cast<std::uint64_t>(count) * share(N));
      break;
    }
    case Algorithm::pairwise:
      phases.list = {{least - 1, n - least, share(n), 1, reduces ? share(n) : 0,
                      static_cast<std::uint64_t>(L) * blocks(n - L), L}};
      phases.list.back().fenced = true;
      break;
    case Algorithm::direct_one_shot:
    case Algorithm::direct_two_shot:
      phases.list = {everybody(share(n), reduces ? static_cast<std::uint64_t>(n - 1) * share(n) : 0)};
      break;
    case Algorithm::fold: {  // a rank of each run carries the blocks of one rank of every run
      const auto carried = static_cast<std::uint64_t>(N);
      phases.list = {
          {L > 1 ? 1 : 0, 0, share(n), (L - 1) * N, static_cast<std::uint64_t>((L - 1) * N) * share(n), 0, 1},
          {0, N - 1, share(n), N, carried * share(n), N > 1 ? S : 0, least},
          {N > 1 ? 0 : 1, N > 1 ? 1 : 0, share(n), N > 1 ? N - 1 : 0, 0, static_cast<std::uint64_t>(n - L) * share(n),
           least}};
      phases.list[1].round_bytes = N > 1 ? S : 0;
      phases.list[1].flows_apart = true;
      break;
    }
    case Algorithm::circulant:
    case Algorithm::bruck:
      for (std::int64_t left = n; const std::int64_t count : circulant_counts(n)) {
        left -= count;  // the distance
        phases.list.push_back(round(static_cast<std::uint64_t>(count) * share(n), left, reduces));
      }
      break;
    case Algorithm::halving_doubling:
    case Algorithm::recursive_doubling:  // blocks double with the distance
      if (!std::has_single_bit(static_cast<std::uint64_t>(n))) break;
      for (std::int64_t distance = 1; distance < n; distance *= 2)
        phases.list.push_back(exchange(share(n / distance), distance, reduces));
      break;
    default:
      break;
  }
  return phases;
}

Phases PricedWorld::allreduce(Algorithm algorithm) const {
  Phases phases;
  switch (algorithm) {
    case Algorithm::ring:
      phases.list = {ring(S, true), ring(S, false)};
      break;
    case Algorithm::hierarchical: {
      const std::int64_t of_one = per(K, least);  // lanes of a rank of the smallest node
      const std::uint64_t lane_part = share(K * N);
      phases.list = {lanes_inside(true)};
      const auto between = [&](std::int64_t rounds, std::int64_t count, bool reduces) {  // `count` parts in each
        const std::uint64_t bytes = static_cast<std::uint64_t>(count) * lane_part;
        phases.list.push_back({0, rounds, bytes, of_one, reduces ? static_cast<std::uint64_t>(of_one) * bytes : 0,
                               static_cast<std::uint64_t>(rounds * count) * share(N), K});
        phases.list.back().sole_rank = least == 1 && K > 1;
      };
      for (const bool reduces : {true, false}) {
        if (ring_between(N, L)) {
          between(N - 1, 1, reduces);
        } else {
          for (const std::int64_t count : circulant_counts(N)) between(1, count, reduces);
        }
      }
      phases.list.push_back(lanes_inside(false));
      phases.longest = longest_share();
      break;
    }
    case Algorithm::recursive_doubling:
      for (std::int64_t distance = 1; distance < 1LL << log2_down(n); distance *= 2) {
        phases.list.push_back(exchange(S, distance, true));
        phases.list.back().aside = S;
      }
      pair_extra_ranks(phases);
      break;
    case Algorithm::direct_one_shot:
      phases.list = {everybody(S, static_cast<std::uint64_t>(n - 1) * S)};
      phases.list.back().waiting = waiting_for_all(S);
      phases.list.back().aside = S;
      break;
    case Algorithm::direct_two_shot:
      phases.list = {everybody(share(n), static_cast<std::uint64_t>(n - 1) * share(n)), everybody(share(n), 0)};
      phases.list.front().waiting = waiting_for_all(share(n));
      phases.list.back().common = true;
      break;
    case Algorithm::fold:
      phases.list = {{L > 1 ? 1 : 0, 0, share(L), L - 1, static_cast<std::uint64_t>(L - 1) * share(L), 0, 1},
                     {0, N - 1, share(several()), per(several(), least), share(least), N > 1 ? S : 0, least},
                     {0, N - 1, share(several()), per(several(), least), 0, N > 1 ? S : 0, least},
                     {L > 1 ? 1 : 0, 0, share(L), L - 1, 0, 0, 1}};
      // A node sends all of it in the one round in which its turn comes.
      for (Phase* phase : {&phases.list[1], &phases.list[2]}) {
        phase->round_bytes = N > 1 ? S : 0;
        phase->flows_apart = true;
      }
      break;
    case Algorithm::binomial:
      up_and_down(phases, S, Trees::binomial);
      break;
    case Algorithm::double_tree:
      up_and_down(phases, share(2), Trees::two_binary);
      break;
    case Algorithm::star:
      phases.list = {fan(S, static_cast<std::uint64_t>(n - 1) * S), fan(S, 0)};
      break;
    case Algorithm::halving_doubling:  // the largest messages to the nearest
      for (const bool reduces : {true, false})
        for (std::int64_t distance = 1; distance < 1LL << log2_down(n); distance *= 2)
          phases.list.push_back(exchange(share(2 * distance), distance, reduces));
      pair_extra_ranks(phases);
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

Phases PricedWorld::alltoall(Algorithm algorithm) const {
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
      // Everything is put together once in each stage, and taken apart at the end. Who is alone on its node hands
      // nothing over inside it.
      if (L > 1) phases.list.push_back({1, 0, blocks(per(n, L)), L - 1, N > 1 ? S : 0, 0, 1});
      if (N > 1)
        phases.list.push_back({0, 1, blocks(L), std::max<std::int64_t>(per(n - L, L), 1), L > 1 ? 2 * S : 0,
                               static_cast<std::uint64_t>(L) * blocks(n - L), L});
      if (L > 1) phases.longest = blocks(per(n, several()));
      break;
    default:
      break;
  }
  return phases;
}

Phases PricedWorld::barrier(Algorithm algorithm) const {
  Phases phases;
  if (algorithm == Algorithm::dissemination || algorithm == Algorithm::recursive_doubling)
    for (std::int64_t distance = 1; distance < n; distance *= 2) phases.list.push_back(round(0, distance, false));
  if (algorithm == Algorithm::binomial) {
    tree(phases, 0, Trees::binomial, false);
    tree(phases, 0, Trees::binomial, false);
  }
  if (algorithm == Algorithm::direct_one_shot) phases.list = {everybody(0, 0)};
  return phases;
}

Phases phases_of(Collective collective, Algorithm algorithm, std::uint64_t bytes, const WorldShape& shape) {
  if (algorithm == Algorithm::fold && shape.order != RankOrder::by_node) {
    // It goes from run to run of neighbours by number; dealt to nodes in turn each rank is a run.
    Phases phases = phases_of(collective, algorithm, bytes, {shape.ranks, shape.ranks, 1, 1});
    share_cards(phases, shape.most);
    return phases;
  }
  const PricedWorld world(bytes, shape, goes_by_number(collective, algorithm));
  switch (collective) {
    case Collective::allreduce:
      return world.allreduce(algorithm);
    case Collective::reduce_scatter: {
      Phases phases = world.reduce_scatter(algorithm, true);
      if (packs_blocks(algorithm)) phases.kept = bytes;
      return phases;
    }
    case Collective::all_gather: {
      Phases phases = world.reduce_scatter(algorithm, false);
      if (algorithm == Algorithm::ring) phases.list.front().passed_on = true;
      phases.kept = packs_blocks(algorithm) ? bytes : world.share(shape.ranks);
      return phases;
    }
    case Collective::reduce:
      return world.rooted(algorithm, true);
    case Collective::broadcast:
      return world.rooted(algorithm, false);
    case Collective::gather:
    case Collective::scatter:
      return world.rooted_blocks(algorithm, collective == Collective::scatter);
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
