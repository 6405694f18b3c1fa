#pragma once
// What this process may use of its host: affinity mask and quota; and the host's name where hwloc does not know it.

#include <filesystem>

#include "topology/topology.hpp"

namespace fabring {

/// Cuts allowed_cpus down to the affinity mask, and fills cpu_quota and an empty host. `root` is where /proc and /sys
/// are.
void add_process_facts(Topology& topology, const std::filesystem::path& root);

}  // namespace fabring
