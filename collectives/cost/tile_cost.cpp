#include "collectives/cost/tile_cost.hpp"

namespace fabring::cost {
namespace {

/// What the cores of a node take for a tile that goes down from a root, if ranks share them, to the work that is in it:
/// whom a core could run often waits for another, and messages of one direction cost more than those of an exchange.
/// Over sockets; closest to what was measured.
constexpr std::int64_t downward_percent = 130;

/// What the same bytes take where all ranks send and receive at once, to ranks that take turns, if ranks share cores:
/// of exchanges over sockets, and of two trees in which who is inside one is a leaf of the other. Closest to what was
/// measured.
constexpr std::int64_t at_once_percent = 115;

/// Who waits for a long message through a socket, with a core of its own, takes it in so far behind its sender, or
/// behind the wire; and what the same bytes take then if both ends are at the same memory. Measured between two ranks
/// only.
constexpr std::uint64_t received_behind_bytes = std::uint64_t{64} << 10;
constexpr std::int64_t streaming_percent = 145;

/// Two ranks with a core each that send each other messages through a socket at once: what of a message lies between
/// these bytes takes so much more, as share of a copy at one end. Once for tiles that are written together, which are
/// granted together too.
constexpr std::uint64_t meeting_from_bytes = std::uint64_t{16} << 10, meeting_until_bytes = std::uint64_t{128} << 10;
constexpr std::int64_t meeting_percent = 400;
/// The same where no grant is waited for: 10 to 15 us less were measured.
constexpr std::int64_t unasked_meeting_percent = 270;

/// Then it is reduced from where it landed, in the caches of who has just read it, while the next one comes: of what
/// reducing takes otherwise. Closest to what was measured of vectors of 1 to 64 MiB.
constexpr std::int64_t landed_reducing_percent = 40;

/// Through sockets of ranks that share cores: what a round takes further in which each waits for another rank than the
/// one that waits for it, which wakes more ranks by turns than an exchange of two. Closest to what was measured of 4 to
/// 8 ranks on 2 cores; of 3, half of whom have a core for themselves, half of it.
constexpr std::int64_t rotating_percent = 50;

/// Where a rank's messages of a round are one copy that all read, the most that comes from all ranks together then:
/// what the caches keep until it has been read.
constexpr std::uint64_t most_of_common_copies = std::uint64_t{1} << 20;

/// In shared memory an operation whose messages wait for grants is not run by its callers at once. Where ranks share
/// cores each of them must have its turn a few times more, in which it finds nothing but a grant, and waits for all
/// others of its core: as share of a turn of all, for each of them. Closest to what was measured of 3, 4 and 8 ranks on
/// 2 cores.
constexpr std::int64_t grants_percent = 225;

/// Likewise of an operation with a root, in which grants follow one another from rank to rank.
constexpr std::int64_t rooted_grants_percent = 350;

/// Two trees at once in shared memory, if ranks share cores: each rank waits for what one tree brings to go on in the
/// other, and every core turns to all its ranks so many times in a round. Closest to what was measured of 3, 4 and 8
/// ranks on 2 cores.
constexpr std::int64_t turns_of_two_trees = 3;

/// What a line of shared memory that announces a message has room for (transports/shm/layout.hpp).
constexpr std::uint64_t bytes_beside_announcement = 16;

std::int64_t ranks_per_core_percent(const WorldShape& shape, const Machine& machine) {
  if (machine.cores == 0 || static_cast<int>(machine.cores) >= shape.most) return 100;
  return (std::int64_t{shape.most} + machine.cores - 1) / machine.cores * 100;
}

/// Both ends copy every byte. In shared memory nothing of this was measured.
bool is_socket(const Tier& tier) { return tier.copy_bytes_per_second != 0 && tier.place_bytes_per_second == 0; }

bool is_shared_memory(const Tier& tier) { return tier.place_bytes_per_second != 0; }

}  // namespace

/// One round of a phase through one tier: how ranks are at work in it, and what each of its messages costs.
struct TilePrices::Round {
  const Phase& phase;
  const Tier& tier;
  bool inside;  ///< a node

  /// A rank waits for others most of the time: ranks that share a core are seldom in each other's way, but the work of
  /// all must be done.
  bool taking_turns = false;
  bool downward = false;   ///< through sockets, among ranks that share cores
  bool streaming = false;  ///< who only waits, on a core of its own, takes in what is there while the sender copies on
  bool meeting = false;    ///< two ranks with a core each send each other messages through a socket
  bool landing = false;    ///< two ranks send each other messages unasked, through sockets of one host or between two
  /// From a root or to it in memory that ranks share, as they do cores: who sends most or receives most is known.
  bool one_way = false;

  // Of a message; `reducing` of all messages of the round.
  Nanoseconds copying = 0, reducing = 0, granting = 0, sending = 0, receiving = 0, lane = 0, latency = 0;

  // Messages of the round through this tier, and what those that stay inside add to a round between nodes: to what a
  // rank waits behind its first message, and to its work.
  std::int64_t messages = 1;
  Nanoseconds behind_inside = 0, work_inside = 0, lane_inside = 0;

  Nanoseconds reducing_each() const { return reducing / std::max<std::int64_t>(phase.messages, 1); }
};

TilePrices::TilePrices(const WorldShape& shape, const Machine& machine, bool rooted, std::int64_t slots)
    : shape_(shape),
      machine_(machine),
      rooted_(rooted),
      slots_(slots),
      ranks_per_core_percent_(ranks_per_core_percent(shape, machine)) {}

TileCost TilePrices::of(const Phase& phase, std::int64_t rounds_of_a_rank) const {
  TileCost cost;
  if (phase.at_node_end != 0) {
    add_ring_over_nodes(cost, phase);
  } else {
    if (phase.inside_rounds != 0) add_rounds(cost, round_of(phase, true), phase.inside_rounds, rounds_of_a_rank);
    if (phase.between_rounds != 0) add_rounds(cost, round_of(phase, false), phase.between_rounds, rounds_of_a_rank);
  }
  cost.cards = plus(cost.cards, card_time(phase.node_bytes, phase));
  return cost;
}

/// A part goes its way through the nodes; the rank at the end of a node sends every part to the next node meanwhile,
/// and the first of the next receives them all.
void TilePrices::add_ring_over_nodes(TileCost& cost, const Phase& phase) const {
  TileCost way;
  const Round inside = round_of(phase, true);
  const Round between = round_of(phase, false);
  add_rounds(way, inside, phase.inside_rounds, 0);
  add_rounds(way, between, phase.between_rounds, 0);
  const Nanoseconds alone = shape_.least == 1 ? between.sending + between.receiving : 0;
  const Nanoseconds each = crowded(
      between.reducing + std::max({inside.sending + between.receiving, between.sending + inside.receiving, alone}));
  const Nanoseconds apart = std::max({each, on_the_wire(between), wait_for_slot(between)});
  const Nanoseconds at_end = times(phase.at_node_end, each);
  cost.through = plus(cost.through, std::max(way.through, plus(times(phase.at_node_end, apart), between.latency)));
  cost.work = plus(cost.work, std::max(way.work, at_end));
  cost.cores = plus(cost.cores, way.cores);
  cost.memory = plus(cost.memory, way.memory);
  cost.lane = plus(cost.lane, way.lane);
}

TilePrices::Round TilePrices::round_of(const Phase& phase, bool inside) const {
  const Tier& tier = machine_.tier(inside);
  Round round{phase, tier, inside};
  const bool sockets = is_socket(tier);
  const bool two_alone = sockets && inside && shape_.ranks == 2 && !shared_cores();
  round.taking_turns = phase.of_all_ranks > 0;
  round.downward = phase.downward && sockets && shared_cores();
  round.streaming = two_alone && round.taking_turns && phase.bytes > received_behind_bytes;
  round.meeting = two_alone && !round.taking_turns;
  round.landing = sockets && shape_.ranks == 2 && !round.taking_turns && machine_.tiling.landing_bytes != 0 &&
                  phase.bytes <= machine_.tiling.eager_bytes;
  round.one_way = rooted_ && inside && shared_cores() && is_shared_memory(tier) && round.taking_turns &&
                  !phase.all_busy && (phase.downward || phase.reduced > 0);

  const bool at_once = shared_cores() && !round.downward && (round.taking_turns ? phase.all_busy : sockets);
  const bool passed_on =
      phase.passed_on && sockets && inside && shared_cores() && phase.bytes > machine_.tiling.eager_bytes;
  const std::int64_t for_bytes = (round.streaming ? streaming_percent
                                  : at_once       ? at_once_percent
                                                  : 100) *
                                 (passed_on ? machine_.passed_on_percent : 100) / 100;
  round.copying = percent_of(for_bytes, transfer_ns(phase.bytes, tier.copy_bytes_per_second));
  const std::uint64_t reduced = phase.reduced + (tier.launch_ns == 0 ? phase.waiting : phase.aside);
  round.reducing = percent_of(round.landing ? landed_reducing_percent : for_bytes,
                              transfer_ns(reduced, machine_.reduce_bytes_per_second));
  round.granting = phase.bytes > machine_.tiling.eager_bytes ? tier.grant_ns : 0;
  // An answer in the place of what it answers (transports/fast_messages.hpp) is there as soon as it has been made.
  const bool in_place = phase.answers && inside && machine_.tiling.pair_bytes > 0;
  // Ranks that share memory read one copy of it, as long as the caches hold what comes from all.
  const bool one_copy = phase.common && inside && is_shared_memory(tier) && phase.bytes > machine_.tiling.eager_bytes &&
                        phase.bytes * static_cast<std::uint64_t>(phase.messages + 1) <= most_of_common_copies;
  // It is made where it is read, and read where it is.
  const std::int64_t copies = in_place ? 0 : one_copy ? 100 / phase.messages : 100;
  round.sending = tier.send_ns + round.granting + percent_of(copies, round.copying);
  const bool placed = phase.reduced == 0 && !one_copy;
  const Nanoseconds placing = placed ? transfer_ns(phase.bytes, tier.place_bytes_per_second) : 0;
  const bool read_once = round.one_way && phase.reduced > 0;  // where it is, as it is reduced
  round.receiving = tier.receive_ns + round.granting + (read_once ? 0 : round.copying) + placing;
  round.lane = transfer_ns(phase.bytes, tier.lane_bytes_per_second);
  // In shared memory the lines of a message come after the one that announces it, unless it fits in there.
  const bool announced = inside && is_shared_memory(tier) && phase.bytes > bytes_beside_announcement;
  round.latency = announced ? 2 * tier.latency_ns : tier.latency_ns;
  round.messages = phase.messages;
  if (!inside && phase.inside_messages > 0) add_inside_messages(round);
  return round;
}

void TilePrices::add_inside_messages(Round& round) const {
  const Round beside = round_of(round.phase, true);
  // On the smallest node more of them leave it: the busiest rank is there, unless sockets make those inside dearer.
  const bool in_largest = round.taking_turns || beside.sending > round.sending;
  const std::int64_t messages = in_largest ? round.phase.inside_messages : std::int64_t{shape_.least} - 1;
  round.messages -= messages;
  round.behind_inside = times(messages, std::max({beside.sending, beside.receiving, beside.lane}));
  round.work_inside =
      times(messages, round.taking_turns ? std::max(beside.sending, beside.receiving + beside.reducing_each())
                                         : beside.sending + beside.receiving);
  round.lane_inside = times(messages, beside.lane);
}

void TilePrices::add_rounds(TileCost& cost, const Round& round, std::int64_t rounds,
                            std::int64_t rounds_of_a_rank) const {
  const std::int64_t most = round.phase.own_rounds != 0 ? round.phase.own_rounds : rounds_of_a_rank;
  const std::int64_t own = most == 0 ? rounds : std::min(rounds, most);
  const Nanoseconds wire = on_the_wire(round);
  const Nanoseconds queued = duration(round, wire);
  const Nanoseconds alone = duration(round, own_wire(round));
  const Nanoseconds apart = std::min(queued, round.phase.flows_apart ? alone : std::max(alone, wire));
  cost.through = plus(cost.through, times(rounds, apart));
  cost.queue = std::max(cost.queue, queued - apart);
  // What a rank of the smallest node sends or receives one behind the other while others have one.
  const std::int64_t in_line = round.phase.of_smallest;
  const Nanoseconds of_each = std::max(round.sending, round.receiving + round.reducing_each());
  cost.queue = std::max(cost.queue, times(in_line - 1, of_each));
  const Nanoseconds in_slot = round.phase.smallest_in_slots ? slot_time(round) : 0;
  const Nanoseconds of_line = in_line == 1 ? 0 : times(in_line, std::max(of_each, in_slot));
  const Nanoseconds work = work_of_a_rank(round, own);
  if (round.phase.sole_rank) {
    cost.sole_rank = plus(cost.sole_rank, std::max(work, times(own * round.phase.messages, in_slot)));
  } else if (shape_.least == 1) {
    cost.work = plus(cost.work, work);
    cost.sole_rank = plus(cost.sole_rank, of_line);
  } else {
    cost.work = plus(cost.work, std::max(work, of_line));
  }
  cost.cores = plus(cost.cores, round.one_way ? work_of_a_core(round, rounds, own) : work_of_all(round, rounds));
  cost.meeting = plus(cost.meeting, times(rounds, meeting(round)));
  cost.lane = plus(cost.lane, times(own, plus(times(round.messages, round.lane), round.lane_inside)));
  if (round.inside)
    cost.memory = plus(cost.memory, times(own * round.phase.messages * shape_.most,
                                          transfer_ns(round.phase.bytes, machine_.memory_bytes_per_second)));
}

Nanoseconds TilePrices::wait_for_slot(const Round& round) const {
  return round.phase.from_slots ? slot_time(round) : 0;
}

/// Until the slot of one message has been granted to another, and that is there and reduced: for each of several.
Nanoseconds TilePrices::slot_time(const Round& round) const {
  if (round.phase.reduced == 0 || round.phase.bytes <= machine_.tiling.eager_bytes) return 0;
  const Nanoseconds work = round.sending + round.receiving + round.reducing_each();
  const Nanoseconds card = round.inside ? 0 : transfer_ns(round.phase.bytes, machine_.nic_bytes_per_second);
  return (plus(work, std::max(round.lane, card)) + 2 * round.latency) / slots_;
}

/// The first message goes out, all further ones behind it, the last is taken in.
Nanoseconds TilePrices::duration(const Round& round, Nanoseconds wire) const {
  const Nanoseconds work = round.sending + round.receiving + round.reducing;
  const Nanoseconds behind_other =
      std::max<Nanoseconds>(round.copying - transfer_ns(received_behind_bytes, round.tier.copy_bytes_per_second), 0);
  const Nanoseconds meanwhile = round.streaming                  ? behind_other
                                : round.landing && !round.inside ? std::min(2 * behind_other, wire)
                                                                 : 0;
  const bool alone = round.taking_turns && !(round.downward && round.phase.all_busy);
  const Nanoseconds further = std::max({round.sending, round.receiving, round.lane, wait_for_slot(round)});
  const Nanoseconds behind = plus(times(round.messages - 1, further), round.behind_inside);
  // Down from a root: another rank runs on the root's core.
  const Nanoseconds queued = alone && !round.downward ? behind : crowded(behind);
  const Nanoseconds usual =
      plus(plus((alone ? work : crowded(work)) - meanwhile, round.latency + round.tier.launch_ns + wire), queued) +
      switching(round);
  return round.phase.rotating ? percent_of(100 + rotating_further(round), usual) : usual;
}

std::int64_t TilePrices::rotating_further(const Round& round) const {
  if (!shared_cores() || !is_socket(round.tier) || !round.inside) return 0;
  const std::int64_t cores = machine_.cores;
  return rotating_percent * std::min(shape_.most - cores, cores) / cores;
}

Nanoseconds TilePrices::work_of_a_rank(const Round& round, std::int64_t own_rounds) const {
  const std::int64_t messages = round.messages;
  if (round.phase.sends_or_receives)
    return times(own_rounds * messages, std::max(round.sending, round.receiving + round.reducing_each()));
  if (!round.taking_turns) {
    const Nanoseconds sent = plus(times(messages, round.sending + round.receiving), round.work_inside);
    const Nanoseconds work = plus(sent, round.reducing);
    const Nanoseconds granted_before = round.meeting ? times(messages, 2 * round.granting) : 0;
    return plus(times(own_rounds, switching(round)), times(own_rounds, crowded(work) - granted_before));
  }
  if (round.one_way) return work_of_the_busiest(round, own_rounds);
  // Who takes turns sends or receives in a round; with a single message it passes on what it has received, if there is
  // anybody left.
  const Nanoseconds in_turn = own_rounds * round.phase.messages == 1 && shape_.ranks > 2
                                  ? round.sending + round.receiving + round.reducing
                                  : std::max(round.sending, round.receiving + round.reducing_each());
  const Nanoseconds work = plus(times(messages, in_turn), round.work_inside);
  // The next tile waits for the busiest rank, which another on its core holds up.
  return times(own_rounds, round.downward ? crowded(work) : work);
}

/// Of the node's cores, which its ranks share.
Nanoseconds TilePrices::work_of_all(const Round& round, std::int64_t rounds) const {
  const Phase& phase = round.phase;
  if (!shared_cores() || !(round.taking_turns || round.downward)) return 0;
  const Nanoseconds each = round.sending + round.receiving + round.reducing_each();
  const std::int64_t messages =
      round.taking_turns ? phase.of_all_ranks : std::int64_t{phase.rounds()} * phase.messages * shape_.ranks;
  const Nanoseconds all =
      times(messages * rounds * shape_.most, each) / (std::int64_t{phase.rounds()} * shape_.ranks * machine_.cores);
  return percent_of(round.downward ? downward_percent : 100, all);
}

/// The root, or who has received from it and sends on; or the other way round. What is sent on has been written and is
/// read once more.
Nanoseconds TilePrices::work_of_the_busiest(const Round& round, std::int64_t own_rounds) const {
  const std::int64_t messages = own_rounds * round.phase.messages;
  const Nanoseconds reduced = round.receiving + round.reducing_each();
  const Nanoseconds many = round.phase.downward ? round.sending : reduced;
  const Nanoseconds one = round.phase.downward ? round.receiving : round.sending + round.copying;
  const Nanoseconds of_root = times(messages, many);
  if (round.phase.passing_on == 0) return of_root;
  return std::max(of_root, plus(one, times(std::max<std::int64_t>(messages - 1, 1), many)));
}

/// Of the core that the busiest rank shares with as many others as there are to a core.
Nanoseconds TilePrices::work_of_a_core(const Round& round, std::int64_t rounds, std::int64_t own_rounds) const {
  const Phase& phase = round.phase;
  const Nanoseconds busiest = work_of_the_busiest(round, own_rounds);
  Nanoseconds all = times(phase.of_all_ranks, round.sending + round.receiving + round.reducing_each());
  if (!phase.downward) all = plus(all, times(phase.passing_on, round.copying));
  all = times(rounds * shape_.most, all) / (phase.rounds() * shape_.ranks);
  const std::int64_t cores = machine_.cores;
  const Nanoseconds others = std::max<Nanoseconds>(all - busiest, 0);
  return plus(busiest, times(shape_.most - cores, others) / (cores * (shape_.most - 1)));
}

Nanoseconds TilePrices::turns_for_grants() const {
  if (!is_shared_memory(machine_.inside)) return 0;
  return percent_of(rooted_ ? rooted_grants_percent : grants_percent, crowded(turns_of_all()));
}

Nanoseconds TilePrices::meeting(const Round& round) const {
  if (!round.meeting || round.phase.bytes <= meeting_from_bytes) return 0;
  const std::uint64_t slow = std::min(round.phase.bytes, meeting_until_bytes) - meeting_from_bytes;
  return percent_of(round.landing ? unasked_meeting_percent : meeting_percent,
                    transfer_ns(slow, round.tier.copy_bytes_per_second));
}

/// Until every rank of a core has had its turn; the machine's is that of two. Who waits for several is woken for
/// nothing now and then: half of it more, by what was measured.
Nanoseconds TilePrices::switching(const Round& round) const {
  if (rooted_ && round.phase.all_busy && round.inside && is_shared_memory(round.tier))
    return times(turns_of_two_trees, turns_of_all());
  const bool waits_for_several = round.phase.messages > 1 && !round.taking_turns;
  return waits_for_several ? turns_of_a_core() * 3 / 2 : turns_of_a_core();
}

Nanoseconds TilePrices::turns_of_a_core() const {
  return rooted_ && shared_cores() ? machine_.switch_ns : turns_of_all();
}

Nanoseconds TilePrices::turns_of_all() const {
  return shared_cores() ? times(ranks_per_core_percent_, machine_.switch_ns) / 200 : 0;
}

Nanoseconds TilePrices::on_the_wire(const Round& round) const {
  if (round.inside) return round.lane;
  const Phase& phase = round.phase;
  const std::uint64_t bytes =
      phase.round_bytes != 0 ? phase.round_bytes : phase.node_bytes / static_cast<std::uint64_t>(phase.rounds());
  return std::max({round.lane, card_time(bytes, phase), on_one_card(bytes, phase)});
}

/// Of a rank's own messages, where those of several ranks of a node share the cards.
Nanoseconds TilePrices::own_wire(const Round& round) const {
  const Nanoseconds wire = on_the_wire(round);
  if (round.inside || round.taking_turns || round.phase.fenced || round.phase.flows <= 1) return wire;
  const std::uint64_t bytes =
      round.phase.bytes * static_cast<std::uint64_t>(std::max<std::int64_t>(round.phase.messages, 1));
  return std::min(wire, std::max(round.lane, transfer_ns(bytes, machine_.nic_bytes_per_second)));
}

Nanoseconds TilePrices::card_time(std::uint64_t bytes, const Phase& phase) const {
  const auto ports = std::min<std::int64_t>(machine_.nics, std::max(1, shape_.most));
  const std::uint64_t port_rate = machine_.nic_bytes_per_second * machine_.nics / static_cast<std::uint64_t>(ports);
  const auto busy_ports = static_cast<std::uint64_t>(std::clamp<std::int64_t>(phase.flows, 1, ports));
  const std::uint32_t of_leaf = phase.of_one_node ? machine_.nodes_per_leaf : 1;
  return std::max(transfer_ns(bytes, port_rate * busy_ports),
                  transfer_ns(bytes, uplink_bytes_per_second(machine_, of_leaf)));
}

/// A rank with several cards sends a message over one of them.
Nanoseconds TilePrices::on_one_card(std::uint64_t bytes, const Phase& phase) const {
  const auto messages = static_cast<std::uint64_t>(std::max<std::int64_t>(phase.messages - phase.inside_messages, 1));
  const auto flows = static_cast<std::uint64_t>(std::max<std::int64_t>(phase.flows, 1));
  return transfer_ns(bytes / (flows * messages), machine_.nic_bytes_per_second);
}

}  // namespace fabring::cost
