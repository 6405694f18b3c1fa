#include "runtime/startup/home_core.hpp"

#include <cstddef>

#include "runtime/startup/core_share.hpp"
#include "topology/cpus.hpp"

namespace fabring {

int home_core(const std::vector<Identity>& ranks, Rank self) {
  const Identity& own = ranks[self];
  const std::vector<int> cpus = parse_cpu_list(own.cpus);
  std::size_t beside = 0, before = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!share_processors(own, ranks[rank])) continue;
    if (ranks[rank].cpus != own.cpus) return -1;
    if (rank < static_cast<std::size_t>(self)) ++before;
    ++beside;
  }
  if (cpus.empty() || beside <= cpus.size()) return -1;
  const std::size_t behind = beside - 1 - before;
  return cpus[cpus.size() - 1 - behind * cpus.size() / beside];
}

}  // namespace fabring
