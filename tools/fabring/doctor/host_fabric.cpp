// Transports and libfabric's providers: which would be taken, and why not EFA.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/startup/usable_transports.hpp"
#include "tools/fabring/doctor/host_checks.hpp"
#include "transports/fabric/fabric_transport.hpp"

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

std::string value_or(const HostFacts& facts, std::string_view name, const char* otherwise) {
  const auto named = facts.environment.find(name);
  return named == facts.environment.end() || named->second.empty() ? otherwise : named->second;
}

const TransportFacts* transport_named(const HostFacts& facts, std::string_view name) {
  if (!facts.transports) return nullptr;
  const auto found = std::find_if(facts.transports->begin(), facts.transports->end(),
                                  [&](const TransportFacts& one) { return one.name == name; });
  return found == facts.transports->end() ? nullptr : &*found;
}

int efa_cards(const HostFacts& facts) {
  int cards = 0;
  if (const Topology* topology = known_topology(facts))
    for (const Nic& nic : topology->nics) cards += nic.kind == NicKind::efa ? 1 : 0;
  return cards;
}

bool takes_efa(const TransportFacts& fabric) { return fabric.reason.starts_with("provider efa"); }

// Would FABRING_TRANSPORT have libfabric taken before what was chosen?
bool asked_before(const std::vector<std::string>& asked, const TransportFacts* chosen) {
  const auto fabric = std::find(asked.begin(), asked.end(), "fabric");
  return fabric != asked.end() && (chosen == nullptr || std::find(asked.begin(), fabric, chosen->name) == fabric);
}

// The setting that says so; empty: none does.
std::string without_efa(const HostFacts& facts, const TransportFacts* chosen) {
  const std::string transport = value_or(facts, "FABRING_TRANSPORT", "auto");
  const std::string provider = value_or(facts, "FABRING_PROVIDER", "auto");
  if (!asked_before(UsableTransports::asked_for(transport), chosen)) return "FABRING_TRANSPORT=" + transport;
  if (provider != "auto" && provider != "efa") return "FABRING_PROVIDER=" + provider;
  return {};
}

// Asked for by name and before what would be taken, and not what a job would use; empty: none is.
std::string lost_provider(const HostFacts& facts, const std::vector<std::string>& asked, const TransportFacts& chosen) {
  const std::string provider = value_or(facts, "FABRING_PROVIDER", "auto");
  const bool is_said_below = provider == "efa" && efa_cards(facts) > 0;  // cards that nobody uses
  return provider == "auto" || chosen.name == "fabric" || is_said_below || !asked_before(asked, &chosen) ? ""
                                                                                                         : provider;
}

Finding transport_taken(const HostFacts& facts, const std::vector<std::string>& asked, const TransportFacts& chosen,
                        const std::string& refused) {
  const std::string what = fmt::format("with other hosts a job would use {}: {}{}", chosen.name, chosen.reason,
                                       refused.empty() ? "" : " (not " + refused + ")");
  const std::string lost = lost_provider(facts, asked, chosen);
  if (lost.empty()) return note("fabric.transport", what);
  return {"fabric.transport",
          Severity::warning,
          fmt::format("FABRING_PROVIDER={} is asked for, but {}", lost, what),
          "jobs go on without that provider, several times slower where it is that of fast cards; rank 0 warns",
          lost == "efa" ? "a pod: request vpc.amazonaws.com/efa in resources.limits; other containers: --device "
                          "/dev/infiniband; a host: launch it with EFA interfaces; or unset FABRING_PROVIDER"
                        : "fi_info lists what libfabric has here; correct or unset FABRING_PROVIDER",
          {}};
}

Findings efa(const HostFacts& facts, const TransportFacts* chosen) {
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
  const TransportFacts* fabric = transport_named(facts, "fabric");
  if (fabric == nullptr) return found;
  const std::string count = fmt::format("{} EFA card{}", cards, cards == 1 ? "" : "s");
  if (const std::string setting = without_efa(facts, chosen); !setting.empty()) {
    found.push_back({id,
                     Severity::warning,
                     fmt::format("this host has {}, which {} does without", count, setting),
                     "jobs run over TCP, several times slower",
                     "unset it, unless that is what is wanted",
                     {}});
    return found;
  }
  if (takes_efa(*fabric)) {
    found.push_back(fine(id, count + ", and libfabric offers them"));
    if (fabric->reason.find(efa_rdma_off) != std::string::npos)
      found.push_back(
          {"fabric.efa_rdma",
           Severity::warning,
           "Fabring was built with libfabric older than 1.18: on this EFA card (0xefa1) RDMA is off by default",
           "large messages are copied by processors, and memory of GPUs goes through the host",
           "build Fabring with libfabric 1.18 or newer; or on p4d and p4de set FI_EFA_USE_DEVICE_RDMA=1 (where "
           "the card has no RDMA libfabric ends a process that asks for it)",
           {}});
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
                   fmt::format("this host has {}, but {}", count, why),
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
  const std::string wanted = value_or(facts, "FABRING_TRANSPORT", "auto");
  const std::vector<std::string> asked = UsableTransports::asked_for(wanted);
  const auto is_wanted = [&](std::string_view name) {
    return std::find(asked.begin(), asked.end(), name) != asked.end();
  };
  const TransportFacts* chosen = nullptr;
  std::string refused;
  for (const std::string& name : asked) {
    const TransportFacts* one = transport_named(facts, name);
    if (one == nullptr) continue;
    if (one->name == "shm") {
      found.push_back(shared_memory(*one));
      continue;
    }
    if (one->usable && chosen == nullptr) chosen = one;
    if (!one->usable) refused += (refused.empty() ? "" : "; ") + one->name + ": " + one->reason;
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
    found.push_back(transport_taken(facts, asked, *chosen, refused));
  if (!facts.providers.empty())
    found.push_back(note("fabric.providers", fmt::format("libfabric has {}", fmt::join(facts.providers, ", "))));
  for (Finding& finding : efa(facts, chosen)) found.push_back(std::move(finding));
  return found;
}

}  // namespace fabring::tools
