#pragma once
// How many processors this process may use: its affinity mask, and the quota of its control group (a container limited
// to two CPUs still sees all of the host's). Waiting strategies depend on it. And what lies around a processor: the
// cache next to memory, its NUMA node.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fabring {

/// Never less than 1; a quota of 1.5 CPUs counts as 2.
int allowed_cpus();

/// Numbers of the processors in the affinity mask, ascending.
std::vector<int> affinity_cpus();

/// cgroup v2 "cpu.max": "200000 100000" is 2.0; "max 100000" and anything else is no limit.
std::optional<double> parse_cpu_max(std::string_view text);

/// The tightest quota on the way from this process's control group up to the root. `cgroup_file` is the text of
/// /proc/self/cgroup, `root` where the control groups are mounted. Both v2 (cpu.max) and v1 (cpu.cfs_quota_us).
std::optional<double> cpu_quota(std::string_view cgroup_file, const std::filesystem::path& root);

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
