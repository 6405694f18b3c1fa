#pragma once
// How much memory this process may still take before the kernel kills somebody for it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "topology/host_files.hpp"

namespace fabring {

/// A row of /proc/meminfo in bytes (or a count, where it has no unit); nothing: there is none.
std::optional<std::uint64_t> meminfo(std::string_view table, std::string_view row);

struct MemoryLeft {
  std::uint64_t bytes = 0;
  std::string told_by;  ///< "MemAvailable in /proc/meminfo", "/sys/fs/cgroup/job_7/memory.max"
};

/// Of the host, or of the control group that allows least. What is kept of files counts as left, swap does not.
/// Nothing: none of them says.
std::optional<MemoryLeft> memory_left(const HostFiles& files);

}  // namespace fabring
