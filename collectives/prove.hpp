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
  CheckReport report;               ///< of the check at the last of `counts` alone
  std::vector<std::size_t> counts;  ///< ascending; of the vector or of each block
  bool at_every_count = false;      ///< not at these alone (every_count.hpp); false: too much to prove
  OperandOrder order;               ///< in all checks
};

/// Around the number of ranks, primes, around 2^20; and all remainders of the period there and near 0, where that is
/// little work. A barrier, which moves nothing: 0 alone.
std::vector<std::size_t> counts_to_prove(std::span<const Plan> plans);

/// Errors: as check_plans(), with a count that breaks. The counts above are looked at one by one, all others where that
/// is not too much. Both are bounded by WorkLimit::for_files.
Result<Proof> prove_plans(std::span<const Plan> plans, ReduceOp op);

/// At this count alone. Errors: as check_plans().
Result<Proof> prove_plans_at(std::span<const Plan> plans, std::size_t count, ReduceOp op, WorkLimit* limit = nullptr);

}  // namespace fabring
