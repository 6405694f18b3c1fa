#include "topology/process_facts.hpp"

#include <algorithm>
#include <iterator>

#include "topology/cpu_quota.hpp"
#include "topology/cpus.hpp"
#include "topology/host_files.hpp"
#include "topology/host_identity.hpp"

namespace fabring {

void add_process_facts(Topology& topology, const std::filesystem::path& root) {
  if (topology.host.empty()) topology.host = host_name();
  const std::vector<int> affinity = affinity_cpus();
  std::vector<int> allowed;
  std::set_intersection(topology.allowed_cpus.begin(), topology.allowed_cpus.end(), affinity.begin(), affinity.end(),
                        std::back_inserter(allowed));
  if (!allowed.empty()) topology.allowed_cpus = std::move(allowed);
  const std::string groups = HostFiles(root).text("proc/self/cgroup").value_or("");
  topology.cpu_quota = tightest(cpu_quotas(groups, root / "sys/fs/cgroup"));
}

}  // namespace fabring
