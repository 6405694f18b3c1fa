#pragma once
// What holds of every decoder whose encoder is at hand. `decode` gives something like an optional; encode() is found by
// the type.

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz {

/// Accepted are only the bytes that the encoder writes.
template <class Decode>
void exact(std::string_view bytes, Decode decode) {
  if (const auto read = decode(bytes)) require(encode(*read) == bytes, "what is accepted is what would be written");
}

/// What is read may have been made tidier; what `write` makes of it, read once more, stays as it is.
template <class Decode, class Write>
void settled(std::string_view bytes, Decode decode, Write write) {
  const auto read = decode(bytes);
  if (!read) return;
  const std::string written = write(*read);
  const auto again = decode(written);
  require(static_cast<bool>(again), "what was accepted can be written and read");
  require(write(*again) == written, "and stays what it is");
}
template <class Decode>
void settled(std::string_view bytes, Decode decode) {
  settled(bytes, decode, [](const auto& value) { return encode(value); });
}

/// The same of types with a member encode().
template <class Value, class Decode>
void settled_value(std::string_view bytes, Decode decode) {
  settled(bytes, decode, [](const Value& value) { return value.encode(); });
}

/// No control characters: it will stand in a terminal or a log.
inline bool fit_to_be_shown(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace fabring::fuzz
