#include "runtime/base/parse_value.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace fabring {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 10> duration_units{{{"", 1e3},
                                               {"s", 1e3},
                                               {"sec", 1e3},
                                               {"ms", 1.0},
                                               {"m", 6e4},
                                               {"min", 6e4},
                                               {"h", 3.6e6},
                                               {"d", 8.64e7},
                                               {"seconds", 1e3},
                                               {"minutes", 6e4}}};
constexpr double kibi = 1024.0;
constexpr std::array<Unit, 14> size_units{{{"", 1.0},
                                           {"B", 1.0},
                                           {"K", kibi},
                                           {"KB", kibi},
                                           {"KIB", kibi},
                                           {"M", kibi* kibi},
                                           {"MB", kibi* kibi},
                                           {"MIB", kibi* kibi},
                                           {"G", kibi* kibi* kibi},
                                           {"GB", kibi* kibi* kibi},
                                           {"GIB", kibi* kibi* kibi},
                                           {"T", kibi* kibi* kibi* kibi},
                                           {"TB", kibi* kibi* kibi* kibi},
                                           {"TIB", kibi* kibi* kibi* kibi}}};

Status bad(std::string text) { return {ErrorCode::invalid_argument, std::move(text)}; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

struct Quantity {
  double value;
  std::string_view unit;
};

// Digits with an optional fraction, then the unit. No sign, exponent, hexadecimal, "inf" or "nan".
bool split_quantity(std::string_view text, Quantity& out) {
  text = trimmed(text);
  std::size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) ++end;
  if (end == 0) return false;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + end, out.value, std::chars_format::fixed);
  if (error != std::errc{} || rest != text.data() + end) return false;
  out.unit = trimmed(text.substr(end));
  return true;
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view text, std::int64_t least, std::int64_t most) {
  text = trimmed(text);
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || rest != text.data() + text.size())
    return bad(fmt::format("'{}' is not a whole number", text));
  if (error != std::errc{} || value < least || value > most)
    return bad(fmt::format("{} is out of range: {} to {}", text, least, most));
  return value;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr auto longest_ms = static_cast<double>(longest_duration.count());
  Quantity quantity{};
  if (split_quantity(text, quantity)) {
    for (const Unit& unit : duration_units) {
      if (unit.name != quantity.unit) continue;
      const double milliseconds = std::round(quantity.value * unit.factor);
      if (milliseconds < 1 || milliseconds > longest_ms)
        return bad(fmt::format("'{}' is out of range: 1ms to 3650d", text));
      return std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
    }
  }
  return bad(fmt::format("'{}' is not a duration: write 30, 30s, 500ms, 5m or 1h (without a unit: seconds)", text));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  Quantity quantity{};
  if (split_quantity(text, quantity)) {
    std::string upper(quantity.unit);
    for (char& c : upper)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    for (const Unit& unit : size_units) {
      if (unit.name != upper) continue;
      const double bytes = quantity.value * unit.factor;
      if (bytes > 9.0e15) return bad(fmt::format("'{}' is more than 8 PiB", text));
      if (bytes != std::floor(bytes)) return bad(fmt::format("'{}' is not a whole number of bytes", text));
      return static_cast<std::uint64_t>(bytes);
    }
  }
  return bad(fmt::format("'{}' is not a size: write 4096, 64K, 512KiB, 1M or 2G (K is 1024)", text));
}

Result<bool> parse_flag(std::string_view text) {
  text = trimmed(text);
  for (std::string_view word : {"1", "true", "yes", "on"})
    if (text == word) return true;
  for (std::string_view word : {"0", "false", "no", "off"})
    if (text == word) return false;
  return bad(fmt::format("'{}' is neither yes (1, true, yes, on) nor no (0, false, no, off)", text));
}

Result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    if (item.empty()) return bad("the list has an empty item");
    items.emplace_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::string duration_text(std::chrono::milliseconds value) {
  const auto count = value.count();
  if (count % 3'600'000 == 0 && count != 0) return fmt::format("{} h", count / 3'600'000);
  if (count % 60'000 == 0 && count != 0) return fmt::format("{} min", count / 60'000);
  if (count % 1000 == 0) return fmt::format("{} s", count / 1000);
  return fmt::format("{} ms", count);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < names.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, names[unit]);
}

}  // namespace fabring
