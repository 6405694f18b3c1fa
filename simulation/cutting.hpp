#pragma once
// Cutting: into which tiles a call is cut, as the engine cuts it (collectives/tiling.hpp), and how many bytes every
// step of a tile moves or computes.

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/simulate.hpp"

namespace fabring::simulation {

class Cutting {
 public:
  Cutting(const Schedule& schedule, const Machine& machine, const Job& job);

  std::uint32_t tiles() const { return tiles_; }
  std::uint32_t depth() const { return depth_; }  ///< of them under way at once
  /// Tiles that send no more than the job's messages in all, but enough to tell the pace: eight times `depth`. `ranks`:
  /// how many are simulated.
  std::uint32_t tiles_within(const Schedule& schedule, const Job& job, std::int64_t ranks, std::uint32_t depth) const;

  /// Of a step of this class of ranks, in this tile.
  std::uint64_t bytes(std::size_t rank_class, StepId step, std::uint32_t tile) const {
    return bytes_[rank_class][tile < longer_tiles_ ? 0 : 1][step];
  }

 private:
  using StepBytes = std::array<std::vector<std::uint64_t>, 2>;  // in the longer tiles and in the shorter ones

  std::uint32_t tiles_ = 1;
  std::uint32_t depth_ = 1;
  std::uint32_t longer_tiles_ = 0;  // they come first
  std::vector<StepBytes> bytes_;    // by class
};

}  // namespace fabring::simulation
