#include "simulation/cutting.hpp"

#include <algorithm>

#include "collectives/cost/kept_by_hierarchical.hpp"
#include "collectives/cost/message_length.hpp"
#include "collectives/ownership.hpp"

namespace fabring::simulation {

Cutting::Cutting(const Schedule& schedule, const Machine& machine, const Job& job) {
  const Plan& plan = schedule.classes.front().plan;
  const std::size_t count = job.bytes / job.element_bytes / blocks_of_call(plan);
  std::size_t tiles = 1;
  const WorldShape shape = shape_of(schedule.node_of);
  const TilingRules rules = rules_on(machine, plan.collective, plan.algorithm, shape, job.bytes);
  const double message = longest_message_bytes(schedule.largest_message, job.element_bytes);
  if (count > 0 && schedule.largest_message > 0) tiles = tile_count(message, count, rules);
  lengths_ = {count / tiles + 1, count / tiles};
  longer_tiles_ = static_cast<std::uint32_t>(count % tiles);
  if (schedule.blocks != 0 && count > 0) {  // slices of equal length and a rest
    lengths_[0] = (count + tiles - 1) / tiles;
    tiles = (count + lengths_[0] - 1) / lengths_[0];
    longer_tiles_ = static_cast<std::uint32_t>(tiles - 1);
    lengths_[1] = count - longer_tiles_ * lengths_[0];
  }
  tiles_ = static_cast<std::uint32_t>(tiles);
  depth_ = std::min(tiles_, depth_in_scratch(rules, plan.collective, plan.algorithm, shape,
                                             message * static_cast<double>(lengths_[longer_tiles_ > 0 ? 0 : 1])));
}

std::uint32_t Cutting::tiles_within(const Schedule& schedule, const Job& job, std::int64_t ranks,
                                    std::uint32_t depth) const {
  std::uint64_t messages = 0;  // of one tile
  for (const ClassPlan& each : schedule.classes)
    for (const Step& step : each.plan.steps) messages += step.kind == StepKind::send ? 1 : 0;
  messages *= static_cast<std::uint64_t>(ranks / schedule.symmetry.unit);
  const std::uint64_t enough =
      std::max<std::uint64_t>(job.most_messages / std::max<std::uint64_t>(messages, 1), std::uint64_t{8} * depth);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(enough, tiles_));
}

}  // namespace fabring::simulation
