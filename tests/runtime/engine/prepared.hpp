#pragma once
// A plan as the engine takes it.

#include <utility>
#include <vector>

#include "collectives/algorithms.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring::fixture {

inline PreparedPlan prepared(Algorithm algorithm, Rank rank, std::vector<int> node_of) {
  auto plan = make_plan({algorithm, rank, node_of, ReduceOp::sum});
  return PreparedPlan(std::move(*plan));
}

}  // namespace fabring::fixture
