// Network cards: state, speed, MTU, errors, and whether the PCI link runs as it could.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tools/fabring/doctor/host_checks.hpp"
#include "tools/fabring/doctor/ip_address.hpp"
#include "tools/fabring/topo/topo_report.hpp"
#include "topology/placement.hpp"
#include "topology/rail_choice.hpp"

namespace fabring::tools {
namespace {

Finding state(const Nic& nic, bool spare) {
  const std::string id = "nic.state";
  if (nic.state == LinkState::unknown) {
    Finding finding = unchecked(id, "the kernel does not say whether the port is up");
    finding.where = nic.label();
    return finding;
  }
  if (nic.state == LinkState::up) return fine(id, "up", nic.label());
  return {id,
          spare ? Severity::info : Severity::warning,
          "the port is down",
          spare ? "" : "jobs spread over fewer cards than this host has, or fail where hosts differ",
          spare ? ""
          : nic.interface.empty()
              ? "ibstat " + nic.rdma + "; cable, switch port, driver"
              : "ip link set " + nic.interface + " up; then cable, switch port, ethtool " + nic.interface,
          nic.label()};
}

std::optional<Finding> speed(const Nic& nic, std::uint32_t usual) {
  const std::string id = "nic.speed";
  if (nic.kind == NicKind::virtual_interface || nic.state == LinkState::down) return std::nullopt;
  if (nic.megabits == 0) {
    Finding finding = unchecked(id, "the driver does not say how fast the port is");
    finding.where = nic.label();
    return finding;
  }
  const std::string what = rate_text(nic.megabits);
  if (nic.megabits < usual)
    return Finding{id,
                   Severity::warning,
                   fmt::format("{}, the other cards of this kind have {}", what, rate_text(usual)),
                   "a collective is as fast as its slowest rail",
                   "ethtool " + nic.label() + ": cable, transceiver or switch port that agreed on less",
                   nic.label()};
  if (nic.megabits < 1000)
    return Finding{id,
                   Severity::warning,
                   what,
                   "below 1 Gbit/s: usually a bad cable, or a management port",
                   "ethtool " + nic.label() + "; FABRING_INTERFACE names another one",
                   nic.label()};
  return fine(id, what, nic.label());
}

// Cards of different networks (one to manage the host, one for data) rightly have different MTUs. Every card with IPv6
// is in fe80::/64.
bool meet(const HostFacts& facts, const Nic& a, const Nic& b) {
  const auto is_rail = [&](const Nic& nic) {
    return std::ranges::any_of(facts.rails.rails,
                               [&](const auto& rail) { return rail.address.interface == nic.interface; });
  };
  if (is_rail(a) && is_rail(b)) return true;
  if (!facts.interfaces) return false;
  for (const InterfaceAddress& of_a : *facts.interfaces)
    for (const InterfaceAddress& of_b : *facts.interfaces)
      if (of_a.interface == a.interface && of_b.interface == b.interface && network_of(of_a) == network_of(of_b) &&
          !is_link_local(of_a.address))
        return true;
  return false;
}

struct Mtu {
  std::uint32_t usual;      // the largest of the ethernet cards that this one should be like; of other kinds its own
  std::uint32_t elsewhere;  // the largest of ethernet cards of other networks
};

Mtu mtu_of_others(const HostFacts& facts, const Topology& topology, const Nic& nic) {
  Mtu mtu{nic.mtu_bytes, 0};
  if (nic.kind != NicKind::ethernet) return mtu;
  for (const Nic& other : topology.nics)
    if (other.kind == nic.kind && other.state != LinkState::down && &other != &nic) {
      std::uint32_t& largest = meet(facts, nic, other) ? mtu.usual : mtu.elsewhere;
      largest = std::max(largest, other.mtu_bytes);
    }
  return mtu;
}

std::optional<Finding> mtu(const Nic& nic, const Mtu& others) {
  const std::uint32_t usual = others.usual;
  const std::string id = "nic.mtu";
  if (nic.mtu_bytes == 0) return std::nullopt;
  const std::string what = fmt::format("MTU {}", nic.mtu_bytes);
  const std::string fix = fmt::format("ip link set {} mtu {}", nic.label(), std::max(usual, 1500u));
  if (nic.mtu_bytes < 1280)
    return Finding{id,   Severity::warning,
                   what, "below what IPv6 allows: many small packets, and large ones may vanish on the way",
                   fix,  nic.label()};
  if (nic.mtu_bytes != usual)
    return Finding{
        id,
        Severity::warning,
        fmt::format("{}, other cards that a job would use with it, or of its network, have {}", what, usual),
        "where two ends differ, small messages arrive and large ones vanish: a job that hangs in its first big "
        "allreduce",
        fix,
        nic.label()};
  if (nic.mtu_bytes < 1500)
    return note(
        id, what + ": usual inside overlays and tunnels; all hosts should have the same (fabring doctor net compares)",
        nic.label());
  if (nic.mtu_bytes <= 1500 && nic.megabits >= 10'000 && nic.kind == NicKind::ethernet)
    return note(id, what + " on a fast port: with 9000 on hosts and switches TCP costs less", nic.label());
  if (others.elsewhere > nic.mtu_bytes)
    return note(id, fmt::format("{}; a card of another network has {}", what, others.elsewhere), nic.label());
  return fine(id, what, nic.label());
}

std::optional<Finding> errors(const HostFacts& facts, const Nic& nic) {
  if (nic.interface.empty()) return std::nullopt;
  const std::string folder = "sys/class/net/" + nic.interface + "/statistics/";
  const auto packets = facts.files.number(folder + "rx_packets");
  if (!packets) return std::nullopt;
  std::string seen;
  long long worst = 0, turned_down = 0;
  for (const char* counter :
       {"rx_errors", "tx_errors", "rx_crc_errors", "rx_dropped", "tx_dropped", "rx_missed_errors"})
    if (const long long count = facts.files.number(folder + counter).value_or(0); count > 0) {
      seen += fmt::format("{}{} {}", seen.empty() ? "" : ", ", counter, count);
      // Frames of protocols that nobody here speaks are counted as dropped too.
      if (std::string_view(counter) == "rx_dropped")
        turned_down = count;
      else
        worst = std::max(worst, count);
    }
  const auto carrier = facts.files.number("sys/class/net/" + nic.interface + "/carrier_changes").value_or(0);
  if (carrier > 20)
    return Finding{"nic.flaps",
                   Severity::warning,
                   fmt::format("the link has come and gone {} times since the start", carrier),
                   "each time jobs stall or die",
                   "cable, transceiver, switch port: dmesg | grep " + nic.interface,
                   nic.label()};
  const auto many = [&](long long count) {
    return count > 1000 && static_cast<double>(count) > 1e-4 * static_cast<double>(std::max(*packets, 1ll));
  };
  if (many(worst))
    return Finding{
        "nic.errors",
        Severity::warning,
        fmt::format("{} in {} packets", seen, *packets),
        "lost packets are sent again after a pause: a link that is a hundred times slower at times",
        "ethtool -S " + nic.interface + "; a bad cable (crc), too few receive buffers (dropped, missed: ethtool -G)",
        nic.label()};
  if (many(turned_down))
    return note("nic.errors",
                fmt::format("{} in {} packets: frames of protocols that nobody here speaks (LLDP, other VLANs), or a "
                            "queue that was full; ethtool -S {} tells which",
                            seen, *packets, nic.interface),
                nic.label());
  return fine("nic.errors", seen.empty() ? "no errors counted" : seen + ": few", nic.label());
}

std::optional<Finding> pci_link(const PciLink& link, const std::string& where, bool gpu) {
  const std::string id = "pci.link";
  if (!link.known()) return std::nullopt;
  const std::string what = link_text(link);
  if (!link.below_best()) return fine(id, what, where);
  const double share =
      link_gigabytes(link.gigatransfers_now, link.lanes_now) / link_gigabytes(link.gigatransfers_best, link.lanes_best);
  // GPUs slow their link down while idle; they never drop lanes.
  if (gpu && link.lanes_now >= link.lanes_best) return note(id, what + ": a GPU that idles slows its link down", where);
  return Finding{
      id,
      Severity::warning,
      fmt::format("{}: {:.0f}% of what card and slot can", what, 100 * share),
      "the card cannot be filled whatever the network does, and every job waits for this host",
      "reseat or replace card or riser; BIOS: link speed and bifurcation of the slot; then compare with lspci -vv",
      where};
}

std::optional<Finding> unknown_link(const Topology& topology) {
  std::set<std::string> cards;
  for (const Nic& nic : topology.nics)
    if (nic.pci && !nic.link.known()) cards.insert(nic.label());
  if (cards.empty()) return std::nullopt;
  return unchecked(
      "pci.link",
      fmt::format("speed and width of the PCI link of {}: the kernel does not say (usual in virtual machines)",
                  fmt::join(cards, ", ")));
}

}  // namespace

Findings check_cards(const HostFacts& facts) {
  const Topology* topology = known_topology(facts);
  if (topology == nullptr) return {unchecked("nic.state", "network cards: hwloc could not tell what is here")};
  Findings found;
  if (topology->nics.empty())
    found.push_back({"nic.none",
                     Severity::warning,
                     "no network interface but loopback",
                     "ranks on this host alone can work together",
                     "give the machine or container a network",
                     {}});
  std::uint32_t fastest[4] = {};
  bool some_up = false;
  for (const Nic& nic : topology->nics) {
    const auto kind = static_cast<std::size_t>(nic.kind);
    if (nic.state == LinkState::down) continue;
    some_up = true;
    fastest[kind] = std::max(fastest[kind], nic.megabits);
  }
  for (const Nic& nic : topology->nics) {
    const auto kind = static_cast<std::size_t>(nic.kind);
    // A second ethernet port that nobody plugged in is how most servers stand in their racks.
    const bool spare = some_up && nic.kind == NicKind::ethernet && nic.state == LinkState::down;
    found.push_back(state(nic, spare));
    // Ethernet cards of a host serve different networks; rails of one kind should be alike.
    const bool rail = nic.kind == NicKind::efa || nic.kind == NicKind::infiniband;
    if (const auto finding = speed(nic, rail ? fastest[kind] : 0)) found.push_back(*finding);
    if (nic.state != LinkState::down)
      if (const auto finding = mtu(nic, mtu_of_others(facts, *topology, nic))) found.push_back(*finding);
    if (const auto finding = errors(facts, nic)) found.push_back(*finding);
    if (const auto finding = pci_link(nic.link, nic.label(), false)) found.push_back(*finding);
  }
  for (std::size_t i = 0; i < topology->gpus.size(); ++i)
    if (const auto finding = pci_link(topology->gpus[i].link, fmt::format("GPU {}", i), true))
      found.push_back(*finding);
  if (const auto finding = unknown_link(*topology)) found.push_back(*finding);
  return found;
}

}  // namespace fabring::tools
