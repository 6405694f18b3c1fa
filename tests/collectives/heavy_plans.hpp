#pragma once
// Right plans of one rank that take more than WorkLimit::for_files to prove.

#include <cstdint>
#include <vector>

#include "tests/collectives/worlds.hpp"

namespace fabring::test {

inline constexpr std::uint32_t many_parts = 30'000;

inline Step copy_step(Block to, Block from) {
  Step step;
  step.kind = StepKind::copy;
  step.to = to;
  step.from = from;
  return step;
}

/// As many copies into parts of an area as make it that many pieces, and as many copies of all of it.
inline std::vector<Plan> parts_and_wholes(bool same_places) {
  std::vector<Plan> plans = plans_of({Collective::broadcast, Algorithm::binomial}, flat(1));
  Plan& plan = plans[0];
  plan.steps.clear();
  plan.successors.clear();
  plan.scratch = {0};
  for (std::uint32_t i = 0; i < many_parts; ++i) plan.ranges.push_back({0, i, i + 1, many_parts});
  for (std::uint32_t i = 0; i < many_parts; ++i)
    plan.steps.push_back(
        copy_step({Space::scratch, 0, i + 1}, {Space::input, 0, same_places ? i + 1 : many_parts - i}));
  Step joint = copy_step({Space::output, 0, 0}, {Space::input, 0, 0});
  joint.dependencies = many_parts;
  for (std::uint32_t i = 0; i < many_parts; ++i) {
    plan.steps[i].first_successor = i;
    plan.steps[i].successor_count = 1;
    plan.successors.push_back(many_parts);
  }
  plan.steps.push_back(joint);
  for (std::uint32_t i = 0; i < many_parts; ++i) {
    Step& before = plan.steps.back();
    before.first_successor = many_parts + i;
    before.successor_count = 1;
    plan.successors.push_back(many_parts + i + 1);
    plan.steps.push_back(copy_step({Space::output, 0, 0}, {Space::scratch, 0, 0}));
    plan.steps.back().dependencies = 1;
  }
  return plans;
}

}  // namespace fabring::test
