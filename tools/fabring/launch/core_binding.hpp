#pragma once
// Which processors each rank of a host is bound to. Pure.

#include <vector>

namespace fabring::tools {

enum class Binding : unsigned char { none, core, numa };

/// Processors for each rank, ascending; empty lists where the rank is not bound. `cores`: the processors of each core
/// that may be used, neighbours beside each other (topology/cores.hpp). `numa`: all processors of each NUMA node.
std::vector<std::vector<int>> core_bindings(Binding binding, int ranks, const std::vector<std::vector<int>>& cores,
                                            const std::vector<std::vector<int>>& numa);

}  // namespace fabring::tools
