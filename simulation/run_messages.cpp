// Messages of a simulated call: who may send when, and what the network makes of it.

#include "simulation/run.hpp"

namespace fabring::simulation {

void Run::grant(Rank number, StepId id, std::uint32_t tile) {
  const RankState& rank = ranks_[at(number)];
  const PricedStep& step = priced(rank, id);
  push(now_ + machine_.tier(step.inside).latency_ns, EventKind::grant_arrives, peer(rank, step), step.peer_position,
       step.partner, tile);
}

void Run::post_slots(Rank number) {
  RankState& rank = ranks_[at(number)];
  const ClassPlan& own = plan(rank);
  const std::uint32_t depth = outcome_.depth;
  for (std::uint32_t index = rank.next_tile > depth ? rank.next_tile - depth : 0; index < rank.next_tile; ++index) {
    TileState& tile = state(number, index);
    if (!tile.active || tile.index != index) continue;
    for (; tile.next_slot_receive < own.slot_receives.size(); ++tile.next_slot_receive) {
      const StepId id = own.slot_receives[tile.next_slot_receive];
      if (!large(priced(rank, id), index)) continue;
      if (rank.free_slots == 0) return;
      --rank.free_slots;
      grant(number, id, index);
    }
  }
}

void Run::grant_arrives(Rank number, StepId id, std::uint32_t tile_index) {
  RankState& rank = ranks_[at(number)];
  if (!active(number, tile_index)) {
    rank.early.push_back({tile_index, id, true});
    return;
  }
  StepState& step = state(number, tile_index, id);
  step.flags |= granted;
  if ((step.flags & waiting) == 0) return;
  rank.ready.push_back({tile_index, id, false, true});
  wake(number);
}

void Run::head_arrives(const Event& event) {
  const PricedStep& step = priced(ranks_[at(event.rank)], event.step);
  const Passage through = network_.enter(event.rank, step.inside, bytes(step, event.tile), {event.time, event.tail});
  if (through.tail == now_) return message_arrives(event.rank, event.step, event.tile);
  push(through.tail, EventKind::message_arrives, event.rank, event.position, event.step, event.tile);
}

void Run::message_arrives(Rank number, StepId id, std::uint32_t tile) {
  RankState& rank = ranks_[at(number)];
  if (!active(number, tile)) {
    rank.early.push_back({tile, id, false});
    return;
  }
  rank.incoming.push_back({tile, id, true, false});
  wake(number);
}

void Run::send(Rank number, const Task& task) {
  const RankState& rank = ranks_[at(number)];
  const PricedStep& step = priced(rank, task.step);
  const Tier& tier = machine_.tier(step.inside);
  ++outcome_.messages;
  const Passage out = network_.leave(number, step.inside, bytes(step, task.tile), now_);
  const Nanoseconds underway = tier.latency_ns + tier.launch_ns;
  push(out.head + underway, EventKind::head_arrives, peer(rank, step), step.peer_position, step.partner, task.tile,
       out.tail + underway);
  // The buffer is free when a socket has copied it, or a card has read it.
  if (tier.copy_bytes_per_second != 0 || out.tail == now_ || !large(step, task.tile)) {
    step_done(number, task.step, task.tile);
  } else {
    push(out.tail, EventKind::sent, number, rank.position, task.step, task.tile);
  }
}

}  // namespace fabring::simulation
