#pragma once
// A slow, obviously right executor of plans: every element is the text of what was computed ("((r0e5+r1e5)+r2e5)"),
// steps run one at a time in a random order that the dependencies allow. It shares no code with the plan check, and
// judges it.

#include <cstdint>
#include <span>
#include <string>

#include "collectives/check.hpp"
#include "collectives/plan.hpp"

namespace fabring::test {

/// Empty if every rank ends with what its collective owes it: reductions with every rank's element once, the same text
/// wherever it is, or the very element of the very rank; a barrier with word of everybody. Else what is wrong.
std::string run_oracle(std::span<const Plan> plans, const Counts& counts, bool in_place, bool avg, std::uint64_t seed);

}  // namespace fabring::test
