#include "runtime/base/setting_values.hpp"

#include <fmt/ranges.h>

#include <chrono>

#include "runtime/base/nearest_name.hpp"

namespace fabring {

std::vector<std::string_view> words_of(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const std::size_t comma = choices.find(',');
    words.push_back(choices.substr(0, comma));
    choices.remove_prefix(comma == std::string_view::npos ? choices.size() : comma + 1);
  }
  return words;
}

Status check_word(const Setting& row, std::string_view word) {
  const std::vector<std::string_view> words = words_of(row.choices);
  for (std::string_view known : words)
    if (word == known) return {};
  return {ErrorCode::invalid_argument,
          fmt::format("'{}' is not one of {}{}", word, fmt::join(words, ", "), did_you_mean(word, words))};
}

Status check_text(std::string_view text) {
  constexpr std::size_t longest = 1024;
  if (text.size() > longest)
    return {ErrorCode::invalid_argument, fmt::format("{} characters; at most {} are allowed", text.size(), longest)};
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return {ErrorCode::invalid_argument, "it holds a control character"};
  return {};
}

Result<std::string> words_in(const Setting& row, std::string_view text) {
  auto items = parse_list(text);
  if (!items) return items.error();
  for (const std::string& item : *items) {
    FABRING_TRY(check_word(row, item));
    if (item == "auto" && items->size() > 1)
      return Status(ErrorCode::invalid_argument, fmt::format("'{}': auto stands alone, not in a list", text));
  }
  return fmt::format("{}", fmt::join(*items, ","));
}

Status check_word_or_path(const Setting& row, std::string_view text) {
  if (text.find('/') != std::string_view::npos) return {};
  Status status = check_word(row, text);
  if (!status.ok() && text.find('.') != std::string_view::npos)
    return {ErrorCode::invalid_argument,
            fmt::format("{}; a file is written with a slash: ./{}", status.message(), text)};
  return status;
}

Result<std::uint64_t> parse_size_within(std::string_view text, std::uint64_t least, std::uint64_t most) {
  auto value = parse_size(text);
  if (!value) return value;
  if (*value < least)
    return Status(ErrorCode::invalid_argument, fmt::format("'{}' is less than {}", text, size_text(least)));
  if (*value > most)
    return Status(ErrorCode::invalid_argument, fmt::format("'{}' is more than {}", text, size_text(most)));
  return value;
}

/// A rank says that it lives once a second, and may be late.
Status read_silence(const Setting&, std::string_view text, Config& into) {
  constexpr std::chrono::seconds least(2);
  auto value = parse_duration(text);
  if (!value) return value.error();
  if (*value < least)
    return {
        ErrorCode::invalid_argument,
        fmt::format("'{}' is less than 2 s: ranks say once a second that they live, and healthy ones would be given up",
                    text)};
  into.silence_timeout = *value;
  return {};
}

Status read_wire_type(const Setting&, std::string_view text, Config& into) {
  const auto type = parse_data_type(text);
  if (text != "off" && type != DataType::bfloat16 && type != DataType::float16)
    return {ErrorCode::invalid_argument, fmt::format("'{}' is not one of off, bfloat16 (bf16), float16 (f16)", text)};
  into.wire_type = type;
  return {};
}

std::string show_wire_type(const Config& from) {
  return from.wire_type ? std::string(name(*from.wire_type)) : std::string("off");
}

}  // namespace fabring
