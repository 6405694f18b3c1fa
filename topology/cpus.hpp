#pragma once
// Which processors this process may use, and what lies around one: the cache next to memory, its NUMA node.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fabring {

/// Numbers of the processors in the affinity mask, ascending.
std::vector<int> affinity_cpus();

/// How many of them the quotas of its control groups let it keep busy: never less than 1; a quota of 1.5 CPUs is 1.
int allowed_cpus();

/// "0-3,8" as numbers, ascending and below 65536; empty when malformed. For /sys/devices/system/node/nodeN/cpulist, and
/// what other ranks say of themselves.
std::vector<int> parse_cpu_list(std::string_view text);

/// The other way: {0, 1, 2, 3, 8} as "0-3,8".
std::string show_cpu_list(const std::vector<int>& cpus);

/// The cache of a processor that is next to memory, and how many processors share it.
struct LastCache {
  std::size_t bytes = 0;  ///< 0: not known
  int cpus = 1;
};
/// Of this processor, as /sys tells. `root` is where its folder of processors is.
LastCache last_cache(int cpu, const std::filesystem::path& root = "/sys/devices/system/cpu");

/// What a rank has of it where `ranks` of a host run on `cpus` processors; 0: not known.
std::size_t share_of_cache(const LastCache& cache, int ranks, int cpus);

/// Processors of each NUMA node with processors, as /sys tells; one node with all if it tells nothing.
std::vector<std::vector<int>> numa_nodes();

}  // namespace fabring
