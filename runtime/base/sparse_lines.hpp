#pragma once
// SparseLines: lines about what strangers do, of which anybody could make as many as the log has room for. The first is
// written at once, then one in ten seconds, which says how many were left out. One thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fabring {

class SparseLines {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto interval = std::chrono::seconds(10);

  /// What to write of this line: itself, with the count of those before it that were not written; or nothing now.
  std::optional<std::string> due(std::string_view line, Clock::time_point now = Clock::now());

 private:
  std::optional<Clock::time_point> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace fabring
