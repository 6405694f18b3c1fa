#include "runtime/engine/plans/prepared_plan.hpp"

#include <algorithm>

#include "collectives/tiling.hpp"
#include "runtime/base/check.hpp"

namespace fabring {

PreparedPlan::PreparedPlan(Plan made, Origin from)
    : plan(std::move(made)), origin(from), input(input_blocks(plan)), output(output_blocks(plan)) {
  for (RangeId id = 0; plan.blocks != 0 && id < plan.ranges.size(); ++id) blocks.push_back(blocks_of(plan, id));

  std::vector<Rank> ranks;
  for (const Step& step : plan.steps)
    if (is_message(step.kind)) ranks.push_back(step.peer);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (Rank rank : ranks) peers.push_back({rank, {}, {}});

  peer_of_step.assign(plan.steps.size(), -1);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    dependencies.push_back(step.dependencies);
    if (step.dependencies == 0) first_steps.push_back(id);
    if (!is_message(step.kind)) continue;
    const int index = peer_index(step.peer);
    peer_of_step[id] = index;
    auto& list = step.kind == StepKind::send ? peers[index].sends : peers[index].receives;
    FABRING_CHECK(step.message == list.size());  // check_plans() proves it; the builder numbers them so
    list.push_back(id);
    if (step.kind == StepKind::recv_reduce) slot_receives.push_back(id);
  }
  find_parts();
  find_only_readers();
  find_what_may_stay();
  find_what_may_be_lent();
  find_what_goes_on();
  is_readable = origin == Origin::own_algorithm && fabring::is_readable(plan.collective, plan.algorithm, plan.size);
}

void PreparedPlan::find_parts() {
  if (plan.blocks != 0 || plan.ranges.size() < 2) return;
  part_of.assign(plan.ranges.size(), none);
  const std::uint32_t cut = plan.ranges[1].parts;  // its parent can only be the whole
  for (RangeId id = 1; id < plan.ranges.size(); ++id) {
    const Range& range = plan.ranges[id];
    if (range.parent != 0)
      part_of[id] = part_of[range.parent];
    else if (range.parts != cut)
      return;
    else if (range.last == range.first + 1)
      part_of[id] = range.first;
  }
  const auto lies_in_one = [&](const Block& block) {
    return block.space == Space::scratch || part_of[block.range] != none;
  };
  for (const Step& step : plan.steps)
    if (!std::ranges::all_of(reads(plan, step), lies_in_one) || !std::ranges::all_of(writes(step), lies_in_one)) return;
  parts = cut;
}

void PreparedPlan::find_what_goes_on() {
  onward.resize(plan.steps.size());
  if (origin != Origin::own_algorithm) return;
  const auto each_that_waits_only_for = [this](StepId id, auto visit) {
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i)
      if (const StepId next = plan.successors[step.first_successor + i]; plan.steps[next].dependencies == 1)
        visit(next);
  };
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    if (step.kind != StepKind::reduce && step.kind != StepKind::recv_reduce) continue;
    Onward& there = onward[id];
    each_that_waits_only_for(id, [&](StepId next) {
      if (plan.steps[next].kind == StepKind::finish && plan.steps[next].to == step.to) there.finish = next;
    });
    each_that_waits_only_for(there.finish == none ? id : there.finish, [&](StepId next) {
      if (plan.steps[next].kind == StepKind::send && plan.steps[next].from == step.to) there.sends.push_back(next);
    });
  }
}

void PreparedPlan::find_what_may_be_lent() {
  may_be_lent.assign(plan.steps.size(), false);
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    bool free = step.kind == StepKind::send && step.from.space != Space::scratch;
    for (std::uint32_t i = 0; free && i < step.successor_count; ++i) {
      const StepId next = plan.successors[step.first_successor + i];
      free = comes_back(id, next) || leaves(id, next);
    }
    may_be_lent[id] = free;
  }
}

void PreparedPlan::find_only_readers() {
  struct Area {
    std::size_t writes = 0, readers = 0;
    StepId writer = 0, reader = 0;
  };
  std::vector<Area> areas(plan.scratch.size());
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& step = plan.steps[id];
    for (const Block& block : writes(step))
      if (block.space == Space::scratch) {
        ++areas[block.scratch].writes;
        areas[block.scratch].writer = id;
      }
    for (const Block& block : reads(plan, step)) {
      if (block.space != Space::scratch) continue;
      Area& area = areas[block.scratch];
      if (area.readers == 0 || area.reader != id) ++area.readers;
      area.reader = id;
    }
  }
  only_reader.assign(plan.steps.size(), none);
  if (origin != Origin::own_algorithm) return;
  for (std::size_t i = 0; i < areas.size(); ++i) {
    const Area& area = areas[i];
    if (area.writes != 1 || area.readers != 1) continue;
    const Step& writer = plan.steps[area.writer];
    if (writer.kind == StepKind::recv && writer.to.range == plan.scratch[i] &&
        plan.steps[area.reader].kind == StepKind::reduce)
      only_reader[area.writer] = area.reader;
  }
}

// A recv_reduce reads its message itself. What one reduce alone reads may stay as well.
void PreparedPlan::find_what_may_stay() {
  const std::size_t count = plan.steps.size();
  std::vector<bool> after_send(count, false);
  for (StepId id = 0; id < count; ++id) {
    const Step& step = plan.steps[id];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepId next = plan.successors[step.first_successor + i];
      after_send[next] = after_send[next] || after_send[id] || step.kind == StepKind::send;
    }
  }
  may_stay.assign(count, false);
  last_reader.resize(count);
  for (StepId id = 0; id < count; ++id) {
    may_stay[id] = plan.steps[id].kind == StepKind::recv_reduce && !after_send[id];
    if (const StepId reader = only_reader[id]; reader != none && !after_send[reader]) {
      may_stay[id] = true;
      last_reader[reader].push_back(id);
    }
  }
  find_what_reads_early(after_send);
}

// All that such a reduce reads is there as soon as its receives are over, which nothing else waits for.
void PreparedPlan::find_what_reads_early(const std::vector<bool>& after_send) {
  const std::size_t count = plan.steps.size();
  std::vector<bool> sends_first(count, false), other_first(count, false);
  std::vector<std::vector<StepId>> reads(count);
  std::vector<std::size_t> operands(count, 0);  // that receives bring
  for (StepId id = 0; id < count; ++id) {
    const Step& step = plan.steps[id];
    if (only_reader[id] != none) ++operands[only_reader[id]];
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepId next = plan.successors[step.first_successor + i];
      if (step.kind == StepKind::send && step.dependencies == 0)
        sends_first[next] = true;
      else if (step.kind == StepKind::recv && only_reader[id] == next && !after_send[id])
        reads[next].push_back(id);
      else
        other_first[next] = true;
    }
  }
  reads_early.assign(count, false);
  for (StepId id = 0; id < count; ++id) {
    const Step& step = plan.steps[id];
    const auto as_long = [&](StepId receive) { return plan.steps[receive].to.range == step.to.range; };
    reads_early[id] = step.kind == StepKind::reduce && step.to.space == Space::output && sends_first[id] &&
                      !other_first[id] && !reads[id].empty() && reads[id].size() == operands[id] &&
                      as_long(reads[id].front());
    if (reads_early[id]) last_reader[id] = std::move(reads[id]);
  }
}

int PreparedPlan::peer_index(Rank rank) const {
  const auto at = std::lower_bound(peers.begin(), peers.end(), rank,
                                   [](const Peer& peer, Rank wanted) { return peer.rank < wanted; });
  return at != peers.end() && at->rank == rank ? static_cast<int>(at - peers.begin()) : -1;
}

}  // namespace fabring
