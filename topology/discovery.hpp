#pragma once
// discover_topology(): this host, or a recorded one, as a Topology. hwloc finds processors, memory and the PCI tree;
// the kernel's files add what hwloc does not tell of a card (link, port, MTU). Takes 10 to 30 ms on a small host, more
// on a large one: start-up calls it only where there is something to choose. discovery.cpp is the one file that
// includes hwloc.

#include <filesystem>

#include "fabring/status.hpp"
#include "topology/topology.hpp"

namespace fabring {

/// This host as this process may use it. `root` is where /sys and /proc are looked for besides what hwloc reads itself.
/// Errors: unavailable when hwloc cannot read the machine.
Result<Topology> discover_topology(const std::filesystem::path& root = "/");

/// A machine that was recorded: hwloc's XML, version 2, as `lstopo machine.xml` or record_topology write it.
/// Loaded in a child process first, since hwloc crashes on some malformed files: for programs with one thread.
/// Errors: unavailable when the file cannot be read or no child can be started; invalid_argument when it is not such a
/// file.
Result<Topology> read_topology(const std::filesystem::path& file);

/// Writes this host as hwloc's XML, with the ports' state, speed and MTU and the links' speeds as further attributes.
/// Errors: unavailable.
Status record_topology(const std::filesystem::path& file, const std::filesystem::path& root = "/");

}  // namespace fabring
