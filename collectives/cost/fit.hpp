#pragma once
// fit_machine(): the machine whose prices come closest to what was measured. Prices are closed formulas and cheap, so
// it tries: one field at a time, in factors, until no step comes closer. Fields that the measurements say nothing of
// stay near where they began, and those that are 0 (no limit) stay 0. Prices of what is fastest count most, and a time
// that is far from all prices (something else ran meanwhile) counts little.

#include <cstdint>
#include <span>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"
#include "fabring/types.hpp"

namespace fabring {

/// What one operation took.
struct Measured {
  Collective collective = Collective::allreduce;
  Algorithm algorithm = Algorithm::ring;
  std::uint64_t bytes = 0;  ///< as predict() counts them
  WorldShape shape;
  Nanoseconds time_ns = 0;  ///< above 0
};

/// Of what is predicted, divided by what is measured: 0.8 to 1.2.
constexpr bool within_20_percent(double ratio) { return ratio >= 0.8 && ratio <= 1.2; }

/// How far prices are from measurements, as factors of at least 1: half of them are closer than `median`.
struct Accuracy {
  double median = 1;
  double worst = 1;
  std::size_t within_20_percent = 0;
  std::size_t priced = 0;  ///< measurements whose algorithm has a price
};
Accuracy accuracy_of(const Machine& machine, std::span<const Measured> measured);

/// What may change.
enum class FitOf : std::uint8_t {
  everything,
  all_but_links,  ///< not what a lane between nodes and a card carry
  messages        ///< times only: of calls, messages, grants, a core that turns to another rank; no rate
};

/// What is not priced is passed over; with nothing priced, `start` comes back.
Machine fit_machine(const Machine& start, std::span<const Measured> measured, FitOf what = FitOf::everything);

}  // namespace fabring
