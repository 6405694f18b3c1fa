// Messages of a simulated call: who may send when, and what the network makes of it.

#include "simulation/run.hpp"

namespace fabring::simulation {

void Run::grant(Rank number, StepId id, std::uint32_t tile) {
  state(number, tile).flags[id] |= posted;
  const ClassPlan& own = plan(number);
  const Rank peer = schedule_.peer(number, own.plan.steps[id]);
  const Tier& tier = machine_.tier(same_node(number, peer));
  push(now_ + tier.latency_ns, EventKind::grant_arrives, simulated(peer), own.partner[id], tile);
}

void Run::post_slots(Rank number) {
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

void Run::grant_arrives(Rank number, StepId id, std::uint32_t tile_index) {
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

void Run::head_arrives(const Event& event) {
  const Step& step = plan(event.rank).plan.steps[event.step];
  const bool inside = same_node(event.rank, schedule_.peer(event.rank, step));
  const Passage through =
      network_.enter(event.rank, inside, bytes(event.rank, event.step, event.tile), {event.time, event.tail});
  if (through.tail == now_) return message_arrives(event.rank, event.step, event.tile);
  push(through.tail, EventKind::message_arrives, event.rank, event.step, event.tile);
}

void Run::message_arrives(Rank number, StepId id, std::uint32_t tile) {
  RankState& rank = ranks_[at(number)];
  if (!active(number, tile)) {
    rank.early.push_back({tile, id, false});
    return;
  }
  rank.incoming.push_back({id, tile, true, false});
  wake(number);
}

void Run::send(Rank number, const Task& task) {
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

}  // namespace fabring::simulation
