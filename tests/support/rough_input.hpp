#pragma once
// Inputs whose sums round at nearly every step: they tell one order of additions from another.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabring/types.hpp"

namespace fabring::fixture {

/// Floats of mixed sizes, the sums of which round: for comparing the bits of ranks. Floating-point types only.
std::vector<std::byte> rough_input(DataType type, int rank, std::size_t count, std::uint64_t salt);

}  // namespace fabring::fixture
