#pragma once
// Topology: what a host is made of, as a value: packages, NUMA nodes, caches, the processors that may be used, GPUs,
// network cards and the PCI bridges between them. discovery.hpp makes one of this host or of a recorded machine;
// placement.hpp chooses by it. Nothing here asks the system anything.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/pci.hpp"

namespace fabring {

struct Package {
  int number = 0;
  std::string model;  ///< "AMD EPYC 9R14"; may be empty
  std::vector<int> cpus;
};

struct NumaNode {
  int number = 0;  ///< the kernel's
  int package = -1;
  std::uint64_t memory_bytes = 0;
  std::vector<int> cpus;
};

struct Cache {
  int level = 0;
  std::uint64_t bytes = 0;
  std::vector<int> cpus;
};

/// A bridge of the PCI tree. Devices below the same one that is not a host bridge reach each other without the host.
struct Bridge {
  int parent = -1;    ///< index in Topology::bridges; -1: none
  bool host = false;  ///< between the processors and a PCI root
  std::optional<PciAddress> pci;
};

/// Where a device sits. -1 and empty where the machine does not say.
struct Place {
  int package = -1;
  int numa = -1;
  std::vector<int> bridges;  ///< indices in Topology::bridges, outermost first
  std::vector<int> cpus;     ///< those that are equally near
};

enum class NicKind : std::uint8_t { ethernet, efa, infiniband, virtual_interface };
std::string_view name(NicKind kind);

enum class LinkState : std::uint8_t { unknown, up, down };
std::string_view name(LinkState state);

/// A port to the network: an interface, an RDMA device, or both of one card.
struct Nic {
  std::string interface;  ///< "eth0"; empty: none (EFA for data only)
  std::string rdma;       ///< "rdmap16s27", "mlx5_0"; empty: none
  NicKind kind = NicKind::ethernet;
  std::optional<PciAddress> pci;
  std::uint16_t vendor_id = 0, device_id = 0;
  std::string model;
  std::string driver;
  Place place;
  PciLink link;
  std::uint32_t megabits = 0;  ///< of the port; 0: not known
  std::uint32_t mtu_bytes = 0;
  LinkState state = LinkState::unknown;
  /// "eth0", else "rdmap16s27", else its PCI address.
  std::string label() const;
};

struct Gpu {
  PciAddress pci;
  std::uint16_t vendor_id = 0, device_id = 0;
  std::string model;
  Place place;
  PciLink link;
};

struct Topology {
  std::string host;
  bool recorded = false;  ///< read from a file: this host is another one
  std::vector<Package> packages;
  std::vector<NumaNode> numa;  ///< ascending by number
  /// numa_distances[i][j] from numa[i] to numa[j], 10 is local; empty when the machine does not say.
  std::vector<std::vector<std::uint64_t>> numa_distances;
  std::vector<Cache> caches;        ///< from level 2 up
  int cores = 0;                    ///< of the whole machine, each with one or more processors
  std::vector<int> cpus;            ///< all processors, ascending
  std::vector<int> allowed_cpus;    ///< those that the cpuset and the affinity mask leave, ascending
  std::optional<double> cpu_quota;  ///< processors' worth of time that the control group grants
  std::uint64_t memory_bytes = 0;
  std::vector<Bridge> bridges;
  std::vector<Gpu> gpus;  ///< in the order of the bus, as CUDA_DEVICE_ORDER=PCI_BUS_ID numbers them
  std::vector<Nic> nics;  ///< in the order of the bus, then by name
};

}  // namespace fabring
