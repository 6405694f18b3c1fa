#pragma once
// prove_every_count: what check_plans() shows at one count, shown at all of them. A check notes what it found out about
// the order of bounds (check/path_condition.hpp); every other count at which that holds is proved with it. One at which
// none of the checks so far holds gets its own: of most plans there are few.

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/check.hpp"
#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// The counts after which bounds of ranges repeat: they are linear in k at k x period + r, for each r below it. It is
/// the least common multiple of the products of parts down to each range; 0 if that is more than `most`.
std::uint64_t period_of_bounds(std::span<const Plan> plans, std::uint64_t most);

struct EveryCount {
  bool proved = false;  ///< false: too much to prove; nothing that is wrong was found
  std::size_t checks = 0;
  OperandOrder order;  ///< in all of them
};

/// Errors: as check_plans(), with a count that breaks. `proved` is false where it would take too long: bounded by
/// WorkLimit::for_files. Not for barriers, which have no count.
Result<EveryCount> prove_every_count(std::span<const Plan> plans, ReduceOp op);

/// `error`, with the count of elements before it.
Status with_count(std::size_t count, const Status& error);

}  // namespace fabring
