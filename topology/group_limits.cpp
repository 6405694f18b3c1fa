#include "topology/group_limits.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "topology/control_groups.hpp"

namespace fabring {
namespace {

struct Group {
  std::string path;  // below the root, without a leading slash
  bool v2 = false;
};

std::vector<Group> groups_of(const HostFiles& files, std::string_view controller) {
  const std::filesystem::path mount = "sys/fs/cgroup";
  std::vector<Group> groups;
  for (const ControlGroup& group : control_groups(files.text("proc/self/cgroup").value_or(""), controller))
    groups.push_back({group.folder.empty() ? mount.string() : (mount / group.folder).string(), group.v2});
  return groups;
}

// "inactive_file 4096", a row each.
std::uint64_t row(std::string_view table, std::string_view name) {
  while (!table.empty()) {
    const std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + name.size() + 1, line.data() + line.size(), value);
    return value;
  }
  return 0;
}

// What the kernel takes back when memory runs out: files, and what it remembers of them. What lies in a tmpfs counts as
// neither.
std::uint64_t reclaimable(const std::string& stat, bool v2) {
  if (v2) return row(stat, "active_file") + row(stat, "inactive_file") + row(stat, "slab_reclaimable");
  return row(stat, "total_active_file") + row(stat, "total_inactive_file");
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const HostFiles& files) {
  std::vector<MemoryLimit> limits;
  for (const Group& group : groups_of(files, "memory")) {
    const std::string file = group.path + (group.v2 ? "/memory.max" : "/memory.limit_in_bytes");
    const auto most = files.number(file);
    const auto used = files.number(group.path + (group.v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!most || !used || *most <= 0 || *used < 0) continue;
    const auto total = static_cast<std::uint64_t>(*most), in_use = static_cast<std::uint64_t>(*used);
    const std::uint64_t kept = reclaimable(files.text(group.path + "/memory.stat").value_or(""), group.v2);
    const std::uint64_t held = in_use - std::min(in_use, kept);
    limits.push_back({"/" + group.path, total, total - std::min(total, held), "/" + file});
  }
  return limits;
}

std::optional<TaskLimit> task_limit(const HostFiles& files) {
  std::optional<TaskLimit> least;
  for (const Group& group : groups_of(files, "pids"))
    if (const auto most = files.number(group.path + "/pids.max"); most && (!least || *most < least->most))
      least = TaskLimit{"/" + group.path, *most};
  return least;
}

}  // namespace fabring
