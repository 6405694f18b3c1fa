#pragma once
// Where the limits of this process's control groups lie: those of its own group, and of each around it.

#include <filesystem>
#include <string_view>
#include <vector>

namespace fabring {

struct ControlGroup {
  std::filesystem::path folder;  ///< below where the control groups are mounted; empty: that folder itself
  bool v2 = false;
};

/// The process's own group first, then those around it. `cgroup_file` is the text of /proc/self/cgroup; `controller`
/// ("memory") chooses the line of v1, where each has a hierarchy of its own. Pure: a folder may not exist.
std::vector<ControlGroup> control_groups(std::string_view cgroup_file, std::string_view controller);

}  // namespace fabring
