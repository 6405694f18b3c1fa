// What a container was not given.

#include <fmt/format.h>

#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/lock_right.hpp"

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
  const std::string id = "container.ipc_lock";
  const std::string why = "registering memory is then held to the limit on locked memory";
  switch (lock_right(facts.files)) {
    case LockRight::unknown:
      found.push_back(unchecked(id, "the capabilities of this process: /proc/self/status does not say"));
      break;
    case LockRight::none:
      found.push_back({id,
                       Severity::warning,
                       "the container lacks the capability IPC_LOCK, and there is an RDMA card",
                       why,
                       "docker --cap-add IPC_LOCK --ulimit memlock=-1; Kubernetes "
                       "securityContext.capabilities.add: [IPC_LOCK], of a container that runs as root",
                       {}});
      break;
    case LockRight::namespaced:
      found.push_back({id,
                       Severity::warning,
                       "the container has the capability IPC_LOCK only in a user namespace of its own, and there is an "
                       "RDMA card",
                       why,
                       "run it without a user namespace (docker --userns=host, podman as root, Kubernetes hostUsers: "
                       "true), or with an unlimited limit (limits.memlock)",
                       {}});
      break;
    case LockRight::whole:
      found.push_back(fine(id, "the container has IPC_LOCK"));
  }
  return found;
}

}  // namespace fabring::tools
