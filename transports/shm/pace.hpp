#pragma once
// Pace: how long a byte of a copy takes, lately.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fabring::shm {

class Pace {
 public:
  static constexpr std::uint32_t samples = 4;  // the least counts: in the others the processor may have been taken away
  static constexpr double unknown = std::numeric_limits<double>::infinity();

  void took(std::size_t bytes, std::int64_t nanoseconds) {
    lately_[next_++ % samples] = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
  }
  double nanoseconds_a_byte() const { return *std::ranges::min_element(lately_); }
  bool known() const { return next_ >= samples; }

  /// For a peer, who may say anything: picoseconds for 1 KiB; 0: not known.
  std::uint32_t published() const {
    return known() ? static_cast<std::uint32_t>(std::clamp(nanoseconds_a_byte() * 1024 * 1000, 1.0, most)) : 0;
  }
  static double of_published(std::uint32_t pace) { return pace == 0 ? unknown : pace / (1024.0 * 1000); }

 private:
  static constexpr double most = 4e9;

  std::array<double, samples> lately_{unknown, unknown, unknown, unknown};
  std::uint32_t next_ = 0;
};

}  // namespace fabring::shm
