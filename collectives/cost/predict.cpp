#include "collectives/cost/predict.hpp"

#include <algorithm>

#include "collectives/cost/kept_by_hierarchical.hpp"
#include "collectives/cost/message_length.hpp"
#include "collectives/cost/phases.hpp"
#include "collectives/cost/tile_cost.hpp"
#include "collectives/ownership.hpp"
#include "collectives/plan.hpp"

namespace fabring {
namespace {

using cost::Phase;
using cost::Phases;
using cost::plus;
using cost::times;

/// As make_plan() would report it.
std::uint64_t largest_message(const Phases& phases, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(phases.longest_message()) / static_cast<double>(bytes) *
                                    static_cast<double>(message_unit));
}

}  // namespace

std::optional<Nanoseconds> predict(Collective collective, Algorithm algorithm, std::uint64_t bytes,
                                   const WorldShape& shape, const Machine& machine) {
  Machine cut = machine;
  cut.tiling = rules_on(machine, collective, name(algorithm), shape, bytes);
  return predict_cut(collective, algorithm, bytes, shape, cut);
}

std::optional<Nanoseconds> predict_cut(Collective collective, Algorithm algorithm, std::uint64_t bytes,
                                       const WorldShape& shape, const Machine& any_size) {
  Machine machine = at_size(any_size, bytes, shape.most);
  if (!has_algorithm(collective, algorithm)) return std::nullopt;
  if (shape.ranks <= 1) return plus(machine.call_ns, transfer_ns(bytes, machine.reduce_bytes_per_second));
  const Phases whole = cost::phases_of(collective, algorithm, bytes, shape);
  if (whole.list.empty()) return std::nullopt;

  const std::uint64_t longest = largest_message(whole, bytes);
  const std::size_t tiles = longest == 0 ? 1 : tile_count(longest_message_bytes(longest, 1), bytes, machine.tiling);
  const double message = longest_message_bytes(longest, 1) * static_cast<double>((bytes + tiles - 1) / tiles);
  const std::uint32_t most_tiles = depth_in_scratch(machine.tiling, collective, name(algorithm), shape, message);
  const auto depth = static_cast<std::int64_t>(std::min<std::size_t>(tiles, most_tiles));
  machine.tiling.eager_bytes = longest_eager(machine.tiling, tiles);
  const Phases tile = tiles == 1 ? whole : cost::phases_of(collective, algorithm, (bytes + tiles - 1) / tiles, shape);
  cost::TileCost cost, further;  // of the first tile, and of each after it
  bool granted = false, granted_inside = false;
  const auto slots =
      static_cast<std::int64_t>(std::min<std::size_t>(most_reduce_slots, 2 * static_cast<std::size_t>(depth)));
  const cost::TilePrices prices(shape, machine, has_root(collective), slots);
  std::int64_t from_slots = 0, rounds_from_slots = 0;
  for (const Phase& phase : tile.list) {
    const cost::TileCost own = prices.of(phase, tile.messages_of_a_rank);
    cost.add(own, 100);
    further.add(own, phase.further_percent);
    const bool waits = phase.bytes > machine.tiling.eager_bytes;
    granted = granted || waits;
    if (waits && phase.from_slots) {
      from_slots += phase.rounds() * phase.messages;
      rounds_from_slots += phase.rounds();
    }
    granted_inside = granted_inside || (waits && phase.inside_rounds > 0);
  }
  const Nanoseconds keeping = prices.crowded(transfer_ns(tile.kept, machine.reduce_bytes_per_second));
  cost.through = plus(cost.through, keeping);
  cost.work = plus(cost.work, keeping);
  further.work = plus(further.work, keeping);
  const Nanoseconds through = std::max(plus(cost.through, cost.queue), cost.busiest());
  std::int64_t rounds = 0;
  for (const Phase& phase : tile.list) rounds += phase.rounds();
  // A tile stays with a rank for a share of the rounds, and a rank has `depth` tiles at a time.
  const Nanoseconds stay =
      tile.rounds_of_a_rank == 0 ? through : times(tile.rounds_of_a_rank, through / std::max<std::int64_t>(rounds, 1));
  // The oldest tile has all slots until each of its receives has had one.
  const Nanoseconds in_slots =
      from_slots <= slots
          ? 0
          : times(rounds_from_slots, through / std::max<std::int64_t>(rounds, 1)) / from_slots * (from_slots - slots);
  const Nanoseconds each = std::max({further.busiest(), stay / depth, in_slots});
  Nanoseconds grant =
      granted ? std::max(machine.inside.latency_ns, shape.nodes > 1 ? machine.between.latency_ns : 0) : 0;
  if (granted_inside) grant = plus(grant, prices.turns_for_grants());
  const Nanoseconds meeting = times((static_cast<std::int64_t>(tiles) + depth - 1) / depth, cost.meeting);
  const Nanoseconds price =
      plus(plus(machine.call_ns + grant + meeting, through), times(static_cast<std::int64_t>(tiles) - 1, each));
  return collective == Collective::allreduce ? cost::percent_of(machine.of_allreduce.at(bytes), price) : price;
}

}  // namespace fabring
