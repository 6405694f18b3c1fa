// Names: this host's own, and the master's.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/ip_address.hpp"

namespace fabring::tools {
namespace {

bool loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Finding own_name_is_known(const HostFacts& facts) {
  const std::string id = "names.own";
  if (!facts.own_name)
    return {id,
            Severity::warning,
            "the name service did not answer in time about this host's own name",
            "frameworks ask for it at the start: each rank waits for the same silence",
            "a line for it in /etc/hosts; a name server that answers in /etc/resolv.conf",
            {}};
  const NameFacts& name = *facts.own_name;
  if (!name.error.empty())
    return {id,
            Severity::warning,
            fmt::format("this host's own name '{}' cannot be resolved: {}", name.name, name.error),
            "Fabring does not ask for it, but Gloo, NCCL's bootstrap and many launchers do, and fail",
            "a line '<address> " + name.name + "' in /etc/hosts, or in DNS",
            {}};
  const std::string what = fmt::format("'{}' is {}", name.name, fmt::join(name.addresses, ", "));
  if (name.seconds > 1)
    return {id,
            Severity::warning,
            fmt::format("{}, but the answer took {:.1f} s", what, name.seconds),
            "every rank waits that long at the start",
            "a line for it in /etc/hosts; order in /etc/nsswitch.conf",
            {}};
  if (std::all_of(name.addresses.begin(), name.addresses.end(), loopback))
    return note(id, what +
                        ": loopback. Where it is the master's name Fabring's rank 0 listens on this host's interfaces "
                        "too; a framework that gives this name to other hosts will hang (Gloo: set "
                        "GLOO_SOCKET_IFNAME)");
  if (facts.interfaces) {
    const auto mine = [&](const std::string& address) {
      return loopback(address) || std::any_of(facts.interfaces->begin(), facts.interfaces->end(), [&](const auto& one) {
               return address.substr(0, address.find('%')) == one.address;
             });
    };
    if (std::none_of(name.addresses.begin(), name.addresses.end(), mine))
      return {id,
              Severity::warning,
              what + ", which is no address of this host",
              "whoever calls this host by its name reaches another one",
              "correct /etc/hosts or DNS",
              {}};
  }
  return fine(id, what);
}

/// The same name, or one of the two with a domain.
bool is_own_name(const HostFacts& facts, const std::string& name) {
  if (!facts.own_name) return false;
  const std::string& own = facts.own_name->name;
  return name == own || name.starts_with(own + ".") || own.starts_with(name + ".");
}

std::optional<Finding> master(const HostFacts& facts) {
  const std::string id = "names.master";
  if (facts.master.empty()) return std::nullopt;
  // Ranks ask again until FABRING_RENDEZVOUS_TIMEOUT: what is not known yet is no reason to hold a host back.
  if (!facts.master_name && !is_ip_address(facts.master))
    return unchecked(id,
                     "the name service did not answer in time about the master '" + facts.master +
                         "'; ranks ask it until FABRING_RENDEZVOUS_TIMEOUT",
                     "a longer --timeout; give the master's address instead of its name; a name server that answers in "
                     "/etc/resolv.conf");
  if (facts.master_name && !facts.master_name->error.empty()) {
    const std::string what =
        fmt::format("the master '{}' cannot be resolved: {}", facts.master, facts.master_name->error);
    if (!could_be_a_host_name(facts.master))
      return Finding{
          id,
          Severity::critical,
          what,
          "this is neither a name nor an address, and the rank gives up after FABRING_RENDEZVOUS_TIMEOUT",
          "FABRING_MASTER_ADDR, or MASTER_ADDR, is a name or an address alone; the port is FABRING_MASTER_PORT or "
          "MASTER_PORT",
          {}};
    return Finding{
        id,
        Severity::warning,
        what,
        "the rank asks again, and gives up after FABRING_RENDEZVOUS_TIMEOUT: fine where the master's host is "
        "still being started",
        "spell it as DNS or /etc/hosts does, or give its address",
        {}};
  }
  const auto& addresses = facts.master_name ? facts.master_name->addresses : std::vector<std::string>{facts.master};
  const auto hosts = facts.environment.find("SLURM_NNODES");
  const bool several = hosts != facts.environment.end() && std::atoi(hosts->second.c_str()) > 1;
  const bool only_loopback = std::all_of(addresses.begin(), addresses.end(), loopback);
  if (only_loopback && is_own_name(facts, facts.master))
    return note(id, fmt::format("the master '{}' is this host, where its name is {}: rank 0 listens on the interfaces "
                                "too, and other hosts need another address for that name",
                                facts.master, fmt::join(addresses, ", ")));
  if (several && only_loopback)
    return Finding{id,
                   Severity::critical,
                   fmt::format("the master '{}' is loopback, and the job has {} hosts", facts.master, hosts->second),
                   "each host would look for rank 0 on itself",
                   "MASTER_ADDR must be a name or address that the other hosts can reach",
                   {}};
  return fine(id, fmt::format("the master '{}' is {}", facts.master, fmt::join(addresses, ", ")));
}

}  // namespace

Findings check_names(const HostFacts& facts) {
  Findings found{own_name_is_known(facts)};
  if (const auto finding = master(facts)) found.push_back(*finding);
  return found;
}

}  // namespace fabring::tools
