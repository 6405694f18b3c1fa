#pragma once
// prove_plans: check_plans() at many element counts. Plans may be right at one count and wrong at the next: the second
// half of a vector and the last two of its quarters are the same 2^20 elements, and are not the same 2^20 + 2.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/check.hpp"

namespace fabring {

struct Proof {
  CheckReport report;
  std::vector<std::size_t> counts;  ///< ascending; of the vector or of each block
  /// Not at these counts alone: both ends of every message, and all operands of every step, are of one length.
  bool lengths_at_every_count = false;
  bool in_rank_order = true, in_one_step = true;  ///< CheckReport's at every count
};

/// The counts after which bounds of ranges repeat: they are linear in k at k x period + r, for each r below it. It is
/// the least common multiple of the products of parts down to each range; 0 if that is more than `most`.
std::uint64_t period_of_bounds(std::span<const Plan> plans, std::uint64_t most);

/// Around the number of ranks, primes, around 2^20; and all remainders of the period there and near 0, where that is
/// little work. A barrier, which moves nothing: 0 alone.
std::vector<std::size_t> counts_to_prove(std::span<const Plan> plans);

/// Errors: as check_plans(), with the count that breaks. Lengths are proved at every count, if the period is not too
/// long for that: who runs plans copies and reduces as much as they say. All together are bounded by
/// WorkLimit::for_files.
Result<Proof> prove_plans(std::span<const Plan> plans, ReduceOp op);

}  // namespace fabring
