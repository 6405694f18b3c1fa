#pragma once
// How values of settings are read and shown: what a row of the table (settings_table.cpp) names for its field of
// Config. Readers return errors that say what is wrong with the value and what is allowed; apply_setting() names the
// variable.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/parse_value.hpp"
#include "runtime/base/settings.hpp"

namespace fabring {

/// Of a comma-separated list, as Setting::choices is.
std::vector<std::string_view> words_of(std::string_view choices);
/// Is it one of the row's?
Status check_word(const Setting& row, std::string_view word);
/// Is it short, and without control characters?
Status check_text(std::string_view text);
/// A list of the row's words, written without spaces; "auto" stands alone.
Result<std::string> words_in(const Setting& row, std::string_view text);
/// A word of the row, or else the path of a file, which has a slash in it.
Status check_word_or_path(const Setting& row, std::string_view text);
Result<std::uint64_t> parse_size_within(std::string_view text, std::uint64_t least, std::uint64_t most);

template <auto Field, std::int64_t least, std::int64_t most>
Status read_integer(const Setting&, std::string_view text, Config& into) {
  auto value = parse_integer(text, least, most);
  if (!value) return value.error();
  into.*Field = static_cast<std::remove_reference_t<decltype(into.*Field)>>(*value);
  return {};
}

template <auto Field>
Status read_duration(const Setting&, std::string_view text, Config& into) {
  auto value = parse_duration(text);
  if (!value) return value.error();
  into.*Field = *value;
  return {};
}

template <auto Field, std::uint64_t least, std::uint64_t most = std::numeric_limits<std::uint64_t>::max()>
Status read_size(const Setting&, std::string_view text, Config& into) {
  auto value = parse_size_within(text, least, most);
  if (!value) return value.error();
  into.*Field = static_cast<std::size_t>(*value);
  return {};
}

template <auto Field>
Status read_flag(const Setting&, std::string_view text, Config& into) {
  auto value = parse_flag(text);
  if (!value) return value.error();
  into.*Field = *value;
  return {};
}

template <auto Field>
Status read_text(const Setting&, std::string_view text, Config& into) {
  FABRING_TRY(check_text(text));
  into.*Field = std::string(text);
  return {};
}

template <auto Field>
Status read_word(const Setting& row, std::string_view text, Config& into) {
  FABRING_TRY(check_word(row, text));
  into.*Field = std::string(text);
  return {};
}

template <auto Field>
Status read_word_or_path(const Setting& row, std::string_view text, Config& into) {
  FABRING_TRY(check_word_or_path(row, text));
  into.*Field = std::string(text);
  return {};
}

template <auto Field>
Status read_word_list(const Setting& row, std::string_view text, Config& into) {
  auto words = words_in(row, text);
  if (!words) return words.error();
  into.*Field = *std::move(words);
  return {};
}

Status read_silence(const Setting& row, std::string_view text, Config& into);
Status read_wire_type(const Setting& row, std::string_view text, Config& into);

template <auto Field>
std::string show_text(const Config& from) {
  return from.*Field;
}
template <auto Field>
std::string show_number(const Config& from) {  // the default, 0, means "chosen" or "not set"
  return from.*Field != 0 ? fmt::format("{}", from.*Field) : std::string();
}
template <auto Field>
std::string show_rank(const Config& from) {
  return from.*Field >= 0 ? fmt::format("{}", from.*Field) : std::string();
}
template <auto Field>
std::string show_size(const Config& from) {
  return from.*Field > 0 ? size_text(from.*Field) : std::string();
}
template <auto Field>
std::string show_duration(const Config& from) {
  return duration_text(from.*Field);
}
template <auto Field>
std::string show_flag(const Config& from) {
  return from.*Field ? "yes" : "no";
}
std::string show_wire_type(const Config& from);

}  // namespace fabring
