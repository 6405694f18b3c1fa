#pragma once
// Pace: how long a byte of something takes, lately.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fabring {

class Pace {
 public:
  static constexpr std::uint32_t samples = 4;  // the least counts: in the others the processor may have been taken away
  static constexpr double unknown = std::numeric_limits<double>::infinity();

  void took(std::size_t bytes, std::int64_t nanoseconds) {
    lately_[next_++ % samples] = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
  }
  double nanoseconds_a_byte() const { return *std::ranges::min_element(lately_); }

 private:
  std::array<double, samples> lately_{unknown, unknown, unknown, unknown};
  std::uint32_t next_ = 0;
};

}  // namespace fabring
