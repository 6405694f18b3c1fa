#include "runtime/engine/waiting/wait_circle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace fabring {
namespace {

constexpr std::size_t most_note_bytes = 120;
constexpr std::string_view before_names = " s for ";
constexpr std::string_view before_number = "rank ";

}  // namespace

std::string wait_note(std::string_view operation, std::string_view label, std::chrono::seconds waited,
                      std::string_view for_whom) {
  return fmt::format("{} on '{}' has waited {}{}{}", operation, label, waited.count(), before_names, for_whom)
      .substr(0, most_note_bytes);
}

std::optional<std::vector<Rank>> named_in_wait_note(std::string_view note) {
  const auto names = note.rfind(before_names);  // the label of a communicator may be anything
  if (names == std::string_view::npos || note.size() >= most_note_bytes) return std::nullopt;
  std::string_view rest = note.substr(names + before_names.size());
  std::vector<Rank> ranks;
  for (auto at = rest.find(before_number); at != std::string_view::npos; at = rest.find(before_number)) {
    rest = rest.substr(at + before_number.size());
    Rank rank = -1;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), rank).ec != std::errc() || rank < 0)
      return std::nullopt;
    ranks.push_back(rank);
  }
  if (ranks.empty()) return std::nullopt;
  return ranks;
}

bool wait_in_circle(Rank self, std::span<const Rank> ranks, const std::function<std::string(Rank)>& note_of) {
  std::vector<Rank> reached(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == self) continue;
    const auto named = named_in_wait_note(note_of(reached[i]));
    if (!named) return false;
    for (const Rank next : *named)
      if (std::ranges::find(reached, next) == reached.end()) reached.push_back(next);
  }
  return !reached.empty();
}

}  // namespace fabring
