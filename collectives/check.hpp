#pragma once
// check_plans(): proves the plans of all ranks together for given element counts. It runs nothing: data is symbolic.
//  1. every send has exactly one receive of equal length, and the other way round;
//     the messages of a pair are numbered in the order of the steps on both sides;
//  2. no deadlock, even when a send can only complete together with its receive, and what a rank reduces as it comes is
//     taken in the order of its steps (memory for one such message is all that the engine is sure to have);
//  3. every rank's output is what the collective says: the reduction of every rank's input exactly once, as the SAME
//     ORDERED EXPRESSION on every rank that has the element (so the bits agree; `finish` applied exactly once for avg;
//     operands in the order of the ranks, or reduced in one step, where the algorithm claims it), or the very element
//     of the very rank, or, for a barrier, that all ranks have begun when one is through; no step reads what was never
//     written;
//  4. no two steps of a rank touch the same bytes, one of them writing, without an order between them (input and
//     output are taken as one buffer: in place must work with the same plan);
//  5. operands, ranges, scratch and step numbers are in bounds; nothing reads an input or touches an output that its
//     rank does not have; what a message, a reduce or a finish names in the caller's memory lies in one block;
//     dependencies match the successor lists;
//  6. largest_message is the same on all ranks, and no message is longer.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// How a reduction is made, whatever the algorithm claims.
struct OperandOrder {
  bool in_rank_order = true;  ///< the operands are x_0, x_1, ... x_{n-1} in this order
  bool in_one_step = true;    ///< besides, they are reduced in one step

  /// What is so here and there.
  void restrict_to(OperandOrder other) {
    in_rank_order = in_rank_order && other.in_rank_order;
    in_one_step = in_one_step && other.in_one_step;
  }
};

struct CheckReport {
  std::size_t steps = 0;
  std::size_t messages = 0;
  std::size_t critical_path = 0;  ///< rounds: longest chain of messages
  OperandOrder order;             ///< of a reduction
};

/// How much a check may still do, for plans that come from anywhere: a file of some MB can ask for hours. A unit is
/// some nanoseconds, or some tens of bytes that are kept.
class WorkLimit {
 public:
  static constexpr std::uint64_t for_files = std::uint64_t{1} << 27;  ///< a second or so

  explicit WorkLimit(std::uint64_t units) : left_(units) {}
  /// Error: unsupported, once there is no more.
  Status take(std::uint64_t units);

 private:
  std::uint64_t left_;
};

/// Elements of the vector or of the blocks.
struct Counts {
  Counts(std::size_t all) : uniform(all) {}                                     // NOLINT: the vector, or every block
  Counts(std::vector<std::size_t> of_blocks) : blocks(std::move(of_blocks)) {}  // NOLINT: see `blocks`
  std::size_t uniform = 0;
  /// If not empty: block r; of an alltoall, number i * n + j is what rank i has for rank j.
  std::vector<std::size_t> blocks;
};

/// Success, or the first broken property with rank, step and range. invalid_argument: the counts do not fit the plans.
/// Quadratic in the steps of a rank: for tests and tools. unsupported: more than `limit`, if there is one.
Result<CheckReport> check_plans(std::span<const Plan> plans, const Counts& counts, ReduceOp op,
                                WorkLimit* limit = nullptr);

/// Property 5 of one plan, for plans that were read from somewhere: afterwards it may be bound, run and printed.
Status check_plan(const Plan& plan, ReduceOp op);

}  // namespace fabring
