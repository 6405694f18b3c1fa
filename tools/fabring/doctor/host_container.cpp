// What a container was not given.

#include <fmt/format.h>

#include <charconv>

#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tools {

std::string container_kind(const HostFacts& facts) {
  if (facts.environment.count("KUBERNETES_SERVICE_HOST") > 0 || facts.files.exists("var/run/secrets/kubernetes.io"))
    return "kubernetes";
  if (facts.files.exists(".dockerenv")) return "docker";
  if (facts.files.exists("run/.containerenv")) return "podman";
  const std::string groups = facts.files.text("proc/1/cgroup").value_or("");
  for (const auto& [mark, kind] :
       {std::pair{"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"lxc", "lxc"}})
    if (groups.find(mark) != std::string::npos) return kind;
  if (const auto at = facts.environment.find("container"); at != facts.environment.end() && !at->second.empty())
    return at->second;
  return {};
}

Findings check_container(const HostFacts& facts) {
  const std::string kind = container_kind(facts);
  if (kind.empty()) return {};
  Findings found{note("container.kind", "this is a container (" + kind + ")")};
  bool rdma = false;
  if (const Topology* topology = known_topology(facts))
    for (const Nic& nic : topology->nics) rdma = rdma || nic.kind == NicKind::efa || nic.kind == NicKind::infiniband;
  if (!rdma) return found;
  constexpr int ipc_lock = 14;
  const std::string status = facts.files.text("proc/self/status").value_or("");
  const std::size_t at = status.find("CapEff:");
  const auto cells =
      at == std::string::npos ? std::vector<std::string>{} : words(std::string_view(status).substr(at + 7, 32));
  std::uint64_t set = 0;
  if (cells.empty() || std::from_chars(cells[0].data(), cells[0].data() + cells[0].size(), set, 16).ec != std::errc{}) {
    found.push_back(
        unchecked("container.ipc_lock", "the capabilities of this process: /proc/self/status does not say"));
  } else if ((set >> ipc_lock & 1) == 0) {
    found.push_back(
        {"container.ipc_lock",
         Severity::warning,
         "the container lacks the capability IPC_LOCK, and there is an RDMA card",
         "registering memory is then held to the limit on locked memory",
         "docker --cap-add IPC_LOCK --ulimit memlock=-1; Kubernetes securityContext.capabilities.add: [IPC_LOCK]",
         {}});
  } else {
    found.push_back(fine("container.ipc_lock", "the container has IPC_LOCK"));
  }
  return found;
}

}  // namespace fabring::tools
