#pragma once
// Calibration: what formulas leave over. Prices add up messages, copies and turns; how much of a vector of this size
// the caches keep, and how well the kernel overlaps what it does for both ends, they do not know. So a machine that was
// probed also keeps, by size, what allreduce took of its price. It is the same for all algorithms of a size: it does
// not change what is chosen.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace fabring {

struct Machine;
struct Measured;

/// The sizes for which a machine says it, in bytes.
inline constexpr std::array<std::uint64_t, 9> calibrated_sizes{8,       256,     4 << 10,  32 << 10, 256 << 10,
                                                               1 << 20, 4 << 20, 16 << 20, 64 << 20};

struct Calibration {
  std::array<std::uint32_t, calibrated_sizes.size()> percent{100, 100, 100, 100, 100, 100, 100, 100, 100};
  /// For a vector of `bytes`: in between, by the logarithm of the size; as the nearest beyond both ends.
  std::uint32_t at(std::uint64_t bytes) const;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// What a machine's file calls one of them: allreduce_percent_8 to allreduce_percent_64M.
std::string_view calibration_field(std::size_t index);

inline constexpr std::uint32_t least_calibration = 50;
inline constexpr std::uint32_t most_calibration = 200;

/// Of the fastest allreduce of each size that was measured; 100 where none was. `machine`: with every percent at 100.
Calibration calibrate(const Machine& machine, std::span<const Measured> measured);

}  // namespace fabring
