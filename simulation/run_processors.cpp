// The processors of a simulated call: which rank runs where, what it does next, and what that costs.

#include <algorithm>

#include "simulation/run.hpp"

namespace fabring::simulation {

void Run::wake(Rank number) {
  RankState& rank = ranks_[at(number)];
  if (rank.running || rank.queued || !rank.entered || !has_work(rank)) return;
  const int core = cores_[at(node_of_[at(number)])].take(number);
  if (core < 0) {
    rank.queued = true;
    return;
  }
  run_on(number, core);
}

void Run::run_on(Rank number, int core) {
  RankState& rank = ranks_[at(number)];
  rank.running = true;
  rank.queued = false;
  rank.core = core;
  const bool turned = cores_[at(node_of_[at(number)])].turns_to(core, number);
  begin_work(number, turned ? machine_.switch_ns : 0);
}

void Run::begin_work(Rank number, Nanoseconds before) {
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

Nanoseconds Run::cost_of(Rank number, Task& task) {
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
  if (step.kind == StepKind::reduce) return reduction * std::max<std::int64_t>(1, std::int64_t{step.operand_count} - 1);
  return reduction;
}

void Run::work_done(Rank number) {
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

}  // namespace fabring::simulation
