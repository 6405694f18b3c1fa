#include "tests/collectives/plan_oracle.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "collectives/ownership.hpp"

namespace fabring::test {
namespace {

using Texts = std::vector<std::string>;

struct RankState {
  const Plan* plan;
  std::vector<Extent> extents;
  std::vector<std::size_t> begin;        // of each block, and the end of the last
  std::vector<std::set<Rank>> heard_of;  // by step
  Texts input, output;
  std::vector<Texts> scratch;
  std::vector<std::uint32_t> waiting;
  bool in_place;

  std::string* at(const Block& block) {
    if (block.space == Space::scratch) {
      return scratch[block.scratch].data() + scratch_extent(*plan, extents, block).offset;
    }
    Texts& data = block.space == Space::output && !in_place ? output : input;
    return data.data() + extents[block.range].offset;
  }
  std::size_t count(const Block& block) const { return extents[block.range].count; }
};

/// A message under way: its elements, and of whom its sender had heard.
struct Message {
  Texts texts;
  std::set<Rank> heard_of;
};

std::vector<std::size_t> lengths_of(const Plan& plan, const Counts& counts) {
  if (plan.blocks == 0) return {counts.uniform};
  std::vector<std::size_t> lengths(plan.blocks, counts.uniform);
  const auto n = static_cast<std::size_t>(plan.size);
  const auto rank = static_cast<std::size_t>(plan.rank);
  for (std::size_t i = 0; i < lengths.size() && !counts.blocks.empty(); ++i) {
    if (plan.collective != Collective::alltoall) {
      lengths[i] = counts.blocks[i];
    } else {
      lengths[i] = counts.blocks[i < n ? rank * n + i : (i - n) * n + rank];
    }
  }
  return lengths;
}

RankState prepare(const Plan& plan, const Counts& counts, bool in_place) {
  RankState me;
  me.plan = &plan;
  me.in_place = in_place;
  me.extents.resize(plan.ranges.size());
  const std::vector<std::size_t> lengths = lengths_of(plan, counts);
  if (plan.blocks == 0) {
    bind(plan, lengths[0], me.extents);
  } else {
    bind(plan, lengths, me.extents);
  }
  me.begin.push_back(0);
  for (const std::size_t length : lengths) me.begin.push_back(me.begin.back() + length);
  me.input.assign(me.begin.back(), "?");
  me.output.assign(me.begin.back(), "?");
  const BlockSpan own = input_blocks(plan);
  for (std::size_t e = me.begin[own.first]; e < me.begin[own.last]; ++e) {
    me.input[e] = "r" + std::to_string(plan.rank) + "e" + std::to_string(e);
  }
  std::vector<std::size_t> areas(plan.scratch.size());
  scratch_lengths(plan, me.extents, areas);
  for (const std::size_t length : areas) me.scratch.emplace_back(length, "?");
  me.heard_of.assign(plan.steps.size(), {plan.rank});
  return me;
}

std::string fold(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }

void run_local(RankState& me, const Step& step) {
  std::string* to = me.at(step.to);
  for (std::size_t e = 0; e < me.count(step.to); ++e) {
    if (step.kind == StepKind::copy) {
      to[e] = me.at(step.from)[e];
    } else if (step.kind == StepKind::finish) {
      to[e] = "avg" + to[e];
    } else {
      std::string all;
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        const std::string& operand = me.at(me.plan->operands[step.first_operand + i])[e];
        all = i == 0 ? operand : fold(all, operand);
      }
      to[e] = all;
    }
  }
}

void deliver(RankState& me, const Step& step, const Texts& incoming) {
  std::string* to = me.at(step.to);
  for (std::size_t e = 0; e < me.count(step.to); ++e) {
    if (step.kind == StepKind::recv) {
      to[e] = incoming[e];
    } else {
      const std::string own = me.at(step.from)[e];
      to[e] = step.incoming_first ? fold(incoming[e], own) : fold(own, incoming[e]);
    }
  }
}

std::string judge_sum(const std::string& text, std::size_t ranks, std::size_t element, bool avg) {
  if (avg != (text.rfind("avg", 0) == 0) || text.find("avg", 1) != std::string::npos) return "finish in " + text;
  if (text.find('?') != std::string::npos) return "never written: " + text;
  std::vector<int> seen(ranks);
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != 'r') {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    const std::size_t rank = std::stoul(text.substr(end), &end);
    i += end + 2;  // "r<rank>e"
    std::size_t digits = 0;
    if (std::stoul(text.substr(i), &digits) != element) return "another element in " + text;
    i += digits;
    ++seen[rank];
  }
  return std::count(seen.begin(), seen.end(), 1) == static_cast<std::ptrdiff_t>(ranks) ? "" : "not each once: " + text;
}

/// What the element at `e` of this block of the output is to be, where nothing is reduced.
std::string moved_to(const std::vector<RankState>& ranks, const Plan& plan, std::uint32_t block, std::size_t e) {
  std::size_t source = static_cast<std::size_t>(plan.root);
  if (plan.collective == Collective::all_gather || plan.collective == Collective::gather) source = block;
  if (plan.collective == Collective::alltoall) {
    source = block - static_cast<std::size_t>(plan.size);
    e = e - ranks[static_cast<std::size_t>(plan.rank)].begin[block] +
        ranks[source].begin[static_cast<std::size_t>(plan.rank)];
  }
  return "r" + std::to_string(source) + "e" + std::to_string(e);
}

std::string judge(std::vector<RankState>& ranks, bool avg) {
  for (RankState& me : ranks) {
    const Plan& plan = *me.plan;
    if (plan.collective == Collective::barrier) {
      std::set<Rank> all{plan.rank};
      for (const auto& heard : me.heard_of) all.insert(heard.begin(), heard.end());
      if (all.size() != ranks.size()) return "has not heard of all";
      continue;
    }
    const Texts& output = me.in_place ? me.input : me.output;
    const BlockSpan own = output_blocks(plan);
    for (std::uint32_t block = own.first; block < own.last; ++block) {
      for (std::size_t e = me.begin[block]; e < me.begin[block + 1]; ++e) {
        if (!reduces(plan.collective)) {
          if (output[e] != moved_to(ranks, plan, block, e)) return "not the right element: " + output[e];
          continue;
        }
        if (std::string wrong = judge_sum(output[e], ranks.size(), e, avg); !wrong.empty()) return wrong;
        if (plan.collective != Collective::allreduce) continue;
        const std::string& first = me.in_place ? ranks[0].input[e] : ranks[0].output[e];
        if (output[e] != first) return "ranks differ: " + first + " and " + output[e];
      }
    }
  }
  return {};
}

}  // namespace

std::string run_oracle(std::span<const Plan> plans, const Counts& counts, bool in_place, bool avg, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RankState> ranks;
  std::vector<std::pair<std::size_t, StepId>> ready;
  std::size_t steps = 0;
  for (const Plan& plan : plans) {
    RankState& me = ranks.emplace_back(prepare(plan, counts, in_place));
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      me.waiting.push_back(plan.steps[id].dependencies);
      if (plan.steps[id].dependencies == 0) ready.emplace_back(ranks.size() - 1, id);
    }
    steps += plan.steps.size();
  }

  // A message leaves when its send runs and is taken when its receive does: receives wait in `ready` for it.
  std::map<std::tuple<Rank, Rank, std::uint32_t>, Message> flying;
  std::size_t stalled = 0;
  while (!ready.empty() && stalled < 100 * steps) {
    const std::size_t pick = random() % ready.size();
    const auto [rank, id] = ready[pick];
    RankState& me = ranks[rank];
    const Step& step = me.plan->steps[id];
    if (step.kind == StepKind::send) {
      const std::string* from = me.at(step.from);
      flying[{me.plan->rank, step.peer, step.message}] = {Texts(from, from + me.count(step.from)), me.heard_of[id]};
    } else if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) {
      const auto found = flying.find({step.peer, me.plan->rank, step.message});
      if (found == flying.end()) {
        ++stalled;
        continue;
      }
      if (found->second.texts.size() != me.count(step.to)) return "sizes differ";
      deliver(me, step, found->second.texts);
      me.heard_of[id].insert(found->second.heard_of.begin(), found->second.heard_of.end());
      flying.erase(found);
    } else {
      run_local(me, step);
    }
    stalled = 0;
    --steps;
    ready[pick] = ready.back();
    ready.pop_back();
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepId after = me.plan->successors[step.first_successor + i];
      me.heard_of[after].insert(me.heard_of[id].begin(), me.heard_of[id].end());
      if (--me.waiting[after] == 0) ready.emplace_back(rank, after);
    }
  }
  if (steps != 0 || !flying.empty()) return "does not come to its end";
  return judge(ranks, avg);
}

}  // namespace fabring::test
