#pragma once
// Ranks that are late, as in every job some are. Who it is follows from the seed and the rank alone.

#include <cstdint>

#include "collectives/cost/machine.hpp"
#include "fabring/types.hpp"

namespace fabring::simulation {

struct Stragglers {
  double probability = 0;
  Nanoseconds late_ns = 0;
  std::uint64_t seed = 1;
};

/// How late this rank is.
Nanoseconds lateness(const Stragglers& stragglers, Rank rank);

/// How many of so many ranks are late.
int late_ranks(const Stragglers& stragglers, int ranks);

/// How late the latest of so many ranks is, for whom all wait.
Nanoseconds lateness_of_all(const Stragglers& stragglers, int ranks);

}  // namespace fabring::simulation
