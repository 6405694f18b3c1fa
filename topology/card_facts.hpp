#pragma once
// What the kernel's files say about cards: PCI link, port state, speed, MTU, driver. The root is handed in, so tests
// make their own /sys. Everything read is checked: a file that is missing or nonsense leaves the field unknown.

#include <filesystem>

#include "topology/topology.hpp"

namespace fabring {

/// Fills link, driver, megabits, mtu_bytes, state (and a NUMA node that is still unknown) of all NICs and GPUs, and
/// adds interfaces that have no PCI device: those of virtual machines, bonds, and, where there is nothing else, a
/// container's.
void add_card_facts(Topology& topology, const std::filesystem::path& root);

/// Megabits per second that the kernel says the first port of an RDMA device has ("rdmap16s27"); 0 where it does not.
std::uint32_t port_megabits(const std::string& device, const std::filesystem::path& root = "/");

/// "16.0 GT/s PCIe" is 16; 0 for anything else.
double parse_link_speed(std::string_view text);

/// "100 Gb/sec (4X EDR)" is 100000; 0 for anything else.
std::uint32_t parse_port_rate(std::string_view text);

}  // namespace fabring
