// Interfaces, and the kernel's settings for TCP.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/bootstrap/launch_environment.hpp"
#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/ip_address.hpp"
#include "topology/cpus.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::tools {
namespace {

bool has_efa(const HostFacts& facts) {
  const Topology* topology = known_topology(facts);
  return topology != nullptr && std::any_of(topology->nics.begin(), topology->nics.end(),
                                            [](const Nic& nic) { return nic.kind == NicKind::efa; });
}

// Out of which the default route goes, by /proc/net/route.
std::string default_route(const HostFacts& facts) {
  const std::string table = facts.files.text("proc/net/route").value_or("");
  for (std::size_t at = table.find('\n'); at != std::string::npos; at = table.find('\n', at + 1)) {
    const auto cells = words(std::string_view(table).substr(at + 1, 256));
    if (cells.size() > 7 && cells[1] == "00000000" && cells[7] == "00000000") return cells[0];
  }
  return {};
}

// It has addresses, and none that another host could answer to: of a pod of an IPv6 cluster, the way to IPv4.
bool has_only_link_local(const std::vector<InterfaceAddress>& addresses, const std::string& interface) {
  bool any = false, others = false;
  for (const InterfaceAddress& one : addresses)
    if (one.interface == interface) (is_link_local(one.address) ? any : others) = true;
  return any && !others;
}

// Without what nobody expects to be chosen, and without a master where none is named.
std::string reason_of(const InterfaceChoice& choice, bool master) {
  std::string text = choice.reason.substr(0, choice.reason.find(" (not "));
  constexpr std::string_view towards = "on the way to the master";
  if (const std::size_t at = text.find(towards); at != std::string::npos && !master)
    text.replace(at, towards.size(), "on the default route");
  std::string others;
  for (const std::string& one : choice.rejected)
    if (one.find("loopback") == std::string::npos && one.find("link-local") == std::string::npos)
      others += (others.empty() ? " (not " : "; ") + one;
  return text + (others.empty() ? "" : others + ")");
}

// Of a job with ranks on other hosts.
InterfaceRequest request_of(const HostFacts& facts) {
  const auto filter = facts.environment.find("FABRING_INTERFACE");
  return {filter == facts.environment.end() ? "" : filter->second, false, facts.towards_master};
}

// Those that carry nothing, though they are on a network that other hosts share.
Findings idle_cards(const HostFacts& facts) {
  Findings found;
  const auto& rails = facts.rails.rails;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const RailChoice::Rail& rail = rails[i];
    const auto by = facts.leaves_by.find(rail.address.interface);
    if (by == facts.leaves_by.end()) continue;
    found.push_back({"net.rails", Severity::warning,
                     fmt::format("card {} would carry nothing: packets from {} to others of {} leave by {}, as the "
                                 "kernel routes by the destination alone",
                                 by->first, rail.address.address, rail.network, by->second),
                     "a job leaves this card out, and has that much less bandwidth",
                     rails::source_routing({by->first, rail.network, rail.address.address}, i), by->first});
  }
  return found;
}

Findings cards_at_once(const HostFacts& facts) {
  RailChoice cards = facts.rails;
  std::erase_if(cards.rails,
                [&](const RailChoice::Rail& rail) { return facts.leaves_by.contains(rail.address.interface); });
  const std::size_t count = cards.rails.size();
  const bool guessed = count > 0 && cards.rails.front().megabits == 0 && count + cards.rejected.size() > 1;
  if (count < 2 && !guessed) return {};
  std::vector<std::string> names;
  for (const RailChoice::Rail& rail : cards.rails) names.push_back(rail.address.interface);
  std::string text = count < 2 ? "a rank would use one network card: " + names.front()
                               : fmt::format(
                                     "a rank would use {} network cards at once: {} (FABRING_RAILS bounds them; "
                                     "towards a host that they do not reach they are left out)",
                                     count, fmt::join(names, ", "));
  if (guessed) {
    text += fmt::format("; how fast {} is the kernel does not know", names.front());
    if (count > 1) text += ": what each carries will show";
    if (!cards.rejected.empty())
      text += fmt::format(" (not {}; FABRING_INTERFACE=NAME,... takes those it names whatever their speed)",
                          fmt::join(cards.rejected, "; "));
  }
  return {note("net.rails", std::move(text))};
}

Findings interface(const HostFacts& facts) {
  const std::string id = "net.interface";
  if (!facts.interfaces) return {unchecked(id, facts.interfaces.error().message())};
  const InterfaceRequest request = request_of(facts);
  const std::string& wanted = request.filter;
  const auto choice = choose_interface(*facts.interfaces, request);
  if (!choice)
    return {{id,
             wanted.empty() ? Severity::warning : Severity::critical,
             choice.error().message(),
             wanted.empty()
                 ? "ranks of this host alone can work together over loopback; with other hosts a job will not start"
                 : "no rank will start with this setting",
             wanted.empty() ? "bring an interface up, or name one with FABRING_INTERFACE"
                            : "correct or unset FABRING_INTERFACE",
             {}}};
  Findings found{note(id, "with other hosts a job would use " + reason_of(*choice, !facts.master.empty()))};
  const auto unmatched = unmatched_items(*facts.interfaces, wanted, card_names(facts.files));
  if (!unmatched.empty())
    found.push_back({id,
                     Severity::warning,
                     fmt::format("FABRING_INTERFACE={}: {}", wanted, fmt::join(unmatched, "; ")),
                     "what a list names and a host does not have is passed over, as hosts may differ: behind a "
                     "mistyped name a job uses other interfaces than were meant",
                     "correct FABRING_INTERFACE, unless the name is another host's (ip -br address lists those here)",
                     {}});
  for (const auto& check : {cards_at_once, idle_cards})
    for (Finding& finding : check(facts)) found.push_back(std::move(finding));
  const std::string route = default_route(facts);
  if (!route.empty() && route != choice->chosen.interface && facts.master.empty() && wanted.empty() &&
      !has_only_link_local(*facts.interfaces, route))
    found.push_back(
        {"net.route",
         Severity::warning,
         fmt::format("{} would be used, but the default route goes out of {}", choice->chosen.interface, route),
         "the first usable interface need not lead to the other hosts",
         "FABRING_INTERFACE=" + route + ", or set the master address: then the way to it decides",
         {}});
  if (!wanted.empty() && !facts.towards_master.empty() && choice->chosen.address != facts.towards_master &&
      !facts.master.empty())
    found.push_back({"net.route",
                     Severity::warning,
                     fmt::format("FABRING_INTERFACE={} takes {}, but the way to the master {} leaves from {}", wanted,
                                 choice->chosen.interface, facts.master, facts.towards_master),
                     "other hosts may not reach the address that this rank gives them",
                     "unset FABRING_INTERFACE, or name the interface on the way to the master",
                     {}});
  bool v4 = false, v6 = false;
  for (const InterfaceAddress& address : *facts.interfaces)
    if (address.up && !address.loopback) (address.v6 ? v6 : v4) = true;
  found.push_back(fine("net.families", fmt::format("addresses of {}{}{}", v4 ? "IPv4" : "", v4 && v6 ? " and " : "",
                                                   v6   ? "IPv6"
                                                   : v4 ? ""
                                                        : "neither IPv4 nor IPv6")));
  const bool loopback =
      std::any_of(facts.interfaces->begin(), facts.interfaces->end(), [](const auto& a) { return a.loopback && a.up; });
  if (!loopback)
    found.push_back({"net.loopback",
                     Severity::critical,
                     "the loopback interface has no address or is down",
                     "ranks of one host reach each other over it",
                     "ip link set lo up",
                     {}});
  return found;
}

Finding ports(const HostFacts& facts) {
  const std::string id = "net.port_range";
  const auto cells = words(facts.files.line("proc/sys/net/ipv4/ip_local_port_range").value_or(""));
  if (cells.size() != 2) return unchecked(id, "the range of ephemeral ports: the kernel does not say");
  const long long first = std::atoll(cells[0].c_str()), last = std::atoll(cells[1].c_str());
  const std::string what = fmt::format("ephemeral ports {} to {}", first, last);
  if (last - first < 2000)
    return {id,
            Severity::warning,
            what,
            "every connection of every rank takes one; a few hundred ranks use them up, and connecting fails with "
            "'Cannot assign requested address'",
            "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
            {}};
  const auto at = facts.environment.find("FABRING_MASTER_PORT");
  const long long master =
      at == facts.environment.end() || at->second.empty() ? default_master_port : std::atoll(at->second.c_str());
  if (master >= first && master <= last) {
    const std::string among = fmt::format("{}: the master port {} is among them", what, master);
    // Written like a list of processors: "8080,9000-9010".
    const std::string reserved = facts.files.line("proc/sys/net/ipv4/ip_local_reserved_ports").value_or("");
    const std::vector<int> kept = parse_cpu_list(reserved);
    if (std::find(kept.begin(), kept.end(), master) != kept.end()) return fine(id, among + ", and reserved");
    return {id,
            Severity::warning,
            among,
            "any outgoing connection of this host may hold that port just when rank 0 wants it",
            fmt::format("FABRING_MASTER_PORT below the range, or, with what is reserved already, sysctl -w "
                        "net.ipv4.ip_local_reserved_ports={}{}{}",
                        reserved, reserved.empty() ? "" : ",", master),
            {}};
  }
  return fine(id, what);
}

// A listening socket on this port, by /proc/net/tcp and tcp6: state 0A.
bool listens(const HostFacts& facts, int port) {
  const std::string hex = fmt::format(":{:04X}", port);
  for (const char* file : {"proc/net/tcp", "proc/net/tcp6"}) {
    const std::string table = facts.files.text(file).value_or("");
    for (std::size_t at = table.find('\n'); at != std::string::npos; at = table.find('\n', at + 1)) {
      const auto cells = words(std::string_view(table).substr(at + 1, 160));
      if (cells.size() > 3 && cells[3] == "0A" && cells[1].ends_with(hex)) return true;
    }
  }
  return false;
}

Finding master_port(const HostFacts& facts) {
  const auto at = facts.environment.find("FABRING_MASTER_PORT");
  const int given = at == facts.environment.end() ? 0 : std::atoi(at->second.c_str());
  const int port = given > 0 && given < 65536 ? given : default_master_port;
  if (!listens(facts, port)) return fine("net.master_port", fmt::format("port {} is free for rank 0", port));
  return {
      "net.master_port",
      given > 0 ? Severity::warning : Severity::info,
      fmt::format("something listens on port {}", port),
      given > 0 ? "a rank 0 on this host cannot serve the rendezvous there (unless it is that rank that listens)" : "",
      given > 0 ? fmt::format("ss -ltnp 'sport = :{}' shows who; choose another FABRING_MASTER_PORT", port) : "",
      {}};
}

// The kernel takes the larger of the setting for all interfaces and the interface's own: 1 is strict, 2 loose.
std::optional<Finding> reverse_path_filter(const HostFacts& facts) {
  if (!facts.interfaces) return std::nullopt;
  const auto setting = [&](const std::string& interface) {
    return facts.files.number("proc/sys/net/ipv4/conf/" + interface + "/rp_filter").value_or(0);
  };
  // On bridges of containers and what FABRING_INTERFACE excludes no job runs, whatever is dropped there.
  std::set<std::string> addressed, strict;
  for (const InterfaceAddress& one : usable_interfaces(*facts.interfaces, request_of(facts))) {
    if (one.loopback || one.v6) continue;
    addressed.insert(one.interface);
    if (std::max(setting("all"), setting(one.interface)) == 1) strict.insert(one.interface);
  }
  if (addressed.size() < 2 || strict.empty()) return std::nullopt;
  return Finding{"net.rp_filter",
                 Severity::warning,
                 fmt::format("strict reverse path filter (rp_filter=1) on {}, and a job could use {} interfaces",
                             fmt::join(strict, ", "), addressed.size()),
                 "packets that come in on another interface than the answer would leave by are dropped without a "
                 "word: one direction works, the other hangs",
                 "sysctl -w net.ipv4.conf.all.rp_filter=2 (the larger of all and the interface's own counts)",
                 {}};
}

// Then environment.fabring has named it.
bool is_refused(const HostFacts& facts, std::string_view setting) {
  return facts.refused_values && std::any_of(facts.refused_values->begin(), facts.refused_values->end(),
                                             [&](const RefusedValue& one) { return one.setting == setting; });
}

Findings tcp_settings(const HostFacts& facts) {
  Findings found;
  if (const auto congestion = facts.files.line("proc/sys/net/ipv4/tcp_congestion_control")) {
    const auto wanted = facts.environment.find("FABRING_CONGESTION_CONTROL");
    const std::string available = facts.files.line("proc/sys/net/ipv4/tcp_available_congestion_control").value_or("");
    const auto names = words(available);
    if (wanted != facts.environment.end() && !wanted->second.empty() && wanted->second != "auto" && !names.empty() &&
        std::find(names.begin(), names.end(), wanted->second) == names.end() && !is_refused(facts, wanted->first))
      found.push_back(
          {"net.congestion",
           Severity::warning,
           fmt::format("FABRING_CONGESTION_CONTROL={} is not loaded; there are: {}", wanted->second, available),
           "the tcp transport cannot run with it: a job takes another network, or does not start",
           "modprobe tcp_" + wanted->second + ", or FABRING_CONGESTION_CONTROL=auto",
           {}});
    else if (*congestion == "reno" || *congestion == "vegas" || *congestion == "lp")
      found.push_back({"net.congestion",
                       Severity::warning,
                       "TCP congestion control is " + *congestion,
                       "slow to fill a fast link again after a loss",
                       "sysctl -w net.ipv4.tcp_congestion_control=cubic, or FABRING_CONGESTION_CONTROL=cubic",
                       {}});
    else
      found.push_back(fine("net.congestion", "TCP congestion control " + *congestion));
  } else {
    found.push_back(unchecked("net.congestion", "TCP congestion control: the kernel does not say"));
  }
  for (const char* name : {"tcp_rmem", "tcp_wmem"}) {
    const std::string id = std::string("net.") + name;
    const auto cells = words(facts.files.line(std::string("proc/sys/net/ipv4/") + name).value_or(""));
    if (cells.size() != 3) {
      found.push_back(unchecked(id, fmt::format("net.ipv4.{}: the kernel does not say", name)));
      continue;
    }
    const auto most = static_cast<std::uint64_t>(std::max(std::atoll(cells[2].c_str()), 0ll));
    const std::string what = fmt::format("socket buffers grow to {} (net.ipv4.{})", amount(most), name);
    if (most < (1u << 20))
      found.push_back({id,
                       Severity::warning,
                       what,
                       "one connection cannot fill a fast link with so little in flight",
                       fmt::format("sysctl -w net.ipv4.{}='4096 131072 16777216'", name),
                       {}});
    else
      found.push_back(fine(id, what));
  }
  if (const auto backlog = facts.files.number("proc/sys/net/core/somaxconn")) {
    const std::string what = fmt::format("{} connections may wait to be accepted (net.core.somaxconn)", *backlog);
    if (*backlog < 128)
      found.push_back({"net.somaxconn",
                       Severity::warning,
                       what,
                       "when hundreds of ranks connect at once some are turned away and try again a second later",
                       "sysctl -w net.core.somaxconn=4096",
                       {}});
    else
      found.push_back(fine("net.somaxconn", what));
  }
  if (const auto filter = reverse_path_filter(facts)) found.push_back(*filter);
  return found;
}

}  // namespace

Findings check_network(const HostFacts& facts) {
  Findings found = interface(facts);
  found.push_back(ports(facts));
  found.push_back(master_port(facts));
  for (Finding& finding : tcp_settings(facts)) found.push_back(std::move(finding));
  found.push_back(unchecked(
      "net.firewall", "whether firewalls and security groups let other hosts in cannot be seen from here",
      has_efa(facts) ? "fabring doctor net, on all hosts; EFA needs a security group that allows all traffic to "
                       "and from itself, inbound and outbound"
                     : "fabring doctor net, on all hosts"));
  return found;
}

}  // namespace fabring::tools
