#include "runtime/startup/locality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "topology/cpus.hpp"
#include "topology/discovery.hpp"
#include "topology/placement.hpp"

namespace fabring {

bool host_has_places() {
  if (numa_nodes().size() > 1) return true;
  std::error_code error;
  std::filesystem::directory_iterator at("/sys/class/infiniband", error), end;
  return !error && at != end && ++at != end;
}

Locality find_locality(const Topology& topology, int local_rank, const std::vector<int>& cpus) {
  Locality locality;
  const auto local = static_cast<std::size_t>(std::max(local_rank, 0));
  std::vector<std::size_t> rails;
  if (!topology.gpus.empty()) {
    const std::size_t gpu = local % topology.gpus.size();
    rails = rails_for_gpu(topology, gpu);
    if (!rails.empty())
      locality.reason = fmt::format("GPU {}, {}", gpu,
                                    name(proximity(topology, topology.gpus[gpu].place, topology.nics[rails[0]].place)));
  } else if (const int node = numa_of(topology, cpus); node >= 0) {
    rails = rails_for_cpus(topology, cpus);
    // Ranks of a node take turns, so that each of several cards has its share.
    if (!rails.empty())
      std::rotate(rails.begin(), rails.begin() + static_cast<std::ptrdiff_t>(local % rails.size()), rails.end());
    locality.reason = fmt::format("NUMA node {}", node);
  }
  for (const std::size_t rail : rails) {
    const Nic& nic = topology.nics[rail];
    if (!nic.interface.empty()) locality.interfaces.push_back(nic.interface);
    if (!nic.rdma.empty()) locality.devices.push_back(nic.rdma);
    if (nic.pci) locality.devices.push_back(text(*nic.pci));
  }
  return locality;
}

std::string Locality::describe() const {
  std::string names;
  for (const auto& list : {interfaces, devices})
    for (const std::string& one : list)
      if (!parse_pci_address(one)) names += (names.empty() ? "" : ", ") + one;
  return reason + ": " + (names.empty() ? "no card" : names);
}

std::vector<int> progress_cpus(const Topology& topology, const std::string& card) {
  if (topology.numa.size() < 2) return {};
  for (const Nic& nic : topology.nics) {
    if (card.empty() || (nic.interface != card && nic.rdma != card) || nic.place.numa < 0) continue;
    std::vector<int> cpus = cpus_near(topology, nic);
    if (cpus.size() < topology.allowed_cpus.size()) return cpus;
  }
  return {};
}

HostPlaces find_places(int local_rank) {
  HostPlaces places;
  if (!host_has_places()) return places;
  auto discovered = discover_topology();
  if (!discovered) {
    places.note = "which cards are near is not known: " + discovered.error().message();
    return places;
  }
  places.topology = std::move(*discovered);
  places.locality = find_locality(*places.topology, local_rank, places.topology->allowed_cpus);
  return places;
}

std::vector<int> settle_places(const HostPlaces& places, const std::string& card, std::vector<std::string>& report) {
  if (!places.note.empty()) report.push_back(places.note);
  if (!places.topology) return {};
  if (!places.locality.reason.empty()) report.push_back("near " + places.locality.describe());
  std::vector<int> cpus = progress_cpus(*places.topology, card);
  if (!cpus.empty())
    report.push_back(fmt::format("progress thread on processors {} to {}, near {}", cpus.front(), cpus.back(), card));
  return cpus;
}

}  // namespace fabring
