#pragma once
// What a probe of the machine times (machine_probe.hpp), and how much memory that may take.

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithms.hpp"
#include "runtime/startup/machine_probe.hpp"

namespace fabring {

struct ProbeSample {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
  std::size_t bytes = 0;
};

/// Those that tell most come first; what a slow network has no time for is left to the machine probing began with.
std::vector<ProbeSample> probe_samples(ProbeScope scope);

/// Of these sizes what would be chosen is timed too, in this order.
std::span<const std::size_t> chosen_sizes();

/// The longest vector, of a node with so many ranks: all of them have one.
std::size_t longest_probed(ProbeScope scope, int ranks_of_node);

}  // namespace fabring
