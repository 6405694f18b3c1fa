#include "simulation/stragglers.hpp"

namespace fabring::simulation {
namespace {

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Nanoseconds lateness(const Stragglers& stragglers, Rank rank) {
  if (stragglers.probability <= 0) return 0;
  const std::uint64_t bits = mixed(stragglers.seed * 0x100000001b3u + static_cast<std::uint64_t>(rank)) >> 11;
  return static_cast<double>(bits) * 0x1p-53 < stragglers.probability ? stragglers.late_ns : 0;
}

int late_ranks(const Stragglers& stragglers, int ranks) {
  int late = 0;
  for (Rank rank = 0; rank < ranks; ++rank) late += lateness(stragglers, rank) > 0 ? 1 : 0;
  return late;
}

Nanoseconds lateness_of_all(const Stragglers& stragglers, int ranks) {
  return late_ranks(stragglers, ranks) > 0 ? stragglers.late_ns : 0;
}

}  // namespace fabring::simulation
