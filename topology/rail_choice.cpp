#include "topology/rail_choice.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace fabring {
namespace {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  char buffer[256] = "";
  in.getline(buffer, sizeof buffer);
  return buffer;
}

std::string place(const InterfaceAddress& address) { return address.interface + " " + address.address; }

const InterfaceFacts& known(const std::map<std::string, InterfaceFacts>& facts, const std::string& interface) {
  static const InterfaceFacts nothing;
  const auto at = facts.find(interface);
  return at == facts.end() ? nothing : at->second;
}

// The interface and all that it rests on, as a bridge does on a VLAN, and that on a bond of cards.
void add_stack(const std::map<std::string, InterfaceFacts>& facts, const std::string& interface,
               std::set<std::string>& stack) {
  if (!stack.insert(interface).second) return;
  for (const std::string& below : known(facts, interface).below) add_stack(facts, below, stack);
}

bool have_common(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& name) { return other.contains(name); });
}

// On how many interfaces this address is. Host ends of pods' veths borrow one: by it no card can be told.
std::size_t holders(const std::vector<InterfaceAddress>& addresses, const std::string& address) {
  std::set<std::string> interfaces;
  for (const InterfaceAddress& one : addresses)
    if (one.up && !one.loopback && one.address == address) interfaces.insert(one.interface);
  return interfaces.size();
}

// What a card that says nothing is taken for until it has carried something (transports/rails).
constexpr std::uint32_t usual_megabits = 10'000;

// Why large messages should not take this card; empty: they should.
std::string slowness(const RailChoice::Rail& rail, const RailChoice::Rail& first, std::uint32_t best) {
  if (rail.megabits == 0 && first.megabits == 0) return {};
  const std::string speed = rail.megabits > 0 ? std::to_string(rail.megabits) + " Mbit/s" : "of unknown speed";
  if (rail.megabits != best) return speed + ", others have " + std::to_string(best);
  if (first.megabits == 0 && best < usual_megabits)
    return speed + ", and " + first.address.interface + ", whose speed is not known, is taken for a faster one";
  return {};
}

}  // namespace

InterfaceFacts read_interface_facts(const std::string& interface, const std::filesystem::path& root) {
  InterfaceFacts facts;
  if (interface.empty() || interface.find('/') != std::string::npos || interface[0] == '.') return facts;
  const std::filesystem::path folder = root / "sys/class/net" / interface;
  const std::string type = first_line(folder / "type");  // ARPHRD_*: 1 Ethernet, 32 InfiniBand
  std::string kind;
  std::ifstream events(folder / "uevent");
  for (std::string line; std::getline(events, line);)
    if (line.starts_with("DEVTYPE=")) kind = line.substr(8);
  // What a container sees as its own (macvlan, ipvlan, one end of a veth) leads to a card outside.
  const bool own = kind.empty() || kind == "vlan" || kind == "bond" || kind == "macvlan" || kind == "ipvlan";
  std::error_code error;
  const bool tunnel = std::filesystem::exists(folder / "tun_flags", error);
  facts.card = (type == "1" || type == "32") && own && !tunnel;
  const std::string speed = first_line(folder / "speed");  // -1 where nobody knows
  const long long megabits = std::atoll(speed.c_str());
  facts.megabits = megabits > 0 && megabits <= UINT32_MAX ? static_cast<std::uint32_t>(megabits) : 0;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("lower_")) facts.below.push_back(name.substr(6));
  }
  std::sort(facts.below.begin(), facts.below.end());
  return facts;
}

std::map<std::string, InterfaceFacts> read_interface_facts(const std::vector<InterfaceAddress>& addresses,
                                                           const std::filesystem::path& root) {
  std::map<std::string, InterfaceFacts> facts;
  std::vector<std::string> left;
  for (const InterfaceAddress& one : addresses) left.push_back(one.interface);
  while (!left.empty()) {
    const std::string interface = std::move(left.back());
    left.pop_back();
    const auto [read, added] = facts.try_emplace(interface);
    if (!added) continue;
    read->second = read_interface_facts(interface, root);
    left.insert(left.end(), read->second.below.begin(), read->second.below.end());
  }
  return facts;
}

std::string network_of(const InterfaceAddress& address) {
  unsigned char bytes[16] = {};
  const int family = address.v6 ? AF_INET6 : AF_INET;
  const int bits = address.v6 ? 128 : 32;
  if (::inet_pton(family, address.address.c_str(), bytes) != 1 || address.prefix_bits <= 0 ||
      address.prefix_bits > bits)
    return address.address;
  for (int bit = address.prefix_bits; bit < bits; ++bit)
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] & ~(0x80 >> (bit % 8)));
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family, bytes, text, sizeof text);
  return std::string(text) + "/" + std::to_string(address.prefix_bits);
}

RailChoice choose_rails(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                        const InterfaceAddress& chosen, const std::map<std::string, InterfaceFacts>& facts,
                        std::size_t most) {
  const bool named = !request.filter.empty() && request.filter[0] != '^';
  RailChoice choice;
  std::set<std::string> taken;
  add_stack(facts, chosen.interface, taken);
  std::vector<RailChoice::Rail> others;
  const std::vector<InterfaceAddress> usable = usable_interfaces(addresses, request);
  std::set<std::string> borrowed;
  for (const InterfaceAddress& one : usable) {
    if (one.loopback || chosen.loopback || one.v6 != chosen.v6 || one.interface == chosen.interface) continue;
    if (const std::size_t count = holders(named ? usable : addresses, one.address); count > 1) {
      if (borrowed.insert(one.address).second)
        choice.rejected.push_back(place(one) + ": an address of " + std::to_string(count) + " interfaces");
      continue;
    }
    const InterfaceFacts& about = known(facts, one.interface);
    std::set<std::string> stack;
    add_stack(facts, one.interface, stack);
    if (have_common(stack, taken)) {
      choice.rejected.push_back(place(one) + ": the same card as another");
    } else if (!named && !about.card) {
      choice.rejected.push_back(place(one) + ": no card of its own (a bridge or a tunnel)");
    } else {
      taken.merge(stack);
      others.push_back({one, network_of(one), about.megabits, true});
    }
  }
  RailChoice::Rail first{chosen, network_of(chosen), known(facts, chosen.interface).megabits, true};
  std::uint32_t best = first.megabits;
  for (const RailChoice::Rail& rail : others) best = std::max(best, rail.megabits);
  first.fast = named || first.megabits == 0 || first.megabits == best;
  choice.rails.push_back(first);
  for (RailChoice::Rail& rail : others) {
    if (const std::string why = named ? "" : slowness(rail, first, best); !why.empty()) {
      choice.rejected.push_back(place(rail.address) + ": " + why);
    } else if (choice.rails.size() >= most) {
      choice.rejected.push_back(place(rail.address) + ": FABRING_RAILS");
    } else {
      choice.rails.push_back(std::move(rail));
    }
  }
  // Alone it has nobody to leave the large messages to.
  if (choice.rails.size() == 1) choice.rails.front().fast = true;
  return choice;
}

std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t index, std::size_t sharers) {
  const std::size_t from = index * count / sharers;
  return {from, std::max(from + 1, (index + 1) * count / sharers)};
}

}  // namespace fabring
