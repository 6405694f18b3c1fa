#pragma once
// Which processors each rank of a host is bound to. Pure.

#include <vector>

namespace fabring::tools {

enum class Binding : unsigned char { none, core, numa };

/// Processors for each rank, of those that are `allowed` here; empty lists where the rank is not bound. `numa`: the
/// processors of each NUMA node.
std::vector<std::vector<int>> core_bindings(Binding binding, int ranks, const std::vector<int>& allowed,
                                            const std::vector<std::vector<int>>& numa);

}  // namespace fabring::tools
