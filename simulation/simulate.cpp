#include "simulation/simulate.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "simulation/cores.hpp"
#include "simulation/cutting.hpp"
#include "simulation/events.hpp"
#include "simulation/network.hpp"
#include "simulation/rank_state.hpp"

namespace fabring::simulation {
namespace {

constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Adds the tiles that were not simulated, at the pace of the later half of those that were.
void extrapolate(Outcome& outcome, const std::vector<Nanoseconds>& tile_finished) {
  const auto last = std::int64_t{outcome.tiles_simulated} - 1;
  const auto middle = last / 2;
  const Nanoseconds later_half = tile_finished[at(last)] - tile_finished[at(middle)];
  const std::int64_t missing = std::int64_t{outcome.tiles} - 1 - last;
  outcome.time_ns += static_cast<Nanoseconds>(static_cast<double>(later_half) / static_cast<double>(last - middle) *
                                              static_cast<double>(missing));
  const auto grown = [&](auto& value) {
    value += static_cast<std::remove_reference_t<decltype(value)>>(
        static_cast<double>(value) * static_cast<double>(missing) / static_cast<double>(last + 1));
  };
  grown(outcome.bytes_between);
  grown(outcome.bytes_inside);
  grown(outcome.busiest_card_ns);
  grown(outcome.busiest_rank_ns);
}

class Run {
 public:
  /// `machine`: as it is to vectors of this size.
  Run(const Schedule& schedule, const Machine& machine, const Job& job, Cutting cutting, int simulated)
      : schedule_(schedule),
        machine_(machine),
        job_(job),
        all_(simulated == schedule.ranks()),
        node_of_(dense_nodes(schedule.node_of, simulated)),
        network_(machine, node_of_),
        ranks_(at(simulated)),
        cutting_(std::move(cutting)) {
    outcome_.tiles = cutting_.tiles();
    outcome_.depth = cutting_.depth();
    outcome_.tiles_simulated =
        cutting_.tiles_within(schedule, job, all_ ? simulated : schedule.symmetry.unit, outcome_.depth);
    tile_finished_.assign(outcome_.tiles_simulated, 0);
    const int nodes = *std::max_element(node_of_.begin(), node_of_.end()) + 1;
    for (int node = 0; node < nodes; ++node)
      cores_.emplace_back(machine.cores, static_cast<int>(std::count(node_of_.begin(), node_of_.end(), node)));
  }

  Result<Outcome> run() {
    for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank) {
      prepare(ranks_[at(rank)], plan(rank));
      push(machine_.call_ns + lateness(rank), EventKind::call, rank, 0, 0);
    }
    while (!events_.empty()) {
      const Event event = events_.pop();
      now_ = event.time;
      handle(event);
    }
    return outcome();
  }

 private:
  static std::vector<int> dense_nodes(const std::vector<int>& node_of, int simulated) {
    std::vector<int> numbers(node_of.begin(), node_of.begin() + simulated);
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::vector<int> dense;
    for (int rank = 0; rank < simulated; ++rank)
      dense.push_back(
          static_cast<int>(std::lower_bound(numbers.begin(), numbers.end(), node_of[at(rank)]) - numbers.begin()));
    return dense;
  }

  const ClassPlan& plan(Rank rank) const { return schedule_.of(rank); }
  TileState& state(Rank rank, std::uint32_t tile) { return ranks_[at(rank)].tiles[tile % outcome_.depth]; }
  bool active(Rank rank, std::uint32_t tile) {
    const TileState& found = state(rank, tile);
    return found.active && found.index == tile;
  }
  bool same_node(Rank rank, Rank peer) const { return schedule_.node_of[at(rank)] == schedule_.node_of[at(peer)]; }
  std::uint64_t bytes(Rank rank, StepId step, std::uint32_t tile) const {
    return cutting_.bytes(at(schedule_.symmetry.class_of(rank)), step, tile);
  }
  bool large(std::uint64_t message) const { return message > machine_.tiling.eager_bytes; }

  void push(Nanoseconds time, EventKind kind, Rank rank, StepId step, std::uint32_t tile, Nanoseconds tail = 0) {
    events_.push({time, tail, schedule_.symmetry.class_of(rank), rank, step, tile, kind});
  }

  Nanoseconds lateness(Rank rank) const {
    if (job_.stragglers.probability <= 0) return 0;
    const std::uint64_t bits = mixed(job_.stragglers.seed * 0x100000001b3u + static_cast<std::uint64_t>(rank)) >> 11;
    return static_cast<double>(bits) * 0x1p-53 < job_.stragglers.probability ? job_.stragglers.late_ns : 0;
  }

  void prepare(RankState& rank, const ClassPlan& own) {
    rank.tiles_left = outcome_.tiles_simulated;
    rank.tiles.resize(outcome_.depth);
    const std::size_t own_class = at(&own - schedule_.classes.data());
    std::size_t slots = 0;
    for (const StepId id : own.slot_receives) slots += large(cutting_.bytes(own_class, id, 0)) ? 1 : 0;
    const std::size_t depth = outcome_.depth;
    rank.free_slots = static_cast<std::uint32_t>(std::min({slots * depth, most_reduce_slots, depth * 2}));
  }

  void handle(const Event& event) {
    RankState& rank = ranks_[at(event.rank)];
    switch (event.kind) {
      case EventKind::call:
        rank.entered = true;
        start_tiles(event.rank);
        wake(event.rank);
        break;
      case EventKind::work_done:
        work_done(event.rank);
        break;
      case EventKind::sent:
        step_done(event.rank, event.step, event.tile);
        wake(event.rank);
        break;
      case EventKind::head_arrives:
        head_arrives(event);
        break;
      case EventKind::message_arrives:
        message_arrives(event.rank, event.step, event.tile);
        break;
      case EventKind::grant_arrives:
        grant_arrives(event.rank, event.step, event.tile);
        break;
    }
  }

  void start_tiles(Rank number) {
    RankState& rank = ranks_[at(number)];
    while (rank.next_tile < outcome_.tiles_simulated) {
      TileState& tile = state(number, rank.next_tile);
      if (tile.active) return;
      const ClassPlan& own = plan(number);
      const auto steps = own.plan.steps.size();
      tile.index = rank.next_tile++;
      tile.active = true;
      tile.remaining = static_cast<std::uint32_t>(steps);
      tile.next_slot_receive = 0;
      tile.flags.assign(steps, 0);
      tile.need.resize(steps);
      for (std::size_t id = 0; id < steps; ++id) tile.need[id] = own.plan.steps[id].dependencies;
      if (steps == 0) {
        finish_tile(number, tile);
        continue;
      }
      const std::uint32_t index = tile.index;
      for (std::size_t i = own.first_steps.size(); i-- > 0;) make_ready(number, own.first_steps[i], index);
      post_slots(number);
      for (std::size_t i = 0; i < rank.early.size();) {
        if (rank.early[i].tile != index) {
          ++i;
          continue;
        }
        const Early early = rank.early[i];
        rank.early.erase(rank.early.begin() + static_cast<std::ptrdiff_t>(i));
        if (early.grant) {
          grant_arrives(number, early.step, index);
        } else {
          rank.incoming.push_back({early.step, index, true, false});
        }
      }
    }
  }

  void finish_tile(Rank number, TileState& tile) {
    RankState& rank = ranks_[at(number)];
    tile.active = false;
    tile_finished_[tile.index] = std::max(tile_finished_[tile.index], now_);
    if (--rank.tiles_left == 0) rank.finished = now_;
  }

  /// All that this step waits for inside its rank is done.
  void make_ready(Rank number, StepId id, std::uint32_t tile_index) {
    RankState& rank = ranks_[at(number)];
    TileState& tile = state(number, tile_index);
    std::uint8_t& flags = tile.flags[id];
    const bool big = large(bytes(number, id, tile_index));
    switch (plan(number).plan.steps[id].kind) {
      case StepKind::send:
        if (big && (flags & granted) == 0) {
          flags |= waiting;
          return;
        }
        rank.ready.push_back({id, tile_index, false, true});
        return;
      case StepKind::recv:
        if ((flags & here) != 0) return step_done(number, id, tile_index);
        if (big) grant(number, id, tile_index);
        return;
      case StepKind::recv_reduce:
        if ((flags & here) != 0) rank.ready.push_back({id, tile_index, false, true});
        return;
      default:
        rank.ready.push_back({id, tile_index, false, true});
    }
  }

  void grant(Rank number, StepId id, std::uint32_t tile) {
    state(number, tile).flags[id] |= posted;
    const ClassPlan& own = plan(number);
    const Rank peer = schedule_.peer(number, own.plan.steps[id]);
    const Tier& tier = machine_.tier(same_node(number, peer));
    push(now_ + tier.latency_ns, EventKind::grant_arrives, simulated(peer), own.partner[id], tile);
  }

  Rank simulated(Rank peer) const { return all_ ? peer : schedule_.symmetry.class_of(peer); }

  /// Oldest tile and earliest step first, as the engine does.
  void post_slots(Rank number) {
    RankState& rank = ranks_[at(number)];
    const ClassPlan& own = plan(number);
    const std::uint32_t depth = outcome_.depth;
    for (std::uint32_t index = rank.next_tile > depth ? rank.next_tile - depth : 0; index < rank.next_tile; ++index) {
      TileState& tile = state(number, index);
      if (!tile.active || tile.index != index) continue;
      for (; tile.next_slot_receive < own.slot_receives.size(); ++tile.next_slot_receive) {
        const StepId id = own.slot_receives[tile.next_slot_receive];
        if (!large(bytes(number, id, index))) continue;
        if (rank.free_slots == 0) return;
        --rank.free_slots;
        grant(number, id, index);
      }
    }
  }

  void grant_arrives(Rank number, StepId id, std::uint32_t tile_index) {
    RankState& rank = ranks_[at(number)];
    if (!active(number, tile_index)) {
      rank.early.push_back({tile_index, id, true});
      return;
    }
    std::uint8_t& flags = state(number, tile_index).flags[id];
    flags |= granted;
    if ((flags & waiting) == 0) return;
    rank.ready.push_back({id, tile_index, false, true});
    wake(number);
  }

  void head_arrives(const Event& event) {
    const Step& step = plan(event.rank).plan.steps[event.step];
    const bool inside = same_node(event.rank, schedule_.peer(event.rank, step));
    const Passage through =
        network_.enter(event.rank, inside, bytes(event.rank, event.step, event.tile), {event.time, event.tail});
    if (through.tail == now_) return message_arrives(event.rank, event.step, event.tile);
    push(through.tail, EventKind::message_arrives, event.rank, event.step, event.tile);
  }

  void message_arrives(Rank number, StepId id, std::uint32_t tile) {
    RankState& rank = ranks_[at(number)];
    if (!active(number, tile)) {
      rank.early.push_back({tile, id, false});
      return;
    }
    rank.incoming.push_back({id, tile, true, false});
    wake(number);
  }

  // The processor.

  void wake(Rank number) {
    RankState& rank = ranks_[at(number)];
    if (rank.running || rank.queued || !rank.entered || !has_work(rank)) return;
    const int core = cores_[at(node_of_[at(number)])].take(number);
    if (core < 0) {
      rank.queued = true;
      return;
    }
    run_on(number, core);
  }

  static bool has_work(const RankState& rank) { return rank.taken < rank.incoming.size() || !rank.ready.empty(); }

  void run_on(Rank number, int core) {
    RankState& rank = ranks_[at(number)];
    rank.running = true;
    rank.queued = false;
    rank.core = core;
    const bool turned = cores_[at(node_of_[at(number)])].turns_to(core, number);
    begin_work(number, turned ? machine_.switch_ns : 0);
  }

  void begin_work(Rank number, Nanoseconds before) {
    RankState& rank = ranks_[at(number)];
    // The engine takes what has come in, then runs all that is ready, then looks again.
    if (rank.ready.empty() && rank.taken == rank.polled) rank.polled = rank.incoming.size();
    if (rank.taken < rank.polled) {
      rank.current = rank.incoming[rank.taken++];
      if (rank.taken == rank.incoming.size()) {
        rank.incoming.clear();
        rank.taken = rank.polled = 0;
      }
    } else {
      rank.current = rank.ready.back();
      rank.ready.pop_back();
    }
    const Nanoseconds cost = cost_of(number, rank.current);
    rank.busy += cost;
    push(now_ + before + cost, EventKind::work_done, number, rank.current.step, rank.current.tile);
  }

  Nanoseconds cost_of(Rank number, Task& task) {
    const ClassPlan& own = plan(number);
    const Step& step = own.plan.steps[task.step];
    const std::uint64_t length = bytes(number, task.step, task.tile);
    const Nanoseconds reduction = transfer_ns(length, machine_.reduce_bytes_per_second);
    if (step.kind == StepKind::send || task.incoming) {
      const Tier& tier = machine_.tier(same_node(number, schedule_.peer(number, step)));
      const Nanoseconds copying = transfer_ns(length, tier.copy_bytes_per_second);
      const Nanoseconds granting = large(length) ? tier.grant_ns : 0;
      if (step.kind == StepKind::send) return tier.send_ns + granting + copying;
      task.complete = state(number, task.tile).need[task.step] == 0;
      const bool placed = step.kind == StepKind::recv && step.to.space == Space::output;
      return tier.receive_ns + granting + copying + (placed ? transfer_ns(length, tier.place_bytes_per_second) : 0) +
             (task.complete && step.kind == StepKind::recv_reduce ? reduction : 0);
    }
    if (step.kind == StepKind::reduce)
      return reduction * std::max<std::int64_t>(1, std::int64_t{step.operand_count} - 1);
    return reduction;
  }

  void work_done(Rank number) {
    RankState& rank = ranks_[at(number)];
    const Task task = rank.current;
    const Step& step = plan(number).plan.steps[task.step];
    if (step.kind == StepKind::send) {
      send(number, task);
    } else if (task.incoming && !task.complete) {
      TileState& tile = state(number, task.tile);
      tile.flags[task.step] |= here;
      if (tile.need[task.step] == 0) make_ready(number, task.step, task.tile);  // became so meanwhile
    } else {
      if (step.kind == StepKind::recv_reduce && large(bytes(number, task.step, task.tile))) {
        ++rank.free_slots;
        post_slots(number);
      }
      step_done(number, task.step, task.tile);
    }
    if (has_work(rank)) return begin_work(number, 0);
    rank.running = false;
    const int core = rank.core;
    const int next = cores_[at(node_of_[at(number)])].release(core);
    if (next >= 0) run_on(next, core);
  }

  void send(Rank number, const Task& task) {
    const ClassPlan& own = plan(number);
    const Step& step = own.plan.steps[task.step];
    const Rank peer = schedule_.peer(number, step);
    const bool inside = same_node(number, peer);
    const Tier& tier = machine_.tier(inside);
    const std::uint64_t length = bytes(number, task.step, task.tile);
    ++outcome_.messages;
    const Passage out = network_.leave(number, inside, length, now_);
    const Nanoseconds underway = tier.latency_ns + tier.launch_ns;
    push(out.head + underway, EventKind::head_arrives, simulated(peer), own.partner[task.step], task.tile,
         out.tail + underway);
    // The buffer is free when a socket has copied it, or a card has read it.
    if (tier.copy_bytes_per_second != 0 || out.tail == now_ || !large(length)) {
      step_done(number, task.step, task.tile);
    } else {
      push(out.tail, EventKind::sent, number, task.step, task.tile);
    }
  }

  void step_done(Rank number, StepId id, std::uint32_t tile_index) {
    const Plan& own = plan(number).plan;
    const Step& step = own.steps[id];
    TileState& tile = state(number, tile_index);
    --tile.remaining;
    for (std::uint32_t i = step.successor_count; i-- > 0;) {
      const StepId next = own.successors[step.first_successor + i];
      if (--tile.need[next] == 0) make_ready(number, next, tile_index);
    }
    if (tile.remaining == 0 && tile.active && tile.index == tile_index) {
      finish_tile(number, tile);
      start_tiles(number);
    }
  }

  Result<Outcome> outcome() {
    for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank) {
      const RankState& each = ranks_[at(rank)];
      if (each.tiles_left != 0)
        return Status(ErrorCode::internal, "the simulation stands still: rank " + std::to_string(rank) + " has " +
                                               std::to_string(each.tiles_left) + " tiles left");
      outcome_.finished_ns.push_back(each.finished);
      outcome_.time_ns = std::max(outcome_.time_ns, each.finished);
      outcome_.busiest_rank_ns = std::max(outcome_.busiest_rank_ns, each.busy);
    }
    outcome_.bytes_between = network_.bytes_between();
    outcome_.bytes_inside = network_.bytes_inside();
    outcome_.busiest_card_ns = network_.busiest_card();
    if (outcome_.extrapolated()) extrapolate(outcome_, tile_finished_);
    return outcome_;
  }

  const Schedule& schedule_;
  const Machine& machine_;
  const Job& job_;
  bool all_;
  std::vector<int> node_of_;  // of the simulated ranks, from 0
  Network network_;
  std::vector<Cores> cores_;  // by node
  std::vector<RankState> ranks_;
  Cutting cutting_;
  std::vector<Nanoseconds> tile_finished_;
  EventQueue events_;
  Nanoseconds now_ = 0;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> simulate(const Schedule& schedule, const Machine& machine, const Job& job) {
  if (Status status = check_machine(machine); !status) return status;
  if (job.element_bytes == 0 || schedule.ranks() == 0)
    return Status(ErrorCode::invalid_argument, "a simulation needs an element size and at least one rank");
  const bool all = job.every_rank || job.stragglers.probability > 0;
  std::map<int, int> ranks_of;
  for (const int node : schedule.node_of) ++ranks_of[node];
  int most = 1;
  for (const auto& [node, ranks] : ranks_of) most = std::max(most, ranks);
  const Machine sized = at_size(machine, job.bytes, most);
  const int simulated = all ? schedule.ranks() : schedule.symmetry.unit;
  return Run(schedule, sized, job, Cutting(schedule, machine, job), simulated).run();
}

ScheduleOptions options_for(const Machine& machine) {
  ScheduleOptions options;
  if (machine.nodes_per_leaf > 0 && machine.oversubscription_percent > 100)
    options.nodes_per_unit = static_cast<int>(machine.nodes_per_leaf);
  return options;
}

}  // namespace fabring::simulation
