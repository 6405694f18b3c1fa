#include "tools/fabring/launch/core_binding.hpp"

#include <algorithm>

namespace fabring::tools {

std::vector<std::vector<int>> core_bindings(Binding binding, int ranks, const std::vector<int>& allowed,
                                            const std::vector<std::vector<int>>& numa) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<int>> result(count);
  if (binding == Binding::core && allowed.size() >= count) {
    // Neighbouring ranks talk most: each gets its share of neighbouring processors. With more ranks than processors
    // binding would only forbid the kernel to spread them.
    for (std::size_t rank = 0; rank < count; ++rank)
      result[rank].assign(allowed.begin() + static_cast<std::ptrdiff_t>(rank * allowed.size() / count),
                          allowed.begin() + static_cast<std::ptrdiff_t>((rank + 1) * allowed.size() / count));
  }
  if (binding == Binding::numa) {
    std::vector<std::vector<int>> usable;
    for (const std::vector<int>& node : numa) {
      std::vector<int> cpus;
      for (int cpu : node)
        if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end()) cpus.push_back(cpu);
      if (!cpus.empty()) usable.push_back(std::move(cpus));
    }
    if (usable.size() > 1)
      for (std::size_t rank = 0; rank < count; ++rank)
        result[rank] = usable[rank * usable.size() / count % usable.size()];
  }
  return result;
}

}  // namespace fabring::tools
