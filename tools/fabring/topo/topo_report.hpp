#pragma once
// A Topology for people and for programs: which network card serves which GPU and which processors, and where all of it
// sits. Text of 80 columns; JSON with every field of the value.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace fabring::tools {

/// The devices below one PCI switch (or without one) of one NUMA node, as text and picture group them.
struct DeviceGroup {
  int numa = -1;    ///< -1: the machine does not say
  int bridge = -1;  ///< index of the innermost bridge that is not a host bridge; -1: none
  std::vector<std::size_t> gpus, nics;
};
/// By NUMA node, then in the order of the bus.
std::vector<DeviceGroup> device_groups(const Topology& topology);

/// "0-3,8"; empty for none.
std::string cpu_ranges(const std::vector<int>& cpus);
/// "100 Gbit/s", "2.5 Gbit/s", "100 Mbit/s"; empty for 0.
std::string rate_text(std::uint32_t megabits);
/// "PCIe 16 GT/s x8, best x16"; empty when the kernel does not say.
std::string link_text(const PciLink& link);

/// May this process run on a processor of this node?
bool usable_here(const Topology& topology, const NumaNode& node);

/// One line: "host a: 2 packages, 2 NUMA nodes, 64 cores, 2 of 64 processors usable, ...".
std::string topology_summary(const Topology& topology);
std::string topology_text(const Topology& topology);
/// For --explain: why the cards that serve a GPU, or ranks on a NUMA node, are these, and why others carry nothing.
std::string topology_reasons(const Topology& topology);
nlohmann::ordered_json topology_json(const Topology& topology);

/// A picture: NUMA nodes with their processors, PCI switches, GPUs, cards, and a ribbon from each GPU to its rails.
std::string topology_picture(const Topology& topology);

}  // namespace fabring::tools
