// Processors: how many, how much of them, and how far from the network card.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/bootstrap/launchers.hpp"
#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/topo/topo_report.hpp"
#include "topology/placement.hpp"

namespace fabring::tools {
namespace {

std::optional<int> local_ranks(const Environment& environment) {
  for (const Launcher& launcher : launchers())
    if (const auto at = environment.find(launcher.local_size); at != environment.end())
      if (const int ranks = std::atoi(at->second.c_str()); ranks > 0) return ranks;
  return std::nullopt;
}

Finding quota(const HostFacts& facts, const Topology& topology) {
  const std::string id = "processors.quota";
  const auto allowed = static_cast<double>(topology.allowed_cpus.size());
  if (!topology.cpu_quota) return fine(id, "no limit on processor time");
  const std::string what = fmt::format("the control group grants the time of {:g} processors, and {} can be seen",
                                       *topology.cpu_quota, topology.allowed_cpus.size());
  if (*topology.cpu_quota >= allowed) return fine(id, what);
  return {
      id,
      Severity::warning,
      what,
      "threads that poll use the time up, and then all of them stop until the next period (usually 100 ms): latency of "
      "milliseconds that no network explains",
      container_kind(facts).empty() ? "systemctl set-property UNIT CPUQuota="
                                    : "raise the container's CPU limit (docker --cpus, Kubernetes "
                                      "resources.limits.cpu) or give it whole processors (--cpuset-cpus)",
      {}};
}

Finding binding(const HostFacts& facts, const Topology& topology) {
  const std::string id = "processors.binding";
  const std::size_t allowed = topology.allowed_cpus.size();
  const std::string what = fmt::format("{} of {} processors may be used ({})", allowed, topology.cpus.size(),
                                       cpu_ranges(topology.allowed_cpus));
  const auto ranks = local_ranks(facts.environment);
  const auto more_than = [&](std::size_t processors) { return ranks && static_cast<std::size_t>(*ranks) > processors; };
  if (more_than(topology.cpus.size()))
    return {
        id,
        Severity::warning,
        fmt::format("{}, and {} ranks are to run here", what, *ranks),
        "ranks that share a processor wait for each other's turns; Fabring yields between polls then, and is slower",
        "start fewer ranks, or give them more processors (taskset, srun --cpus-per-task, --cpuset-cpus)",
        {}};
  if (allowed == 1 && topology.cpus.size() > 1)
    return {id,
            Severity::warning,
            what,
            "the program and Fabring's progress thread take turns on one processor",
            "bind to two or more (taskset -c 0-3, srun --cpus-per-task, fabring run --bind numa)",
            {}};
  // A launcher binds each rank to processors of its own, a container holds all ranks to the same.
  if (more_than(allowed))
    return note(id, fmt::format("{}; {} ranks are to run on this host, and whether they share these cannot be seen",
                                what, *ranks));
  return fine(id, what);
}

Finding numa_and_card(const Topology& topology) {
  const std::string id = "processors.numa";
  if (topology.numa.size() < 2) return fine(id, "one NUMA node: every card is near");
  const int node = numa_of(topology, topology.allowed_cpus);
  if (node < 0)
    return fine(id, fmt::format("processors of several of the {} NUMA nodes may be used", topology.numa.size()));
  std::vector<std::string> far;
  for (const std::size_t index : data_nics(topology)) {
    const Nic& nic = topology.nics[index];
    if (nic.place.numa == node)
      return fine(id, fmt::format("processors and {} are on NUMA node {}", nic.label(), node));
    if (nic.place.numa >= 0) far.push_back(fmt::format("{} on node {}", nic.label(), nic.place.numa));
  }
  if (far.empty()) return unchecked(id, "the machine does not say on which NUMA node its cards are");
  return {id,
          Severity::warning,
          fmt::format("the processors that may be used are on NUMA node {}, but {}", node, fmt::join(far, ", ")),
          "every byte crosses between the packages: less bandwidth, more latency, and the other package's memory is "
          "disturbed",
          "bind to the node of the card (numactl -N, srun --cpu-bind, --cpuset-cpus)",
          {}};
}

}  // namespace

Findings check_processors(const HostFacts& facts) {
  const Topology* topology = known_topology(facts);
  if (topology == nullptr) {
    const std::string why = facts.topology ? facts.topology->error().message() : "hwloc did not answer in time";
    return {unchecked("processors.quota", "processors and cards: " + why)};
  }
  return {quota(facts, *topology), binding(facts, *topology), numa_and_card(*topology)};
}

}  // namespace fabring::tools
