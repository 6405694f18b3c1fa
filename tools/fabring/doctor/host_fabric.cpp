// Transports and libfabric's providers: which would be taken, and why not EFA.

#include <fmt/format.h>

#include <algorithm>

#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tools {
namespace {

// EC2 instance types with EFA and how many cards they can have; from the vendor's tables of instance types.
struct Instance {
  std::string_view type;
  int cards;
};
constexpr Instance instances[] = {
    {"p3dn.24xlarge", 1},  {"p4d.24xlarge", 4},   {"p4de.24xlarge", 4},   {"p5.48xlarge", 32}, {"p5e.48xlarge", 32},
    {"p5en.48xlarge", 16}, {"trn1.32xlarge", 8},  {"trn1n.32xlarge", 16}, {"g5.48xlarge", 1},  {"c5n.18xlarge", 1},
    {"hpc6a.48xlarge", 1}, {"hpc7a.96xlarge", 2}, {"hpc7g.16xlarge", 1}};

int efa_cards(const HostFacts& facts) {
  int cards = 0;
  if (const Topology* topology = known_topology(facts))
    for (const Nic& nic : topology->nics) cards += nic.kind == NicKind::efa ? 1 : 0;
  return cards;
}

bool takes_efa(const TransportFacts& fabric) { return fabric.reason.starts_with("provider efa"); }

Findings efa(const HostFacts& facts, const TransportFacts* fabric) {
  const std::string id = "fabric.efa";
  const int cards = efa_cards(facts);
  Findings found;
  if (facts.files.line("sys/class/dmi/id/sys_vendor") == "Amazon EC2") {
    const std::string type = facts.files.line("sys/class/dmi/id/product_name").value_or("");
    const auto instance =
        std::find_if(std::begin(instances), std::end(instances), [&](const Instance& one) { return one.type == type; });
    if (instance != std::end(instances) && cards < instance->cards)
      found.push_back(
          {"fabric.efa_cards",
           Severity::warning,
           fmt::format("{} of the {} EFA cards that a {} can have are attached", cards, instance->cards, type),
           "without EFA collectives run over TCP, several times slower; with fewer cards, at a fraction of the "
           "bandwidth",
           "launch with network interfaces of type efa (or efa-only), one for each network card index, in a cluster "
           "placement group",
           {}});
  }
  if (cards == 0) {
    found.push_back(note(id, "no EFA card in this host; TCP is what there is"));
    return found;
  }
  if (fabric == nullptr) return found;
  if (takes_efa(*fabric)) {
    found.push_back(fine(id, fmt::format("{} EFA card{}, and libfabric offers them", cards, cards == 1 ? "" : "s")));
    return found;
  }
  const bool driver = !facts.files.list("sys/class/infiniband").empty();
  const bool device = !facts.files.list("dev/infiniband").empty();
  const bool contained = !container_kind(facts).empty();
  std::string why = "libfabric does not offer it",
              fix =
                  "fi_info -p efa says more; install the EFA software (rdma-core with libefa, libfabric 1.22 or newer)";
  if (!driver)
    why = "the kernel's efa driver has no device", fix = "modprobe efa; install the EFA driver (dmesg | grep efa)";
  else if (!device && contained)
    why = "this container has no /dev/infiniband",
    fix =
        "request it: resources.limits 'vpc.amazonaws.com/efa: N' in Kubernetes (with the EFA device plugin), --device "
        "/dev/infiniband with docker";
  else if (!device)
    why = "there is no /dev/infiniband", fix = "modprobe ib_uverbs";
  found.push_back({id,
                   Severity::critical,
                   fmt::format("this host has {} EFA card{}, but {}", cards, cards == 1 ? "" : "s", why),
                   "jobs fall back to TCP, several times slower, or do not start if other hosts have EFA",
                   fix,
                   {}});
  return found;
}

Finding shared_memory(const TransportFacts& shm) {
  if (shm.usable) return fine("fabric.shm", "the ranks of this host share memory: " + shm.reason);
  return {"fabric.shm",
          Severity::warning,
          "the ranks of this host cannot share memory: " + shm.reason,
          "they use the network instead, several times slower",
          "allow memfd_create and abstract unix sockets (a container's seccomp profile may forbid them), or raise "
          "ulimit -n",
          {}};
}

}  // namespace

Findings check_fabric(const HostFacts& facts) {
  if (!facts.transports)
    return {unchecked("fabric.transport", "libfabric did not answer in time which providers it has",
                      "fi_info, to see where it hangs")};
  Findings found;
  const auto named = facts.environment.find("FABRING_TRANSPORT");
  const std::string wanted = named == facts.environment.end() || named->second.empty() ? "auto" : named->second;
  const auto is_wanted = [&](const std::string& name) {
    return wanted.find("auto") != std::string::npos || wanted.find(name) != std::string::npos;
  };
  const TransportFacts *chosen = nullptr, *fabric = nullptr;
  std::string refused;
  for (const TransportFacts& one : *facts.transports) {
    if (one.name == "fabric") fabric = &one;
    if (!is_wanted(one.name)) continue;
    if (one.name == "shm") {
      found.push_back(shared_memory(one));
      continue;
    }
    if (one.usable && chosen == nullptr) chosen = &one;
    if (!one.usable) refused += (refused.empty() ? "" : "; ") + one.name + ": " + one.reason;
  }
  const bool network = is_wanted("fabric") || is_wanted("tcp");
  if (!network)
    found.push_back(
        note("fabric.transport", "FABRING_TRANSPORT=" + wanted + " names no network: ranks of this host alone"));
  else if (chosen == nullptr)
    found.push_back({"fabric.transport",
                     Severity::critical,
                     fmt::format("no transport of FABRING_TRANSPORT={} works: {}", wanted,
                                 refused.empty() ? "none is of this build" : refused),
                     "no rank will start here",
                     "unset FABRING_TRANSPORT and FABRING_PROVIDER, or do what the reason says",
                     {}});
  else
    found.push_back(
        note("fabric.transport", fmt::format("with other hosts a job would use {}: {}{}", chosen->name, chosen->reason,
                                             refused.empty() ? "" : " (not " + refused + ")")));
  if (!facts.providers.empty())
    found.push_back(note("fabric.providers", fmt::format("libfabric has {}", fmt::join(facts.providers, ", "))));
  for (Finding& finding : efa(facts, fabric)) found.push_back(std::move(finding));
  return found;
}

}  // namespace fabring::tools
