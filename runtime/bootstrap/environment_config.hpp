#pragma once
// Config from an environment: the settings table and the launch environment together, with where each value came from.

#include <map>
#include <string>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "runtime/bootstrap/launch_environment.hpp"

namespace fabring {

struct ResolvedConfig {
  Config config;
  /// "environment FABRING_X", "torchrun RANK", ... by setting; a setting that is not here has its default.
  std::map<std::string, std::string, std::less<>> sources;
  /// Why no rank could be told; success otherwise.
  Status launch;
};

/// Errors: a bad or unknown FABRING_* variable. A missing rank is not one here: see ResolvedConfig::launch.
Result<ResolvedConfig> resolve_config(const Environment& environment, const LaunchFacts& facts);

/// Looks among this process's ancestors for a launcher that gives its ranks no identity (Hydra's proxy).
LaunchFacts launch_facts();

}  // namespace fabring
