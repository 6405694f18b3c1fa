#pragma once
// Locality: what the make-up of the host means for one rank: which cards are near its GPU or its processors, and where
// its progress thread should run. Looked for only where there is something to choose, since hwloc takes its time.

#include <optional>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace fabring {

struct Locality {
  /// Near this rank, best first; empty: nothing to prefer.
  std::vector<std::string> interfaces;
  /// RDMA devices ("rdmap16s27") and PCI addresses ("0000:10:1b.0") near this rank, best first.
  std::vector<std::string> devices;
  std::string reason;  ///< "GPU 3, same PCI switch"; empty: nothing is preferred
  /// "GPU 3, same PCI switch: rdmap16s27, rdmap17s28"
  std::string describe() const;
};

/// True when cards may differ in their distance to ranks: several NUMA nodes, or several RDMA devices. Reads a few
/// files.
bool host_has_places();

/// Pure. `cpus` are those that the rank may use; `local_rank` its number on this host (-1: not known).
Locality find_locality(const Topology& topology, int local_rank, const std::vector<int>& cpus);

/// Processors for the progress thread of a rank that uses this card (an interface's or an RDMA device's name); empty:
/// leave it where the kernel puts it. Pure.
std::vector<int> progress_cpus(const Topology& topology, const std::string& card);

/// What start-up asks of a host with other hosts beside it.
struct HostPlaces {
  std::optional<Topology> topology;  ///< nothing where there is nothing to choose, or hwloc fails
  Locality locality;
  std::string note;  ///< why nothing is known, for the report; empty: nothing to say
};
HostPlaces find_places(int local_rank);

/// Where the progress thread should run, given the card that was opened first (an interface's or an RDMA device's
/// name), and lines about all this for the report. Empty where nothing was looked for.
std::vector<int> settle_places(const HostPlaces& places, const std::string& card, std::vector<std::string>& report);

}  // namespace fabring
