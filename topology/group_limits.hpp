#pragma once
// What the control groups of this process allow: its own (a Slurm step's, a service's, a container's) and those around
// it, of v1 and v2.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/host_files.hpp"

namespace fabring {

struct MemoryLimit {
  std::string group;  ///< "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
  std::uint64_t total_bytes = 0;
  /// What is not in use, and what is only kept of files (page cache): the kernel gives that up before it kills.
  std::uint64_t free_bytes = 0;
  std::string file = {};  ///< that says so
};

/// Of each group that limits memory, the own first.
std::vector<MemoryLimit> memory_limits(const HostFiles& files);

struct TaskLimit {
  std::string group;
  long long most = 0;
};

/// Of the group that allows the fewest processes and threads; nothing: none limits them.
std::optional<TaskLimit> task_limit(const HostFiles& files);

}  // namespace fabring
