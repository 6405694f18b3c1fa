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
constexpr std::string_view before_label = " on '", before_time = "' has waited ";

// Where a note says that its rank waits: " on 'label'". No operation has such a text in its name; a label may.
std::string_view place_in(std::string_view note) {
  const std::string_view named = note.substr(0, note.rfind(before_time));
  const auto label = named.find(before_label);
  return label == std::string_view::npos ? std::string_view() : named.substr(label);
}

bool is_send(std::string_view note) { return note.starts_with("send("); }
bool is_of_message(std::string_view note) { return is_send(note) || note.starts_with("recv("); }

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

WaitCircle wait_circle(Rank self, std::string_view own_note, std::span<const Rank> ranks,
                       const std::function<std::string(Rank)>& note_of) {
  std::vector<Rank> reached(ranks.begin(), ranks.end());
  bool one_call = true, sends = is_send(own_note);
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (reached[i] == self) continue;
    const std::string note = note_of(reached[i]);
    const auto named = named_in_wait_note(note);
    if (!named) return WaitCircle::none;
    one_call = one_call && place_in(note) == place_in(own_note) && is_of_message(note) == is_of_message(own_note);
    sends = sends && is_send(note);
    for (const Rank next : *named)
      if (std::ranges::find(reached, next) == reached.end()) reached.push_back(next);
  }
  if (reached.empty()) return WaitCircle::none;
  return sends ? WaitCircle::sends : one_call ? WaitCircle::one_call : WaitCircle::different_calls;
}

}  // namespace fabring
