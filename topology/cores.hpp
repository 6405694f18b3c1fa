#pragma once
// cores_of(): which processors are threads of one core, and in which order cores lie beside each other. Linux usually
// numbers the first threads of all cores before the second ones, and may number packages in turn, so that neighbouring
// numbers say neither.

#include <vector>

#include "topology/host_files.hpp"

namespace fabring {

/// The processors of each core, of these ones only: package by package, in it NUMA node by NUMA node, in it core by
/// core. `numa`: the processors of each node. A processor of which /sys tells nothing is a core by itself.
std::vector<std::vector<int>> cores_of(const std::vector<int>& cpus, const std::vector<std::vector<int>>& numa,
                                       const HostFiles& files = HostFiles());

}  // namespace fabring
