#pragma once
// plan_check: proves the plans of all ranks together for one element count. It runs nothing: data is symbolic.
//  1. every send has exactly one receive of equal length, and the other way round;
//  2. no deadlock, even when a send can only complete together with its receive;
//  3. every element of every output is the reduction of every rank's input exactly once, as the SAME ORDERED EXPRESSION
//     on every rank (so the bits agree, for non-commutative operations too; `finish` applied exactly once for avg);
//  4. no two steps of a rank touch the same bytes, one of them writing, without an order between them (input and
//     output are taken as one buffer: in place must work with the same plan);
//  5. operands, ranges, scratch and step numbers are in bounds; dependencies match the successor lists.

#include <span>
#include <string>

#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

struct CheckReport {
  std::size_t steps = 0;
  std::size_t messages = 0;
  std::size_t critical_path = 0;  ///< rounds: longest chain of messages
};

/// Success, or the first broken property with rank, step and range. Quadratic in the steps of a rank: for tests and
/// tools.
Result<CheckReport> check_allreduce(std::span<const Plan> plans, std::size_t count, ReduceOp op);

}  // namespace fabring
