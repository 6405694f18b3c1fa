#pragma once
// PricedSteps: what the simulation needs to know of each step of a plan, reckoned once for all ranks of its class.

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/cutting.hpp"
#include "simulation/rank_state.hpp"
#include "simulation/schedule.hpp"

namespace fabring::simulation {

/// By the two lengths of tiles (Cutting::cut), `bytes` and `cost`.
struct PricedStep {
  std::array<std::uint64_t, 2> bytes{};
  std::array<Nanoseconds, 2> cost{};  ///< the processor's time to send it, to take it in, or else to compute it
  Rank peer = -1;                   ///< of the rank of this class in the first unit; where one unit is simulated, in it
  std::int32_t peer_position = -1;  ///< class of the peer
  StepId partner = no_step;         ///< at the peer
  std::uint32_t first_successor = 0;  ///< as in Step
  std::uint32_t successor_count = 0;
  StepKind kind = StepKind::copy;
  bool inside = false;          ///< the peer is on the same node
  bool waits_for_many = false;  ///< for more than a StepState counts
};

class PricedSteps {
 public:
  /// `machine`: as it is to vectors of this size. `every_rank`: all ranks of the world are simulated, not one unit.
  PricedSteps(const Schedule& schedule, const Machine& machine, const Cutting& cutting, std::uint32_t element_bytes,
              bool every_rank);
  const PricedStep& at(std::int32_t position, StepId step) const {
    return classes_[static_cast<std::size_t>(position)][step];
  }
  /// Of all steps, before any is done.
  const std::vector<StepState>& untouched(std::int32_t position) const {
    return untouched_[static_cast<std::size_t>(position)];
  }

 private:
  std::vector<std::vector<PricedStep>> classes_;
  std::vector<std::vector<StepState>> untouched_;
};

}  // namespace fabring::simulation
