#include "topology/control_groups.hpp"

namespace fabring {
namespace {

constexpr int most_levels = 64;

bool names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == controller) return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view cgroup_file, std::string_view controller) {
  std::vector<ControlGroup> groups;
  while (!cgroup_file.empty()) {
    const std::size_t end = cgroup_file.find('\n');
    const std::string_view line = cgroup_file.substr(0, end);
    cgroup_file.remove_prefix(end == std::string_view::npos ? cgroup_file.size() : end + 1);
    // hierarchy-id ":" controllers ":" path; id 0 without controllers is v2
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !names(controllers, controller)) continue;
    const std::filesystem::path mount = v2 ? std::filesystem::path() : std::filesystem::path(controller);
    std::filesystem::path inside = std::filesystem::path(line.substr(second + 1)).relative_path().lexically_normal();
    // In a container the path may be the host's and not exist here; the root of the mount is then the container's own.
    if (!inside.empty() && (*inside.begin() == ".." || inside == ".")) inside.clear();
    for (int level = 0; level < most_levels; ++level) {
      groups.push_back({inside.empty() ? mount : mount / inside, v2});
      if (inside.empty()) break;
      inside = inside.parent_path();
    }
  }
  return groups;
}

}  // namespace fabring
