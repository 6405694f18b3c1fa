#include "tools/fabring/doctor/host_facts.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <system_error>

#include "runtime/startup/host_rails.hpp"
#include "tools/fabring/doctor/ip_address.hpp"
#include "tools/fabring/doctor/process_read.hpp"
#include "tools/fabring/doctor/question.hpp"
#include "topology/discovery.hpp"
#include "topology/host_identity.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Networks {
  std::vector<TransportFacts> transports;
  std::vector<std::string> providers;
  std::optional<DevicePathFacts> device_path;
};

Networks probe_transports(const Config& config, const std::string& address, bool gpus) {
  EndpointOptions options;
  options.world_size = 2;
  options.bind_address = address.empty() ? "127.0.0.1" : address;
  options.config = config;
  Networks found;
  for (const auto& transport : {make_shm_transport(), make_fabric_transport(), make_tcp_transport()}) {
    const auto reason = transport->probe(options);
    found.transports.push_back(
        {std::string(transport->name()), reason.has_value(), reason ? *reason : reason.error().message()});
  }
  found.providers = fabric_providers();
  if (gpus) {
    const FabricDeviceOffer offer = fabric_device_offer(options);
    found.device_path = DevicePathFacts{offer.direct, offer.reason};
  }
  return found;
}

std::optional<ClockFacts> read_clock() {
  timex state{};
  const int rc = ::adjtimex(&state);
  if (rc < 0) return std::nullopt;
  return ClockFacts{rc != TIME_ERROR && (state.status & STA_UNSYNC) == 0, static_cast<double>(state.maxerror) / 1e6};
}

std::optional<Space> read_space(const std::filesystem::path& folder) {
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return std::nullopt;
  Space found{std::uint64_t{space.f_frsize} * space.f_blocks, std::uint64_t{space.f_frsize} * space.f_bavail, {}};
  if ((space.f_flag & ST_RDONLY) != 0)
    found.unwritable = "it is mounted read-only";
  else if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    found.unwritable = std::error_code(errno, std::generic_category()).message();
  return found;
}

std::string master_of(const Environment& environment) {
  for (const char* name : {"FABRING_MASTER_ADDR", "MASTER_ADDR"})
    if (const auto at = environment.find(name); at != environment.end() && !at->second.empty()) return at->second;
  return {};
}

// Of cards whose network an earlier one has too, the interface by which their packets leave where that is another.
std::map<std::string, std::string> ways_of_one_network(const std::vector<RailChoice::Rail>& rails,
                                                       const std::vector<InterfaceAddress>& own) {
  std::map<std::string, std::string> found;
  std::set<std::string> networks;
  for (const RailChoice::Rail& rail : rails) {
    if (networks.insert(rail.network).second) continue;
    const std::string to = neighbour_of(rail.address, own);
    const std::string by = to.empty() ? std::string() : interface_towards(rail.address.address, to);
    if (!by.empty() && by != rail.address.interface) found[rail.address.interface] = by;
  }
  return found;
}

// The address that a rank would use, and in the facts the cards.
std::string choose_cards(HostFacts& facts, const Config& config) {
  facts.towards_master = address_towards(facts.environment, facts.master_name);
  facts.rails = {};
  facts.leaves_by.clear();
  if (!facts.interfaces) return {};
  const InterfaceRequest request{config.interface, false, facts.towards_master};
  const auto choice = choose_interface(*facts.interfaces, request);
  if (!choice) return {};
  facts.rails = find_rails(*facts.interfaces, request, choice->chosen, config.rails);
  facts.leaves_by = ways_of_one_network(facts.rails.rails, *facts.interfaces);
  return choice->chosen.address;
}

}  // namespace

std::string address_towards(const Environment& environment, const std::optional<NameFacts>& master_name) {
  const std::string master = master_of(environment);
  if (is_ip_address(master)) return source_address_towards(master);
  if (master_name && !master_name->addresses.empty()) return source_address_towards(master_name->addresses.front());
  // Documentation addresses: nothing is sent, the routing table says which way the default goes.
  return address_by_default(source_address_towards("192.0.2.1"), source_address_towards("2001:db8::1"));
}

std::string neighbour_of(const InterfaceAddress& one, const std::vector<InterfaceAddress>& own) {
  const int family = one.v6 ? AF_INET6 : AF_INET, bits = one.v6 ? 128 : 32;
  unsigned char bytes[16] = {};
  if (::inet_pton(family, one.address.c_str(), bytes) != 1 || one.prefix_bits <= 0 || one.prefix_bits > bits) return {};
  InterfaceAddress other = one;
  for (unsigned number = 1; number < 256; ++number) {
    unsigned char near[16];
    std::copy(std::begin(bytes), std::end(bytes), near);
    near[bits / 8 - 1] = static_cast<unsigned char>(near[bits / 8 - 1] ^ number);
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(family, near, text, sizeof text);
    other.address = text;
    // The first and the last of a network are no host's, but where it has only two.
    const int free_bits = bits - one.prefix_bits;
    const unsigned hosts = free_bits >= 8 ? 255u : (1u << free_bits) - 1, host = near[bits / 8 - 1] & hosts;
    const bool taken = std::any_of(own.begin(), own.end(), [&](const auto& a) { return a.address == other.address; });
    if (network_of(other) == network_of(one) && !taken && (free_bits < 2 || (host != 0 && host != hosts)))
      return other.address;
  }
  return {};
}

std::string address_by_default(const std::string& v4, const std::string& v6) {
  if (!v4.empty() && !is_link_local(v4)) return v4;
  return is_link_local(v6) ? std::string() : v6;
}

HostFacts gather_host_facts(const std::filesystem::path& root, const Environment& environment,
                            std::chrono::duration<double> limit) {
  const auto begin = Clock::now();
  const auto until = begin + std::chrono::duration_cast<Clock::duration>(limit);
  HostFacts facts;
  facts.files = HostFiles(root);
  facts.environment = environment;
  facts.master = master_of(environment);
  facts.process_read = try_process_read();
  prepare_for_fabric();  // before the threads
  Question<Result<Topology>> topology([root] { return discover_topology(root); });
  Question<NameFacts> own_name([] { return resolve_name(host_name()); });
  std::optional<NameQuestion> master_name;
  if (!facts.master.empty() && !is_ip_address(facts.master)) master_name.emplace(facts.master);
  facts.interfaces = interface_addresses();
  facts.clock = read_clock();
  facts.shm = read_space(root / "dev/shm");
  Config config;
  for (const auto& one : environment)
    (void)apply_settings({one}, config);  // what is wrong with it is a finding of its own, and hides no other
  Question<std::vector<RefusedValue>> refused([config] { return refused_values(config); });
  // The probes want the answer, but must not lose all their time to a name service that is silent.
  if (master_name) facts.master_name = master_name->first(begin + (until - begin) / 2);
  const std::string address = choose_cards(facts, config);
  const bool gpus = facts.files.exists("proc/driver/nvidia/version");
  Question<Networks> networks([config, address, gpus] { return probe_transports(config, address, gpus); });
  facts.topology = topology.wait(until);
  if (auto answer = networks.wait(until)) {
    facts.transports = std::move(answer->transports);
    facts.providers = std::move(answer->providers);
    facts.device_path = std::move(answer->device_path);
  }
  facts.own_name = own_name.wait(until);
  facts.refused_values = refused.wait(until);
  if (master_name && (!facts.master_name || !facts.master_name->error.empty())) {
    facts.master_name = master_name->last(until);
    choose_cards(facts, config);  // as a rank would with what is known by now
  }
  facts.complete = facts.topology && facts.transports && facts.own_name && facts.refused_values &&
                   (!master_name || !master_name->pending());
  return facts;
}

}  // namespace fabring::tools
