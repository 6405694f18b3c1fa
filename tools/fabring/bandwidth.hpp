#pragma once
// Bandwidths as nccl-tests count them, from a time.

#include <cstddef>

#include "fabring/types.hpp"

namespace fabring::tools {

/// GB/s, 1e9 bytes.
double algorithm_bandwidth(std::size_t bytes, double time_us);
/// What times algbw gives busbw: 2(n-1)/n for allreduce; (n-1)/n for reduce_scatter, all_gather, gather, scatter and
/// alltoall; 1 for broadcast and reduce.
double bus_factor(Collective collective, int ranks);

}  // namespace fabring::tools
