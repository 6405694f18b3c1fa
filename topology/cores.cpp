#include "topology/cores.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/cpus.hpp"

namespace fabring {

std::vector<std::vector<int>> cores_of(const std::vector<int>& cpus, const std::vector<std::vector<int>>& numa,
                                       const HostFiles& files) {
  std::map<int, std::size_t> node_of;
  for (std::size_t node = 0; node < numa.size(); ++node)
    for (const int cpu : numa[node]) node_of.emplace(cpu, node);
  // Package, node, and the core by its first thread, whether that may be used or not.
  std::map<std::tuple<long long, std::size_t, int>, std::vector<int>> cores;
  for (const int cpu : cpus) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::vector<int> threads = parse_cpu_list(files.line(folder + "thread_siblings_list").value_or(""));
    const long long package = files.number(folder + "physical_package_id").value_or(0);
    const auto node = node_of.find(cpu);
    cores[{package, node == node_of.end() ? 0 : node->second, threads.empty() ? cpu : threads.front()}].push_back(cpu);
  }
  std::vector<std::vector<int>> found;
  for (auto& [place, threads] : cores) found.push_back(std::move(threads));
  return found;
}

}  // namespace fabring
