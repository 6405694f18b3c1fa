// The processors of a simulated call: which rank runs where, what it does next, and what that costs.

#include <algorithm>

#include "simulation/run.hpp"

namespace fabring::simulation {

void Run::wake(Rank number) {
  RankState& rank = ranks_[at(number)];
  if (rank.running || rank.queued || !rank.entered || !has_work(rank)) return;
  Cores* const shared = cores(number);
  const int core = shared == nullptr ? 0 : shared->take(number);
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
  Cores* const shared = cores(number);
  const bool turned = shared != nullptr && shared->turns_to(core, number);
  begin_work(number, turned ? machine_.switch_ns : 0);
}

void Run::begin_work(Rank number, Nanoseconds before) {
  RankState& rank = ranks_[at(number)];
  // The engine takes what has come in, then runs all that is ready, then looks again.
  if (rank.ready.empty() && rank.taken == rank.polled) rank.polled = static_cast<std::uint32_t>(rank.incoming.size());
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
  push(now_ + before + cost, EventKind::work_done, number, rank.position, rank.current.step, rank.current.tile);
}

Nanoseconds Run::cost_of(Rank number, Task& task) {
  const PricedStep& step = priced(ranks_[at(number)], task.step);
  const std::size_t cut = cutting_.cut(task.tile);
  if (task.incoming) task.complete = state(number, task.tile, task.step).need == 0;
  const bool adds = step.kind == StepKind::recv_reduce && task.complete;
  const Nanoseconds adding = adds ? transfer_ns(step.bytes[cut], machine_.reduce_bytes_per_second) : 0;
  const bool moves = step.kind == StepKind::send || task.incoming;
  return (moves || !adds ? step.cost[cut] : 0) + adding;
}

void Run::work_done(Rank number) {
  RankState& rank = ranks_[at(number)];
  const Task task = rank.current;
  const PricedStep& step = priced(rank, task.step);
  if (step.kind == StepKind::send) {
    send(number, task);
  } else if (task.incoming && !task.complete) {
    StepState& waits = state(number, task.tile, task.step);
    waits.flags |= here;
    if (waits.need == 0) make_ready(number, task.step, task.tile);  // became so meanwhile
  } else {
    if (step.kind == StepKind::recv_reduce && large(step, task.tile)) {
      ++rank.free_slots;
      post_slots(number);
    }
    step_done(number, task.step, task.tile);
  }
  if (has_work(rank)) return begin_work(number, 0);
  rank.running = false;
  const int core = rank.core;
  if (Cores* const shared = cores(number)) {
    const int next = shared->release(core);
    if (next >= 0) run_on(next, core);
  }
}

}  // namespace fabring::simulation
