#pragma once
// Which rank is on which node, from the words of a command line.

#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

inline constexpr int most_planned_ranks = 4096;  ///< the proof is quadratic

/// Node of each rank. `nodes`: "2,2,1" (ranks of each), "2" (so many nodes, filled in blocks), or empty (one node);
/// `ranks`: 0 where the list says it. At most most_planned_ranks. Errors:
/// invalid_argument.
Result<std::vector<int>> node_layout(const std::string& nodes, int ranks);

}  // namespace fabring::tools
