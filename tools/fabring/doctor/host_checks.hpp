#pragma once
// The checks of `doctor host`, a family to a file. Each is a pure function of the facts: it asks the system nothing.

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/host_facts.hpp"

namespace fabring::tools {

Findings check_environment(const HostFacts& facts);  ///< FABRING_*, FI_*, NCCL_*, launchers that disagree
Findings check_limits(const HostFacts& facts);       ///< memlock, nofile, nproc, pids
Findings check_memory(const HostFacts& facts);       ///< /dev/shm and leftovers, huge pages, free memory
Findings check_processors(const HostFacts& facts);   ///< quota, binding, NUMA against NIC
Findings check_cards(const HostFacts& facts);        ///< NICs: state, speed, MTU, errors, PCI link
Findings check_network(const HostFacts& facts);      ///< which interface and why, kernel settings, ports
Findings check_names(const HostFacts& facts);        ///< own name, the master's
Findings check_fabric(const HostFacts& facts);       ///< transports, providers, why not EFA
Findings check_forks(const HostFacts& facts);        ///< may ranks on EFA fork
Findings check_gpus(const HostFacts& facts);         ///< peer memory, dmabuf, GDRCopy, IOMMU, ACS
Findings check_container(const HostFacts& facts);    ///< devices and capabilities that were not asked for
Findings check_clock(const HostFacts& facts);        ///< synchronised, fast to read

/// All of them, in this order.
Findings check_host(const HostFacts& facts);

/// One line: "host vm, Linux 6.1, 2 of 2 processors, 0 GPUs, 1 NIC, container".
std::string host_subject(const HostFacts& facts);

/// The topology, or null when there is none.
const Topology* known_topology(const HostFacts& facts);

/// "docker", "podman", "kubernetes", "systemd-nspawn", ...; empty: no container, as far as can be seen.
std::string container_kind(const HostFacts& facts);

/// Did a launcher start this process in the place of a rank?
bool runs_as_rank(const HostFacts& facts);

// Short ways to write a finding.
Finding fine(std::string id, std::string what, std::string where = {});
Finding note(std::string id, std::string what, std::string where = {});
Finding unchecked(std::string id, std::string what, std::string fix = {});

}  // namespace fabring::tools
