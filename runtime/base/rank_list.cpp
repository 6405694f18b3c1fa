#include "runtime/base/rank_list.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace fabring {

std::string rank_list(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  constexpr std::size_t most_items = 8;
  std::vector<std::string> items;
  std::size_t next = 0;
  while (next < ranks.size() && items.size() < most_items) {
    std::size_t last = next;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last >= next + 2) {
      items.push_back(fmt::format("{}-{}", ranks[next], ranks[last]));
      next = last + 1;
    } else {
      items.push_back(std::to_string(ranks[next++]));
    }
  }
  std::string text = "ranks ";
  const bool cut = next < ranks.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() && !cut ? " and " : ", ";
    text += items[i];
  }
  if (cut) text += fmt::format(", ... ({} ranks)", ranks.size());
  return text;
}

std::string duration_text(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  const double tenths = static_cast<double>(std::llround(seconds * 10)) / 10;
  return fmt::format("{:g} s", tenths);
}

}  // namespace fabring
