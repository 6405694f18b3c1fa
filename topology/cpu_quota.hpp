#pragma once
// How much processor time control groups grant: a container limited to two CPUs still sees all of the host's.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fabring {

/// What a control group grants all that runs in it together.
struct CpuQuota {
  /// Which group: device and inode of its folder, the same in all containers of a kernel, whatever paths they see.
  std::string group;
  std::uint32_t millicpus = 0;  ///< processors' worth of time, in thousandths; 1 at least

  bool operator==(const CpuQuota&) const = default;
};

/// cgroup v2 "cpu.max": "200000 100000" is 2.0; "max 100000" and anything else is no limit.
std::optional<double> parse_cpu_max(std::string_view text);

/// Those on the way from this process's control group up to the root, the own group's first. `cgroup_file` is the text
/// of /proc/self/cgroup, `root` where the control groups are mounted. Both v2 (cpu.max) and v1 (cpu.cfs_quota_us).
std::vector<CpuQuota> cpu_quotas(std::string_view cgroup_file, const std::filesystem::path& root);

/// This process's.
std::vector<CpuQuota> own_cpu_quotas();

/// The tightest, in processors; nothing: no limit.
std::optional<double> tightest(const std::vector<CpuQuota>& quotas);

}  // namespace fabring
