#pragma once
// run_own_ranks(): a subcommand with -n starts its ranks on this host itself: this program again, with the same words
// but -n and --split-nodes; or as threads of this process.

#include <functional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"

namespace fabring::tools {

/// Would ranks that are started here take the settings of this environment? Asked before they start, it is answered
/// once and not by each of them. Errors: as resolve_config().
Status check_settings_of_ranks(int ranks);

/// `arguments` as typed, `name` for messages; `nodes`: on how many the ranks pretend to be (--split-nodes). The exit
/// code of the job. Errors: unavailable.
Result<int> run_own_ranks(const std::vector<std::string>& arguments, int ranks, const std::string& name, int nodes = 1);

/// The same in threads of this process (FABRING_TRANSPORT=inproc): `rank` gets the environment that names it and gives
/// its exit code.
Result<int> run_own_ranks_as_threads(const std::function<int(const Environment& environment)>& rank, int ranks,
                                     const std::string& name, int nodes = 1);

}  // namespace fabring::tools
