#pragma once
// OwnRanks: a subcommand with -n starts its ranks on this host itself: this program again, with the same words but -n.

#include <string>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

/// `arguments` as typed, `name` for messages. The exit code of the job. Errors: unavailable.
Result<int> run_own_ranks(const std::vector<std::string>& arguments, int ranks, const std::string& name);

}  // namespace fabring::tools
