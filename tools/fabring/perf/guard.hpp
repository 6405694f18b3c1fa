#pragma once
// The guard: a collective must not take longer than what the others offer for the same (allreduce: a reduce and a
// broadcast). Which compositions, and when one counts as beaten; measuring is perf_guard.cpp's.

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "fabring/operation.hpp"
#include "fabring/status.hpp"

namespace fabring::tools {

struct GuardPair {
  std::string_view collective;         ///< "allreduce"
  std::string_view composition;        ///< "reduce + broadcast"
  std::vector<Operation> operations;   ///< the one call
  std::vector<Operation> composed_of;  ///< in this order
};

/// Memory for one size: guard_elements() each, none overlapping.
struct GuardBuffers {
  std::byte* in = nullptr;
  std::byte* middle = nullptr;
  std::byte* out = nullptr;
};

/// Elements of a vector of `bytes` that divides into blocks for all ranks; 1 or more for each.
std::size_t guard_elements(std::size_t bytes, DataType type, int ranks);

/// All pairs at one size; the barrier's has none and is only there `with_barrier`. Sums, root 0.
std::vector<GuardPair> guard_pairs(const GuardBuffers& buffers, std::size_t elements, DataType type, Rank rank,
                                   int ranks, bool with_barrier);

/// Times of repetitions; of any unit, the same for both.
struct GuardTimes {
  std::vector<double> one;
  std::vector<double> composed;
};

struct GuardVerdict {
  double one = 0;       ///< median
  double composed = 0;  ///< median
  int attempts = 0;     ///< measurements it took
  bool slow = false;
  double ratio() const { return composed > 0 ? one / composed : 0; }
};

/// Measures, and as long as the collective's median is more than `margin` times the composition's, again: a busy
/// machine slows one of them down now and then, a wrong choice of algorithm every time. The verdict has the attempt
/// that was the best for the collective. Errors: those of `measure`.
Result<GuardVerdict> guard_verdict(const std::function<Result<GuardTimes>()>& measure, double margin, int attempts = 3);

}  // namespace fabring::tools
