#include "tests/collectives/plan_oracle.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace fabring::test {
namespace {

using Texts = std::vector<std::string>;

struct RankState {
  const Plan* plan;
  std::vector<Extent> extents;
  Texts input, output;
  std::vector<Texts> scratch;
  std::vector<std::uint32_t> waiting;
  bool in_place;

  std::string* at(const Block& block) {
    if (block.space == Space::scratch) return scratch[block.scratch].data();
    Texts& data = block.space == Space::output && !in_place ? output : input;
    return data.data() + extents[block.range].offset;
  }
  std::size_t count(const Block& block) const { return extents[block.range].count; }
};

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

std::string judge(const std::string& text, std::size_t ranks, std::size_t element, bool avg) {
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

}  // namespace

std::string run_oracle(std::span<const Plan> plans, std::size_t count, bool in_place, bool avg, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<RankState> ranks;
  std::vector<std::pair<std::size_t, StepId>> ready;
  std::size_t steps = 0;
  for (const Plan& plan : plans) {
    RankState& me = ranks.emplace_back();
    me.plan = &plan;
    me.in_place = in_place;
    me.extents.resize(plan.ranges.size());
    bind(plan, count, me.extents);
    for (std::size_t e = 0; e < count; ++e) {
      me.input.push_back("r" + std::to_string(plan.rank) + "e" + std::to_string(e));
      me.output.push_back("?");
    }
    for (const RangeId range : plan.scratch) me.scratch.emplace_back(me.extents[range].count, "?");
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      me.waiting.push_back(plan.steps[id].dependencies);
      if (plan.steps[id].dependencies == 0) ready.emplace_back(ranks.size() - 1, id);
    }
    steps += plan.steps.size();
  }

  // A message leaves when its send runs and is taken when its receive does: receives wait in `ready` for it.
  std::map<std::tuple<Rank, Rank, std::uint32_t>, Texts> flying;
  std::size_t stalled = 0;
  while (!ready.empty() && stalled < 100 * steps) {
    const std::size_t pick = random() % ready.size();
    const auto [rank, id] = ready[pick];
    RankState& me = ranks[rank];
    const Step& step = me.plan->steps[id];
    if (step.kind == StepKind::send) {
      const std::string* from = me.at(step.from);
      flying[{me.plan->rank, step.peer, step.message}] = Texts(from, from + me.count(step.from));
    } else if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce) {
      const auto found = flying.find({step.peer, me.plan->rank, step.message});
      if (found == flying.end()) {
        ++stalled;
        continue;
      }
      if (found->second.size() != me.count(step.to)) return "sizes differ";
      deliver(me, step, found->second);
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
      if (--me.waiting[after] == 0) ready.emplace_back(rank, after);
    }
  }
  if (steps != 0 || !flying.empty()) return "does not come to its end";

  for (std::size_t e = 0; e < count; ++e) {
    const auto result = [&](RankState& me) { return in_place ? me.input[e] : me.output[e]; };
    const std::string first = result(ranks[0]);
    if (std::string wrong = judge(first, plans.size(), e, avg); !wrong.empty()) return wrong;
    for (RankState& me : ranks) {
      if (result(me) != first) return "ranks differ: " + first + " and " + result(me);
    }
  }
  return {};
}

}  // namespace fabring::test
