#include "runtime/base/nearest_name.hpp"

#include <algorithm>
#include <vector>

namespace fabring {
namespace {
char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr std::size_t longest_word = 128;  // what comes from outside may be long, and the work is quadratic
}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  from = from.substr(0, longest_word);
  to = to.substr(0, longest_word);
  std::vector<std::size_t> before_last(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool same = folded(from[i - 1]) == folded(to[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && folded(from[i - 1]) == folded(to[j - 2]) && folded(from[i - 2]) == folded(to[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[to.size()];
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string_view name : known) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < least && distance < name.size()) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest_name(word, known);
  return best.empty() ? std::string() : "; did you mean '" + std::string(best) + "'?";
}

}  // namespace fabring
