#include "collectives/cost/predict.hpp"

#include <algorithm>
#include <limits>

#include "collectives/cost/message_length.hpp"
#include "collectives/cost/phases.hpp"
#include "collectives/plan.hpp"

namespace fabring {
namespace {

using cost::Phase;
using cost::Phases;

constexpr Nanoseconds most = std::numeric_limits<Nanoseconds>::max() / 8;

/// What the cores of a node take for a tile that goes down from a root, if ranks share them, to the work that is in it:
/// whom a core could run often waits for another, and messages of one direction cost more than those of an exchange.
/// Over sockets; closest to what was measured.
constexpr std::int64_t downward_percent = 130;

/// What the same bytes take where all ranks send and receive at once, to ranks that take turns, if ranks share cores:
/// of exchanges over sockets, and of two trees in which who is inside one is a leaf of the other. Closest to what was
/// measured.
constexpr std::int64_t at_once_percent = 115;

/// Who waits for a long message through a socket, with a core of its own, takes it in so far behind its sender; and
/// what the same bytes take then, as both ends are at the same memory. Measured between two ranks only.
constexpr std::uint64_t received_behind_bytes = std::uint64_t{64} << 10;
constexpr std::int64_t streaming_percent = 145;

/// Two ranks with a core each that send each other messages through a socket at once: what of a message lies between
/// these bytes takes so much more, as share of a copy at one end. Once for tiles that are written together, which are
/// granted together too.
constexpr std::uint64_t meeting_from_bytes = std::uint64_t{16} << 10, meeting_until_bytes = std::uint64_t{128} << 10;
constexpr std::int64_t meeting_percent = 400;

/// What a line of shared memory that announces a message has room for (transports/shm/layout.hpp).
constexpr std::uint64_t bytes_beside_announcement = 16;

Nanoseconds times(std::int64_t count, Nanoseconds each) {
  if (count <= 0 || each <= 0) return 0;
  return each > most / count ? most : count * each;
}
Nanoseconds plus(Nanoseconds a, Nanoseconds b) { return std::min(most, a + b); }

/// What one tile costs: through all rounds, and each resource.
struct TileCost {
  Nanoseconds through = 0;
  Nanoseconds work = 0;   // a rank's processor
  Nanoseconds lane = 0;   // a rank's lane
  Nanoseconds cards = 0;  // the node's network cards
  Nanoseconds memory = 0;
  Nanoseconds cores = 0;    // of a node, together
  Nanoseconds meeting = 0;  // once for all tiles under way
  Nanoseconds busiest() const { return std::max({work, lane, cards, memory, cores}); }
};

class Prices {
 public:
  Prices(const WorldShape& shape, const Machine& machine) : shape_(shape), machine_(machine) {}

  void add(TileCost& cost, const Phase& phase, std::int64_t rounds_of_a_rank) const {
    add_rounds(cost, phase, phase.inside_rounds, machine_.inside, rounds_of_a_rank, true);
    add_rounds(cost, phase, phase.between_rounds, machine_.between, rounds_of_a_rank, false);
    cost.cards = plus(cost.cards, card_time(phase.node_bytes, phase.flows));
  }

  /// Of work that all ranks do at once.
  Nanoseconds crowded(Nanoseconds work) const {
    const std::int64_t percent = ranks_per_core_percent();
    return percent == 100 ? work : times(percent, work) / 100;
  }

 private:
  /// Ranks of the core that has most, in hundredths: ranks that wait for each other are as fast as those on it.
  std::int64_t ranks_per_core_percent() const {
    if (machine_.cores == 0 || static_cast<int>(machine_.cores) >= shape_.most) return 100;
    return (std::int64_t{shape_.most} + machine_.cores - 1) / machine_.cores * 100;
  }

  Nanoseconds card_time(std::uint64_t bytes, std::int64_t flows) const {
    const auto ports = std::min<std::int64_t>(machine_.nics, std::max(1, shape_.most));
    const std::uint64_t port_rate = machine_.nic_bytes_per_second * machine_.nics / static_cast<std::uint64_t>(ports);
    Nanoseconds time =
        transfer_ns(bytes, port_rate * static_cast<std::uint64_t>(std::clamp<std::int64_t>(flows, 1, ports)));
    if (machine_.nodes_per_leaf != 0 && machine_.oversubscription_percent > 100)
      time = std::max(time, transfer_ns(bytes, machine_.nic_bytes_per_second * machine_.nics * 100 /
                                                   machine_.oversubscription_percent));
    return time;
  }

  /// A rank with several cards sends a message over one of them.
  Nanoseconds on_one_card(std::uint64_t bytes, const Phase& phase) const {
    const auto messages = static_cast<std::uint64_t>(std::max<std::int64_t>(phase.messages, 1));
    const auto flows = static_cast<std::uint64_t>(std::max<std::int64_t>(phase.flows, 1));
    return transfer_ns(bytes / (flows * messages), machine_.nic_bytes_per_second);
  }

  void add_rounds(TileCost& cost, const Phase& phase, std::int64_t rounds, const Tier& tier,
                  std::int64_t rounds_of_a_rank, bool inside) const {
    if (rounds == 0) return;
    // Where a rank waits for others most of the time, ranks that share a core are seldom in each other's way; but the
    // work of all must be done.
    const bool taking_turns = phase.of_all_ranks > 0;
    const std::int64_t percent = ranks_per_core_percent();
    // Both ends copy every byte: a socket. In shared memory nothing of this was measured.
    const bool sockets = tier.copy_bytes_per_second != 0 && tier.place_bytes_per_second == 0;
    const bool downward = phase.downward && sockets && percent > 100;
    const bool at_once = percent > 100 && !downward && (taking_turns ? phase.all_busy : sockets);
    // Who only waits, on a core of its own, takes in what is there while the sender copies the rest.
    const bool streaming =
        taking_turns && sockets && inside && shape_.ranks == 2 && percent == 100 && phase.bytes > received_behind_bytes;
    const bool meeting = !taking_turns && sockets && inside && shape_.ranks == 2 && percent == 100;
    const std::int64_t for_bytes = streaming ? streaming_percent : at_once ? at_once_percent : 100;
    const Nanoseconds copying = times(for_bytes, transfer_ns(phase.bytes, tier.copy_bytes_per_second)) / 100;
    const std::uint64_t reduced = phase.reduced + (tier.launch_ns == 0 ? phase.waiting : phase.aside);
    const Nanoseconds reducing = times(for_bytes, transfer_ns(reduced, machine_.reduce_bytes_per_second)) / 100;
    const Nanoseconds granting = phase.bytes > machine_.tiling.eager_bytes ? tier.grant_ns : 0;
    // An answer in the place of what it answers (transports/fast_messages.hpp) is there as soon as it has been made.
    const bool in_place = phase.answers && inside && machine_.tiling.pair_bytes > 0;
    const Nanoseconds sending = tier.send_ns + granting + (in_place ? 0 : copying);
    const Nanoseconds placing = phase.reduced == 0 ? transfer_ns(phase.bytes, tier.place_bytes_per_second) : 0;
    const Nanoseconds receiving = tier.receive_ns + granting + copying + placing;
    const Nanoseconds lane = transfer_ns(phase.bytes, tier.lane_bytes_per_second);
    // In shared memory the lines of a message come after the one that announces it, unless it fits in there.
    const bool announced = inside && tier.place_bytes_per_second != 0 && phase.bytes > bytes_beside_announcement;
    const Nanoseconds latency = announced ? 2 * tier.latency_ns : tier.latency_ns;
    const std::uint64_t of_a_round =
        phase.round_bytes != 0 ? phase.round_bytes : phase.node_bytes / static_cast<std::uint64_t>(phase.rounds());
    const Nanoseconds wire =
        inside ? lane : std::max({lane, card_time(of_a_round, phase.flows), on_one_card(of_a_round, phase)});
    if ((taking_turns || downward) && percent > 100) {
      const Nanoseconds each = sending + receiving + reducing / std::max<std::int64_t>(phase.messages, 1);
      const std::int64_t messages =
          taking_turns ? phase.of_all_ranks : std::int64_t{phase.rounds()} * phase.messages * shape_.ranks;
      const Nanoseconds all =
          times(messages * rounds * shape_.most, each) / (std::int64_t{phase.rounds()} * shape_.ranks * machine_.cores);
      cost.cores = plus(cost.cores, downward ? times(downward_percent, all) / 100 : all);
    }
    const auto shared = [&](Nanoseconds work) { return percent == 100 ? work : times(percent, work) / 100; };
    const auto crowded = [&](Nanoseconds work) {
      return taking_turns && !(downward && phase.all_busy) ? work : shared(work);
    };

    const std::int64_t own = rounds_of_a_rank == 0 ? rounds : std::min(rounds, rounds_of_a_rank);
    // Who takes turns sends or receives in a round; with a single message it passes on what it has received, if there
    // is anybody left.
    const Nanoseconds in_turn =
        own * phase.messages == 1 && shape_.ranks > 2
            ? sending + receiving + reducing
            : std::max(sending, receiving + reducing / std::max<std::int64_t>(phase.messages, 1));
    const Nanoseconds work =
        taking_turns ? times(phase.messages, in_turn) : plus(times(phase.messages, sending + receiving), reducing);
    // The first message goes out, all further ones behind it, the last is taken in.
    const Nanoseconds behind = times(phase.messages - 1, std::max({sending, receiving, lane}));
    const Nanoseconds queued = downward ? shared(behind) : crowded(behind);  // another rank runs on the root's core
    const Nanoseconds meanwhile =
        streaming ? copying - transfer_ns(received_behind_bytes, tier.copy_bytes_per_second) : 0;
    Nanoseconds round =
        plus(plus(crowded(sending + receiving + reducing) - meanwhile, latency + tier.launch_ns + wire), queued);
    // Who waits for several is woken for nothing now and then: half a switch more, by what was measured.
    const Nanoseconds switching = percent == 100                        ? 0
                                  : phase.messages > 1 && !taking_turns ? machine_.switch_ns * 3 / 2
                                                                        : machine_.switch_ns;
    round += switching;
    cost.through = plus(cost.through, times(rounds, round));
    if (meeting && phase.bytes > meeting_from_bytes) {
      const std::uint64_t slow = std::min(phase.bytes, meeting_until_bytes) - meeting_from_bytes;
      const Nanoseconds more = times(meeting_percent, transfer_ns(slow, tier.copy_bytes_per_second)) / 100;
      cost.meeting = plus(cost.meeting, times(rounds, more));
    }
    if (!taking_turns) cost.work = plus(cost.work, times(own, switching));
    // The next tile waits for the busiest rank, which another on its core holds up.
    const Nanoseconds granted_before = meeting ? times(phase.messages, 2 * granting) : 0;
    cost.work = plus(cost.work, times(own, downward ? shared(work) : crowded(work) - granted_before));
    cost.lane = plus(cost.lane, times(own * phase.messages, lane));
    if (inside)
      cost.memory = plus(cost.memory, times(own * phase.messages * shape_.most,
                                            transfer_ns(phase.bytes, machine_.memory_bytes_per_second)));
  }

  const WorldShape& shape_;
  const Machine& machine_;
};

/// As make_plan() would report it.
std::uint64_t largest_message(const Phases& phases, std::uint64_t bytes) {
  std::uint64_t longest = 0;
  for (const Phase& phase : phases.list)
    if (phase.rounds() > 0) longest = std::max(longest, phase.bytes);
  if (bytes == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(longest) / static_cast<double>(bytes) *
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
  const Machine machine = at_size(any_size, bytes, shape.most);
  if (!has_algorithm(collective, algorithm)) return std::nullopt;
  if (shape.ranks <= 1) return machine.call_ns + transfer_ns(bytes, machine.reduce_bytes_per_second);
  const Phases whole = cost::phases_of(collective, algorithm, bytes, shape);
  if (whole.list.empty()) return std::nullopt;

  const std::uint64_t longest = largest_message(whole, bytes);
  const std::size_t tiles = longest == 0 ? 1 : tile_count(longest_message_bytes(longest, 1), bytes, machine.tiling);
  const auto depth = static_cast<std::int64_t>(std::min<std::size_t>(tiles, machine.tiling.depth));
  const Phases tile = tiles == 1 ? whole : cost::phases_of(collective, algorithm, (bytes + tiles - 1) / tiles, shape);
  TileCost cost;
  bool granted = false;
  const Prices prices(shape, machine);
  for (const Phase& phase : tile.list) {
    prices.add(cost, phase, tile.messages_of_a_rank);
    granted = granted || phase.bytes > machine.tiling.eager_bytes;
  }
  const Nanoseconds keeping = prices.crowded(transfer_ns(tile.kept, machine.reduce_bytes_per_second));
  cost.through = plus(cost.through, keeping);
  cost.work = plus(cost.work, keeping);
  const Nanoseconds through = std::max(cost.through, cost.busiest());
  std::int64_t rounds = 0;
  for (const Phase& phase : tile.list) rounds += phase.rounds();
  // A tile stays with a rank for a share of the rounds, and a rank has `depth` tiles at a time.
  const Nanoseconds stay =
      tile.rounds_of_a_rank == 0 ? through : times(tile.rounds_of_a_rank, through / std::max<std::int64_t>(rounds, 1));
  const Nanoseconds each = std::max(cost.busiest(), stay / depth);
  const Nanoseconds grant =
      granted ? std::max(machine.inside.latency_ns, shape.nodes > 1 ? machine.between.latency_ns : 0) : 0;
  const Nanoseconds meeting = times((static_cast<std::int64_t>(tiles) + depth - 1) / depth, cost.meeting);
  const Nanoseconds price =
      plus(plus(machine.call_ns + grant + meeting, through), times(static_cast<std::int64_t>(tiles) - 1, each));
  return collective == Collective::allreduce ? times(machine.of_allreduce.at(bytes), price) / 100 : price;
}

}  // namespace fabring
