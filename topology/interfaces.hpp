#pragma once
// Network interfaces of this host, and which address a rank should use. Enumerating asks the kernel; choosing is a pure
// function of the list, so it is tested on made-up hosts.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "topology/host_files.hpp"

namespace fabring {

/// One address of one interface.
struct InterfaceAddress {
  std::string interface;  ///< "eth0"
  std::string address;    ///< numeric, without scope
  int prefix_bits = 0;
  bool v6 = false;
  bool up = false;  ///< up and with a carrier
  bool loopback = false;
  std::string label = {};  ///< "eth0:data", where the address was given one; a filter may name that
  bool operator==(const InterfaceAddress&) const = default;
};

/// All IPv4 and IPv6 addresses, in the kernel's order.
Result<std::vector<InterfaceAddress>> interface_addresses();

/// Megabits per second that the kernel says an interface has; 0 where it does not say.
std::uint32_t link_megabits(const std::string& interface);

/// The address that this host would send from to reach `address` (numeric; nothing is sent). Empty when there is no
/// route.
std::string source_address_towards(std::string_view address);

struct InterfaceRequest {
  /// FABRING_INTERFACE: "eth0,ib0" (allowed; "eth*" for beginnings), "^docker0,lo" (not allowed), networks
  /// "10.0.0.0/8".
  std::string filter;
  bool one_host = false;       ///< all ranks are on this host: loopback is enough, and preferred
  std::string towards_master;  ///< source_address_towards(master); empty: not known
  /// Interfaces near this rank's GPU or processors, best first. Where the user named several, whose reach is thus
  /// known, the nearest is taken; else the way to the master comes first, since a near card may lead elsewhere.
  std::vector<std::string> near = {};
};

/// invalid_argument: a filter (InterfaceRequest) that is malformed.
Status check_interface_filter(std::string_view filter);

/// The interfaces and RDMA devices of this host by name, those without an address too.
std::vector<std::string> card_names(const HostFiles& files = HostFiles());

/// Items of a filter that name nothing here: "eth7: no such interface here". One list may be for hosts that differ, so
/// this is no error, but it may be a mistyped name. `cards` are card_names(). Left out are the names of container
/// systems' bridges in a list of those not to use: one denies docker0 wherever it may turn up. None where the filter is
/// malformed.
std::vector<std::string> unmatched_items(const std::vector<InterfaceAddress>& addresses, std::string_view filter,
                                         const std::vector<std::string>& cards);

/// Those that a rank could use at all, in the kernel's order; none where the filter is malformed.
std::vector<InterfaceAddress> usable_interfaces(const std::vector<InterfaceAddress>& addresses,
                                                const InterfaceRequest& request);

struct InterfaceChoice {
  InterfaceAddress chosen;
  std::string reason;  ///< "eth0 10.0.0.5: on the way to the master; not docker0 172.17.0.1 (virtual bridge)"
  std::vector<std::string> rejected;  ///< "docker0 172.17.0.1: virtual bridge"
};

/// Errors: invalid_argument for a malformed filter; unavailable when nothing is left, naming what exists and why each
/// was turned down.
Result<InterfaceChoice> choose_interface(const std::vector<InterfaceAddress>& addresses,
                                         const InterfaceRequest& request);

}  // namespace fabring
