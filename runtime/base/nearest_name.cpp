#include "runtime/base/nearest_name.hpp"

#include <algorithm>
#include <vector>

namespace fabring {
namespace {
char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr std::size_t longest_word = 128;  // what comes from outside may be long, and the work is quadratic

// How long what both begin with is, in whole words: "FABRING_" says nothing of which setting was meant.
std::size_t shared_words(std::string_view one, std::string_view other) {
  std::size_t shared = 0;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()) && folded(one[i]) == folded(other[i]); ++i)
    if (one[i] == '_') shared = i + 1;
  return shared;
}

// `own`: of it what not all begin with. In a short word two letters may be anything, and in two letters ("-n") one may.
std::size_t most_typing_errors(std::size_t word, std::size_t own) {
  if (own > 4) return std::max<std::size_t>(2, own / 3);
  return word > 2 ? 1 : 0;
}

bool ends_with_words(std::string_view name, std::string_view words) {
  return name.size() > words.size() && name[name.size() - words.size() - 1] == '_' &&
         std::ranges::equal(name.substr(name.size() - words.size()), words, {}, folded, folded);
}
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
  std::size_t least = word.size() + 1;
  for (std::string_view name : known) {
    const std::size_t shared = shared_words(word, name);
    const std::string_view own = word.substr(shared), others = name.substr(shared);
    const std::size_t distance = edit_distance(own, others);
    if (distance < least && distance < others.size() && distance <= most_typing_errors(word.size(), own.size())) {
      least = distance;
      best = name;
    }
  }
  if (!best.empty()) return best;
  // Only a word in the middle may be missing.
  const auto is_meant = [&](std::string_view name) {
    const std::string_view own = word.substr(shared_words(word, name));
    return own.size() > 2 && own.size() < word.size() && ends_with_words(name, own);
  };
  const auto found = std::ranges::find_if(known, is_meant);
  return found == known.end() ? std::string_view() : *found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest_name(word, known);
  return best.empty() ? std::string() : "; did you mean '" + std::string(best) + "'?";
}

}  // namespace fabring
