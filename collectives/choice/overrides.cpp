#include "collectives/choice/overrides.hpp"

#include <algorithm>
#include <array>

#include "runtime/base/nearest_name.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring {
namespace {

Status wrong(std::string_view rule, const std::string& what) {
  return {ErrorCode::invalid_argument, "'" + std::string(rule) + "': " + what};
}

std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> names{"auto", "direct"};
  for (const Algorithm each : all_algorithms()) names.push_back(name(each));
  return names;
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  names.reserve(collective_count);
  for (int i = 0; i < collective_count; ++i) names.push_back(name(static_cast<Collective>(i)));
  return names;
}

std::string_view trimmed(std::string_view word) {
  while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
  while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
  return word;
}

bool looks_like_size(std::string_view word) {
  return !word.empty() && ((word[0] >= '0' && word[0] <= '9') || word[0] == '-');
}

Status read_sizes(std::string_view rule, std::string_view word, Override& into) {
  const std::size_t dash = word.find('-');
  const auto bound = [&](std::string_view text, std::uint64_t& value) -> Status {
    if (text.empty()) return {};
    auto size = parse_size(text);
    if (!size) return wrong(rule, size.error().message());
    value = *size;
    return {};
  };
  FABRING_TRY(bound(word.substr(0, dash), into.least));
  if (dash == std::string_view::npos) {
    into.most = into.least;
  } else {
    FABRING_TRY(bound(word.substr(dash + 1), into.most));
  }
  if (into.least > into.most) return wrong(rule, "the range ends before it begins; write the smaller size first");
  return {};
}

/// "; broadcast has ring, chain", of all collectives "; there are ...".
std::string say_algorithms(std::optional<Collective> collective) {
  std::string names;
  for (const Algorithm each : all_algorithms()) {
    if (collective && !has_algorithm(*collective, each)) continue;
    names += (names.empty() ? "" : ", ") + std::string(name(each));
  }
  if (names.empty()) return "";
  return (collective ? "; " + std::string(name(*collective)) + " has " : "; there are ") + names;
}

Status read_algorithm(std::string_view rule, std::string_view word, Override& into) {
  if (word == "auto") return {};
  const auto algorithm = parse_algorithm(word);
  if (!algorithm) {
    const std::string what = rule == word ? "this" : "'" + std::string(word) + "'";
    const std::string meant = did_you_mean(word, algorithm_names());
    return wrong(rule, what + " is not an algorithm" + (meant.empty() ? say_algorithms(into.collective) : meant));
  }
  into.algorithm = *algorithm;
  into.any_direct = word == "direct";
  if (into.collective && !into.algorithm_for(*into.collective)) {
    return wrong(rule, std::string(name(*into.collective)) + " has no algorithm " + std::string(word) +
                           say_algorithms(into.collective));
  }
  return {};
}

Result<Override> parse_rule(std::string_view rule) {
  std::array<std::string_view, 3> words;
  std::size_t count = 0;
  for (std::string_view rest = rule;; ++count) {
    if (count == words.size()) return wrong(rule, "too many ':'; write [collective:][size[-size]:]algorithm");
    const std::size_t colon = rest.find(':');
    words[count] = trimmed(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  Override result;
  std::size_t next = 0;
  if (next < count && !looks_like_size(words[next])) {
    result.collective = parse_collective(words[next]);
    if (!result.collective) {
      const auto names = collective_names();
      return wrong(rule, "'" + std::string(words[next]) + "' is neither a collective nor a size" +
                             did_you_mean(words[next], names));
    }
    ++next;
  }
  if (next < count) {
    if (!looks_like_size(words[next])) return wrong(rule, "'" + std::string(words[next]) + "' is not a size");
    if (Status status = read_sizes(rule, words[next], result); !status) return status;
    ++next;
  }
  if (next < count) return wrong(rule, "the collective comes before the size");
  if (Status status = read_algorithm(rule, words[count], result); !status) return status;
  return result;
}

}  // namespace

std::optional<Algorithm> Override::algorithm_for(Collective what) const {
  if (!algorithm) return std::nullopt;
  if (any_direct) return parse_algorithm("direct", what);
  return has_algorithm(what, *algorithm) ? algorithm : std::nullopt;
}

Result<std::vector<Override>> parse_overrides(std::string_view text) {
  std::vector<Override> overrides;
  if (text.empty()) return overrides;
  auto rules = parse_list(text);
  if (!rules) return rules.error();
  if (rules->size() > most_overrides)
    return Status(ErrorCode::invalid_argument, "more than " + std::to_string(most_overrides) + " rules");
  for (const std::string& rule : *rules) {
    auto read = parse_rule(rule);
    if (!read) return read.error();
    overrides.push_back(*read);
  }
  return overrides;
}

}  // namespace fabring
