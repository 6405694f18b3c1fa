#pragma once
// Which network cards a rank uses beside the interface that was chosen for it. Reading asks the kernel's files;
// choosing is a pure function of what was read.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/interfaces.hpp"

namespace fabring {

/// What the kernel says of an interface besides its addresses.
struct InterfaceFacts {
  bool card = false;               ///< a port of its own: no bridge, no tunnel
  std::uint32_t megabits = 0;      ///< 0: not known
  std::vector<std::string> below;  ///< interfaces of this host that it rests on itself (a VLAN, a bond)
};
InterfaceFacts read_interface_facts(const std::string& interface, const std::filesystem::path& root = "/");

/// Of all that have an address, and of what these rest on, also through others.
std::map<std::string, InterfaceFacts> read_interface_facts(const std::vector<InterfaceAddress>& addresses,
                                                           const std::filesystem::path& root = "/");

struct RailChoice {
  struct Rail {
    InterfaceAddress address;
    std::string network;         ///< "10.0.1.0/24"
    std::uint32_t megabits = 0;  ///< 0: not known
    bool fast = true;  ///< takes large messages: as fast as the fastest, of unknown speed, or named by the user
  };
  std::vector<Rail> rails;            ///< the interface chosen is the first
  std::vector<std::string> rejected;  ///< "eth2 10.0.2.1: 1000 Mbit/s, others have 100000"
};

/// Beside `chosen`: every other card of its address family that is as fast as the fastest and, unless the user named
/// interfaces, is a card of its own. If the speed of `chosen` is not known, those of unknown speed are its equals, and
/// the fastest others are taken from 10 Gbit/s. What request.filter names is taken whatever its speed. At most `most`
/// in all.
RailChoice choose_rails(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                        const InterfaceAddress& chosen, const std::map<std::string, InterfaceFacts>& facts,
                        std::size_t most);

/// "10.0.1.0/24"; the address itself where it has no prefix.
std::string network_of(const InterfaceAddress& address);

/// The interface by which packets from `from`, an address of this host, to `to` leave; empty when there is no route or
/// the kernel does not say.
std::string interface_towards(std::string_view from, std::string_view to);

/// The share of the `index`th of `sharers` in `count` things: from, to. With fewer things than sharers, one that
/// several have.
std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t index, std::size_t sharers);

}  // namespace fabring
