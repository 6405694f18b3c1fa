#pragma once
// Text to values, for settings and command lines: whole numbers, durations ("30", "30s", "500ms", "5m"), sizes ("64K",
// "512KiB", "1M"), lists ("a,b"), yes or no. An error says what was expected; the caller adds whose text it was.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"

namespace fabring {

/// A decimal whole number in [least, most].
Result<std::int64_t> parse_integer(std::string_view text, std::int64_t least, std::int64_t most);

/// Ten years: anything longer is a slip of the finger.
inline constexpr std::chrono::milliseconds longest_duration = std::chrono::hours(24 * 3650);

/// A number with a unit: ms, s (also without a unit), m or min, h, d. Decimals are fine ("1.5s"); more than 0.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Bytes: B (also without a unit), K, KB or KiB = 1024, M, G, T likewise. Decimals are fine ("1.5M").
Result<std::uint64_t> parse_size(std::string_view text);

/// 1, true, yes, on, or 0, false, no, off.
Result<bool> parse_flag(std::string_view text);

/// Cuts at commas and trims blanks. Errors: an empty item.
Result<std::vector<std::string>> parse_list(std::string_view text);

/// "30 s", "500 ms", "5 min": the largest unit that fits.
std::string duration_text(std::chrono::milliseconds value);
/// "64 KiB", "1 MiB", "3 B": the largest unit that fits.
std::string size_text(std::uint64_t bytes);

}  // namespace fabring
