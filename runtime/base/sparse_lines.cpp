#include "runtime/base/sparse_lines.hpp"

#include <fmt/format.h>

#include <utility>

namespace fabring {

std::optional<std::string> SparseLines::due(std::string_view line, Clock::time_point now) {
  if (last_ && now - *last_ < interval) {
    ++left_out_;
    return std::nullopt;
  }
  last_ = now;
  const std::uint64_t before = std::exchange(left_out_, 0);
  return before == 0 ? std::string(line) : fmt::format("{} (and {} more like it before)", line, before);
}

}  // namespace fabring
