#include "collectives/builder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/access_history.hpp"
#include "collectives/ownership.hpp"
#include "collectives/range_cuts.hpp"
#include "collectives/written_ranges.hpp"
#include "runtime/base/check.hpp"

namespace fabring {

Group::Group(std::vector<Rank> ranks, Rank self) : ranks_(std::move(ranks)), index_(0) {
  const auto found = std::find(ranks_.begin(), ranks_.end(), self);
  FABRING_CHECK(found != ranks_.end());
  index_ = static_cast<int>(found - ranks_.begin());
}

Group Group::all(Rank self, int size) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return {std::move(ranks), self};
}

Rank Group::at(int index) const {
  const int wrapped = index % size();
  return ranks_[static_cast<std::size_t>(wrapped < 0 ? wrapped + size() : wrapped)];
}

struct PlanBuilder::State {
  // A scratch area: as one piece until a part of it is named, since most never are and a history of parts is as long
  // as the plan has ranges.
  struct Area {
    RangeId declared = 0;
    StepId writer = RangeCuts::none;
    std::uint32_t readers = RangeCuts::none;  // list in area_readers, newest first
    std::unique_ptr<AccessHistory> parts;
  };
  struct Reader {
    StepId step;
    std::uint32_t next;
  };

  explicit State(Plan& plan)
      : cuts(plan.ranges),
        history(cuts),
        written(cuts),
        messages_to(static_cast<std::size_t>(plan.size)),
        messages_from(static_cast<std::size_t>(plan.size)) {}

  void conflicts(const Block& block, bool writing) {
    if (block.space != Space::scratch) return history.conflicts(block.range, writing, after);
    Area& area = areas[block.scratch];
    const RangeId range = range_in(area, block.range);
    if (range != area.declared && !area.parts) split(area);
    if (area.parts) return area.parts->conflicts(range, writing, after);
    if (writing && area.readers != RangeCuts::none) {
      for (std::uint32_t at = area.readers; at != RangeCuts::none; at = area_readers[at].next)
        after.push_back(area_readers[at].step);  // each of them waits for the writer
    } else if (area.writer != RangeCuts::none) {
      after.push_back(area.writer);
    }
  }

  void record(const Block& block, bool writing, StepId step) {
    if (block.space != Space::scratch) {
      history.record(block.range, writing, step);
      if (writing) written.mark(block.range);
      return;
    }
    Area& area = areas[block.scratch];
    if (area.parts) return area.parts->record(range_in(area, block.range), writing, step);
    if (writing) {
      area.readers = RangeCuts::none;
      area.writer = step;
    } else {
      area_readers.push_back({step, area.readers});
      area.readers = static_cast<std::uint32_t>(area_readers.size() - 1);
    }
  }

  // A range outside the declared one lies anywhere in the area, so it stands for all of it.
  RangeId range_in(const Area& area, RangeId range) const {
    for (RangeId at = range; at != area.declared; at = cuts.range(at).parent) {
      if (at == 0) return area.declared;
      if (area.declared != 0 && cuts.contains(area.declared, at)) break;
    }
    return range;
  }

  void split(Area& area) {
    area.parts = std::make_unique<AccessHistory>(cuts);
    if (area.writer != RangeCuts::none) area.parts->record(area.declared, true, area.writer);
    for (std::uint32_t at = area.readers; at != RangeCuts::none; at = area_readers[at].next)
      area.parts->record(area.declared, false, area_readers[at].step);
  }

  RangeCuts cuts;
  AccessHistory history;
  WrittenRanges written;
  std::vector<Area> areas;
  std::vector<Reader> area_readers;
  std::vector<std::uint32_t> messages_to;
  std::vector<std::uint32_t> messages_from;
  std::vector<StepId> fence;         // the receives that every step waits for
  std::vector<StepId> received;      // since then
  std::vector<StepId> after;         // of the step being added
  std::vector<StepId> dependencies;  // of all steps, one after the other
};

PlanBuilder::PlanBuilder(std::string algorithm, Rank rank, int size, Collective collective, Rank root) {
  FABRING_CHECK(size > 0 && rank >= 0 && rank < size && root >= 0 && root < size);
  plan_.algorithm = std::move(algorithm);
  plan_.collective = collective;
  plan_.rank = rank;
  plan_.size = size;
  plan_.root = root;
  plan_.blocks = block_count(collective, size);
  plan_.ranges.push_back({});
  state_ = std::make_unique<State>(plan_);
}

PlanBuilder::~PlanBuilder() = default;

RangeId PlanBuilder::part(RangeId range, int index, int parts) { return this->parts(range, index, index + 1, parts); }

RangeId PlanBuilder::parts(RangeId range, int first, int last, int parts) {
  FABRING_CHECK(first >= 0 && first <= last && last <= parts && parts > 0);
  return state_->cuts.find_or_add(
      {range, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), static_cast<std::uint32_t>(parts)});
}

Block PlanBuilder::value(RangeId range) const {
  const Written written = state_->written.of(range);
  FABRING_CHECK(written != Written::partly);
  return written == Written::all ? output(range) : input(range);
}

Block PlanBuilder::scratch(RangeId range) {
  plan_.scratch.push_back(range);
  state_->areas.emplace_back().declared = range;
  return {Space::scratch, static_cast<std::uint32_t>(plan_.scratch.size() - 1), range};
}

void PlanBuilder::add(Step step, std::span<const Block> reads, std::span<const Block> writes) {
  std::vector<StepId>& after = state_->after;
  after = state_->fence;
  for (const Block& block : reads) state_->conflicts(block, false);
  for (const Block& block : writes) {
    FABRING_CHECK(block.space != Space::input);
    state_->conflicts(block, true);
  }
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  step.dependencies = static_cast<std::uint32_t>(after.size());
  state_->dependencies.insert(state_->dependencies.end(), after.begin(), after.end());

  const auto id = static_cast<StepId>(plan_.steps.size());
  plan_.steps.push_back(step);
  if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) state_->received.push_back(id);
  for (const Block& block : reads) state_->record(block, false, id);
  for (const Block& block : writes) state_->record(block, true, id);
}

void PlanBuilder::message(StepKind kind, Rank peer, Block to, Block from, bool incoming_first) {
  FABRING_CHECK(peer >= 0 && peer < plan_.size && peer != plan_.rank);
  Step step;
  step.kind = kind;
  step.incoming_first = incoming_first;
  step.peer = peer;
  step.to = to;
  step.from = from;
  auto& numbers = kind == StepKind::send ? state_->messages_to : state_->messages_from;
  step.message = numbers[static_cast<std::size_t>(peer)]++;
  const std::span<const Block> reads(&step.from, kind == StepKind::recv ? 0 : 1);
  const std::span<const Block> writes(&step.to, kind == StepKind::send ? 0 : 1);
  add(step, reads, writes);
}

void PlanBuilder::send(Rank peer, Block from) { message(StepKind::send, peer, {}, from, false); }

void PlanBuilder::recv(Rank peer, Block to) { message(StepKind::recv, peer, to, {}, false); }

void PlanBuilder::recv_reduce(Rank peer, Block to, Block from, bool incoming_first) {
  message(StepKind::recv_reduce, peer, to, from, incoming_first);
}

void PlanBuilder::reduce(Block to, std::span<const Block> operands) {
  FABRING_CHECK(!operands.empty());
  Step step;
  step.kind = StepKind::reduce;
  step.to = to;
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(operands.size());
  plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
  add(step, operands, {&to, 1});
}

void PlanBuilder::copy(Block to, Block from) {
  Step step;
  step.kind = StepKind::copy;
  step.to = to;
  step.from = from;
  add(step, {&from, 1}, {&to, 1});
}

void PlanBuilder::finish(Block block) {
  FABRING_CHECK(block.space != Space::output || state_->written.of(block.range) == Written::all ||
                state_->cuts.empty(block.range));
  Step step;
  step.kind = StepKind::finish;
  step.to = block;
  add(step, {}, {&block, 1});
}

void PlanBuilder::fence() {
  if (!state_->received.empty()) state_->fence = std::exchange(state_->received, {});
}

void PlanBuilder::bound_messages(std::uint64_t longest) {
  plan_.largest_message = std::max(plan_.largest_message, longest);
}

void PlanBuilder::settle(RangeId range) {
  const Written written = state_->written.of(range);
  if (written == Written::all || state_->cuts.empty(range)) return;
  if (written == Written::nothing) return copy(output(range), input(range));
  // Partly: by the parts of its first cut. Unless that cut tells written parts from others, value() refuses below.
  const std::uint32_t cut = state_->cuts.place(range).first_cut;
  FABRING_CHECK(cut != RangeCuts::none);
  const auto count = static_cast<int>(state_->cuts.cut(cut).parts);
  for (int i = 0; i < count; ++i) settle(part(range, i, count));
}

Plan PlanBuilder::build() && {
  std::vector<Step>& steps = plan_.steps;
  for (const StepId before : state_->dependencies) ++steps[before].successor_count;
  std::uint32_t first = 0;
  for (Step& step : steps) {
    step.first_successor = first;
    first += step.successor_count;
    step.successor_count = 0;
  }
  plan_.successors.resize(first);
  std::size_t next = 0;
  for (StepId id = 0; id < steps.size(); ++id) {
    for (std::uint32_t i = 0; i < steps[id].dependencies; ++i) {
      Step& before = steps[state_->dependencies[next++]];
      plan_.successors[before.first_successor + before.successor_count++] = id;
    }
  }
  const std::uint64_t longest = longest_own_message(plan_);
  FABRING_CHECK(plan_.largest_message == 0 || longest <= plan_.largest_message);
  plan_.largest_message = std::max(plan_.largest_message, longest);
  return std::move(plan_);
}

}  // namespace fabring
