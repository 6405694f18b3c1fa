#pragma once
// The wire of the data connections: a message is a 16-byte header and its bytes, nothing between messages.
// Little-endian always (the handshake turns other byte orders away, so only the layout is fixed here, not a
// conversion).

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transports/endpoint.hpp"

namespace fabring::tcp {

inline constexpr std::size_t header_bytes = 16;

struct FrameHeader {
  Slot slot = 0;
  std::uint32_t bytes = 0;
};

namespace detail {
inline constexpr std::uint32_t frame_mark = 0x6d726246;  // "Fbrm"
/// Not against malice: notices a stream that has lost its place.
inline std::uint32_t frame_check(const FrameHeader& header) {
  return (header.slot * 0x9e3779b1u) ^ (header.bytes * 0x85ebca6bu) ^ 0x27d4eb2fu;
}
}  // namespace detail

inline void encode(const FrameHeader& header, std::byte* to) {
  const std::uint32_t words[4] = {detail::frame_mark, header.slot, header.bytes, detail::frame_check(header)};
  static_assert(sizeof(words) == header_bytes);
  std::memcpy(to, words, sizeof(words));
}

inline std::optional<FrameHeader> decode(const std::byte* from) {
  std::uint32_t words[4];
  std::memcpy(words, from, sizeof(words));
  const FrameHeader header{words[1], words[2]};
  if (words[0] != detail::frame_mark || words[3] != detail::frame_check(header)) return std::nullopt;
  return header;
}

}  // namespace fabring::tcp
