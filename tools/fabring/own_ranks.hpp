#pragma once
// OwnRanks: a subcommand with -n starts its ranks on this host itself: this program again, with the same words but -n
// and --split-nodes.

#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

/// `arguments` as typed, `name` for messages; `nodes`: on how many the ranks pretend to be (--split-nodes). The exit
/// code of the job. Errors: unavailable.
Result<int> run_own_ranks(const std::vector<std::string>& arguments, int ranks, const std::string& name, int nodes = 1);

}  // namespace fabring::tools
