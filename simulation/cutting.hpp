#pragma once
// Cutting: into which tiles a call is cut, as the engine cuts it (collectives/tiling.hpp).

#include <array>
#include <cstddef>
#include <cstdint>

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

  /// Elements of a tile; with blocks, of each block's part of it. Tiles have one of two lengths.
  std::size_t length(std::size_t cut) const { return lengths_[cut]; }
  std::size_t cut(std::uint32_t tile) const { return tile < longer_tiles_ ? 0 : 1; }

 private:
  std::uint32_t tiles_ = 1;
  std::uint32_t depth_ = 1;
  std::uint32_t longer_tiles_ = 0;  // they come first
  std::array<std::size_t, 2> lengths_{};
};

}  // namespace fabring::simulation
