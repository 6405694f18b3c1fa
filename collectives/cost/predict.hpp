#pragma once
// predict(): what a collective costs by an algorithm, in closed form: the time of one tile through all rounds, and for
// each further tile that of the busiest resource. In integers, so every rank gets the same. The simulation
// (simulation/) runs the plans instead; tests/simulation holds the two against each other.

#include <optional>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"

namespace fabring {

/// `bytes`: of the whole vector, or of all blocks together (docs/algorithms.md). None: the collective has no such
/// algorithm, or it is not priced.
std::optional<Nanoseconds> predict(Collective collective, Algorithm algorithm, std::uint64_t bytes,
                                   const WorldShape& shape, const Machine& machine);

/// The same of a vector that is cut as `machine.tiling` says, whatever the collective and algorithm.
std::optional<Nanoseconds> predict_cut(Collective collective, Algorithm algorithm, std::uint64_t bytes,
                                       const WorldShape& shape, const Machine& machine);

}  // namespace fabring
