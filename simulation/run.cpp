#include "simulation/run.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/tiling.hpp"
#include "simulation/prefetch.hpp"
#include "simulation/serial_time.hpp"

namespace fabring::simulation {
namespace {

/// Adds the tiles that were not simulated, at the pace of those after the first two times `depth`, which fill the
/// ranks. The last ones have less to wait for than those before them; nothing is faster than the busiest rank and card.
/// Error: unsupported, longer than longest_time.
Status extrapolate(Outcome& outcome, const std::vector<Nanoseconds>& tile_finished) {
  const auto simulated = std::int64_t{outcome.tiles_simulated};
  const auto filling = std::int64_t{2} * outcome.depth;
  const std::int64_t missing = outcome.tiles - simulated;
  const auto first = tile_finished.begin();
  const Nanoseconds filled = *std::max_element(first, first + filling);
  const Nanoseconds after = *std::max_element(first, tile_finished.end()) - filled;
  const auto of_missing = [&](auto value, std::int64_t tiles) {
    const double all = static_cast<double>(value) * static_cast<double>(missing) / static_cast<double>(tiles);
    return static_cast<decltype(value)>(std::min(all, static_cast<double>(longest_time)));
  };
  const Nanoseconds card = of_missing(outcome.busiest_card_ns, simulated);
  const Nanoseconds rank = of_missing(outcome.busiest_rank_ns, simulated);
  outcome.time_ns += std::max({of_missing(after, simulated - filling), card, rank});
  if (outcome.time_ns >= longest_time) return too_long(static_cast<double>(outcome.time_ns));
  outcome.busiest_card_ns += card;
  outcome.busiest_rank_ns += rank;
  outcome.bytes_between += of_missing(outcome.bytes_between, simulated);
  outcome.bytes_inside += of_missing(outcome.bytes_inside, simulated);
  return {};
}

}  // namespace

Run::Run(const Schedule& schedule, const Machine& machine, const Job& job, Cutting cutting, int simulated)
    : schedule_(schedule),
      machine_(machine),
      job_(job),
      all_(simulated == schedule.ranks()),
      node_of_(dense_nodes(schedule.node_of, simulated)),
      network_(machine, node_of_),
      ranks_(at(simulated)),
      cutting_(cutting),
      parts_(node_of_, machine),
      priced_(schedule, machine, cutting, job.element_bytes, all_),
      longest_eager_(longest_eager(machine.tiling, cutting.tiles())) {
  outcome_.tiles = cutting_.tiles();
  outcome_.depth = cutting_.depth();
  outcome_.tiles_simulated =
      cutting_.tiles_within(schedule, job, all_ ? simulated : schedule.symmetry.unit, outcome_.depth);
  tile_finished_.assign(outcome_.tiles_simulated, 0);
  outcome_.finished_ns.resize(ranks_.size());
  tiles_.resize(ranks_.size() * outcome_.depth);
  std::size_t steps = 0;
  for (Rank rank = 0; rank < simulated; ++rank) {
    first_step_.push_back(steps);
    steps += schedule.of(rank).plan.steps.size() * outcome_.depth;
  }
  first_step_.push_back(steps);
  steps_.resize(steps);
  std::vector<int> of_node(at(*std::max_element(node_of_.begin(), node_of_.end()) + 1));
  for (const int node : node_of_) ++of_node[at(node)];
  if (machine.cores != 0 && *std::max_element(of_node.begin(), of_node.end()) > static_cast<int>(machine.cores))
    for (const int ranks : of_node) cores_.emplace_back(machine.cores, ranks);
}

Result<Outcome> Run::run() {
  const double serial =
      serial_ns(schedule_, machine_, job_, priced_, outcome_.tiles_simulated, static_cast<int>(ranks_.size()));
  if (serial > static_cast<double>(longest_time)) return too_long(serial);
  for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank) {
    prepare(rank);
    push(machine_.call_ns + lateness(job_.stragglers, rank), EventKind::call, rank, ranks_[at(rank)].position, 0, 0);
  }
  while (parts_.turn()) {
    prefetch_next_part();
    for (DueEvents& due = parts_.due(); !due.empty();) {
      const Event event = due.pop();
      now_ = event.time;
      handle(event);
    }
  }
  return outcome();
}

void Run::prefetch_next_part() const {
  const auto [first, last] = parts_.prefetch_next();
  if (first > last) return;
  const std::size_t begin = at(first);
  const std::size_t end = at(last) + 1;
  prefetch(ranks_.data() + begin, ranks_.data() + end);
  prefetch(tiles_.data() + begin * outcome_.depth, tiles_.data() + end * outcome_.depth);
  prefetch(steps_.data() + first_step_[begin], steps_.data() + first_step_[end]);
  for (std::size_t i = begin; i < end; ++i) {
    const RankState& rank = ranks_[i];
    __builtin_prefetch(rank.incoming.data() + rank.taken);
    if (!rank.ready.empty()) __builtin_prefetch(&rank.ready.back());
  }
}

std::vector<int> Run::dense_nodes(const std::vector<int>& node_of, int simulated) {
  std::vector<int> numbers(node_of.begin(), node_of.begin() + simulated);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<int> dense;
  dense.reserve(at(simulated));
  for (int rank = 0; rank < simulated; ++rank)
    dense.push_back(
        static_cast<int>(std::lower_bound(numbers.begin(), numbers.end(), node_of[at(rank)]) - numbers.begin()));
  return dense;
}

void Run::prepare(Rank number) {
  RankState& rank = ranks_[at(number)];
  rank.position = schedule_.symmetry.class_of(number);
  rank.unit_begin = number - rank.position;
  rank.tiles_left = outcome_.tiles_simulated;
  std::size_t slots = 0;
  for (const StepId id : plan(rank).slot_receives) slots += large(priced(rank, id), 0) ? 1 : 0;
  const std::size_t depth = outcome_.depth;
  rank.free_slots = static_cast<std::uint32_t>(std::min({slots * depth, most_reduce_slots, depth * 2}));
}

void Run::handle(const Event& event) {
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

void Run::start_tiles(Rank number) {
  RankState& rank = ranks_[at(number)];
  while (rank.next_tile < outcome_.tiles_simulated) {
    TileState& tile = state(number, rank.next_tile);
    if (tile.active) return;
    const ClassPlan& own = plan(rank);
    const auto steps = own.plan.steps.size();
    tile.index = rank.next_tile++;
    tile.active = true;
    tile.remaining = static_cast<std::uint32_t>(steps);
    tile.next_slot_receive = 0;
    StepState* const states = &state(number, tile.index, 0);
    std::copy_n(priced_.untouched(rank.position).begin(), steps, states);
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
        rank.incoming.push_back({index, early.step, true, false});
      }
    }
  }
}

void Run::finish_tile(Rank number, TileState& tile) {
  RankState& rank = ranks_[at(number)];
  tile.active = false;
  tile_finished_[tile.index] = std::max(tile_finished_[tile.index], now_);
  if (--rank.tiles_left == 0) outcome_.finished_ns[at(number)] = now_;
}

void Run::make_ready(Rank number, StepId id, std::uint32_t tile_index) {
  RankState& rank = ranks_[at(number)];
  StepState& step = state(number, tile_index, id);
  const PricedStep& known = priced(rank, id);
  const bool big = large(known, tile_index);
  switch (known.kind) {
    case StepKind::send:
      if (big && (step.flags & granted) == 0) {
        step.flags |= waiting;
        return;
      }
      rank.ready.push_back({tile_index, id, false, true});
      return;
    case StepKind::recv:
      if ((step.flags & here) != 0) return step_done(number, id, tile_index);
      if (big) grant(number, id, tile_index);
      return;
    case StepKind::recv_reduce:
      if ((step.flags & here) != 0) rank.ready.push_back({tile_index, id, false, true});
      return;
    default:
      rank.ready.push_back({tile_index, id, false, true});
  }
}

void Run::step_done(Rank number, StepId id, std::uint32_t tile_index) {
  const RankState& rank = ranks_[at(number)];
  const PricedStep& step = priced(rank, id);
  const StepId* const successors = plan(rank).plan.successors.data() + step.first_successor;
  TileState& tile = state(number, tile_index);
  StepState* const states = &state(number, tile_index, 0);
  --tile.remaining;
  for (std::uint32_t i = step.successor_count; i-- > 0;) {
    const StepId next = successors[i];
    if (--states[next].need == 0 && !waits_for_more(rank, next, states[next])) make_ready(number, next, tile_index);
  }
  if (tile.remaining == 0 && tile.active && tile.index == tile_index) {
    finish_tile(number, tile);
    start_tiles(number);
  }
}

bool Run::waits_for_more(const RankState& rank, StepId id, StepState& step) {
  if (!priced(rank, id).waits_for_many) return false;
  const std::uint32_t all = plan(rank).plan.steps[id].dependencies;
  const auto found = counted_.try_emplace(&step, StepState::most).first;
  const std::uint32_t more = std::min(all - found->second, StepState::most);
  found->second += more;
  step.need = more & StepState::most;
  if (more == 0) counted_.erase(found);
  return more != 0;
}

Result<Outcome> Run::outcome() {
  for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank) {
    const RankState& each = ranks_[at(rank)];
    if (each.tiles_left != 0)
      return Status(ErrorCode::internal, "the simulation stands still: rank " + std::to_string(rank) + " has " +
                                             std::to_string(each.tiles_left) + " tiles left");
    outcome_.time_ns = std::max(outcome_.time_ns, outcome_.finished_ns[at(rank)]);
    outcome_.busiest_rank_ns = std::max(outcome_.busiest_rank_ns, each.busy);
  }
  outcome_.bytes_between = network_.bytes_between();
  outcome_.bytes_inside = network_.bytes_inside();
  outcome_.busiest_card_ns = network_.busiest_card();
  if (outcome_.extrapolated()) FABRING_TRY(extrapolate(outcome_, tile_finished_));
  return outcome_;
}

}  // namespace fabring::simulation
