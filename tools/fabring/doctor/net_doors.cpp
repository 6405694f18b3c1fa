#include "tools/fabring/doctor/net_doors.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <set>

#include "runtime/base/descriptor.hpp"
#include "runtime/startup/host_rails.hpp"

namespace fabring::tools {
namespace {

std::uint32_t mtu_of(const std::string& interface) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof(request.ifr_name) - 1);
  if (socket.fd() < 0 || ::ioctl(socket.fd(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

void list_interfaces(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                     const std::string& chosen, NetFacts& facts) {
  for (const std::string& name : interfaces_to_compare(addresses, request, chosen, read_interface_facts(addresses)))
    facts.interfaces.push_back(fmt::format("{} {} {}", name, mtu_of(name), link_megabits(name)));
}

// The cards, and what the job would open on them.
class Opening {
 public:
  Opening(const std::vector<InterfaceAddress>& addresses, NetProbe& probe, NetFacts& facts)
      : addresses_(addresses), probe_(probe), facts_(facts) {}

  void listen(const std::string& purpose, const std::string& address) {
    auto listening = probe_.listen(address);
    if (!listening) {
      facts_.problem = fmt::format("for {}: {}", purpose, listening.error().message());
      return;
    }
    Door door;
    door.purpose = purpose;
    door.address = listening->to_string();
    for (const InterfaceAddress& one : addresses_)
      if (one.address == address) {
        door.interface = one.interface;
        door.network = network_of(one);
      }
    door.mtu = mtu_of(door.interface);
    facts_.doors.push_back(std::move(door));
  }

 private:
  const std::vector<InterfaceAddress>& addresses_;
  NetProbe& probe_;
  NetFacts& facts_;
};

bool would_share_memory(const Config& config) {
  return config.transport.find("auto") != std::string::npos || config.transport.find("shm") != std::string::npos;
}

}  // namespace

std::vector<std::string> interfaces_to_compare(const std::vector<InterfaceAddress>& addresses,
                                               const InterfaceRequest& request, const std::string& chosen,
                                               const std::map<std::string, InterfaceFacts>& about) {
  const bool named = !request.filter.empty() && request.filter[0] != '^';
  std::set<std::string> names;
  for (const InterfaceAddress& one : usable_interfaces(addresses, request)) {
    const auto known = about.find(one.interface);
    const bool card = known != about.end() && known->second.card;
    if (!one.loopback && (card || named || one.interface == chosen)) names.insert(one.interface);
  }
  return {names.begin(), names.end()};
}

void open_doors(const Config& config, const Bootstrap& bootstrap, const std::string& secret, NetProbe& probe,
                FabricProbe& fabric, NetFacts& facts) {
  const auto addresses = interface_addresses();
  if (!addresses) {
    facts.problem = addresses.error().message();
    return;
  }
  const InterfaceRequest request{config.interface, bootstrap.all_on_this_host(), bootstrap.local_address()};
  auto choice = choose_interface(*addresses, request);
  list_interfaces(*addresses, request, choice ? choice->chosen.interface : "", facts);
  if (!choice) {
    facts.problem = choice.error().message();
    return;
  }
  const RailChoice cards = find_rails(*addresses, request, choice->chosen, config.rails);
  Opening opening(*addresses, probe, facts);
  const std::string first = choice->chosen.address;
  const std::string control = bootstrap.all_on_this_host() ? first : bootstrap.local_address();
  if (control != first) opening.listen("control", control);
  for (const RailChoice::Rail& card : cards.rails)
    opening.listen(card.address.address == first && control == first ? "control and data" : "data",
                   card.address.address);
  if (bootstrap.all_on_this_host() && would_share_memory(config)) return;  // no network is looked for
  EndpointOptions options;
  options.self = config.rank;
  options.world_size = config.world_size;
  options.bind_address = first;
  options.job_nonce = bootstrap.job_nonce();
  options.job_id = config.job_id;
  options.secret = secret;
  options.config = config;
  fabric.open(options, cards, facts);
}

}  // namespace fabring::tools
