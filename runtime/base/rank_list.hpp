#pragma once
// Ranks and times as people read them in an error.

#include <chrono>
#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

/// "rank 3", "ranks 3 and 5", "ranks 1-4, 7 and 9", "ranks 1, 3, 5, 7, 9, 11, ... (100 ranks)". Sorted input.
std::string rank_list(const std::vector<Rank>& ranks);

/// "250 ms", "5 s", "12.5 s".
std::string duration_text(std::chrono::nanoseconds duration);

}  // namespace fabring
