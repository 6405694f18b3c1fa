#pragma once
// A slow, obviously right executor of plans: every element is the text of what was computed ("((0+1)+2)"), steps run
// one at a time in a random order that the dependencies allow. It shares no code with the plan check, and judges it.

#include <cstdint>
#include <span>
#include <string>

#include "collectives/plan.hpp"

namespace fabring::test {

/// Empty if every rank ends with the same text in every element, naming every rank's element once; else what is wrong.
std::string run_oracle(std::span<const Plan> plans, std::size_t count, bool in_place, bool avg, std::uint64_t seed);

}  // namespace fabring::test
