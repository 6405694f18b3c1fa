#pragma once
// The wire of the data connections: a message is a header of 16 bytes, padded to 192 before a long one, and its bytes,
// nothing between messages. Little-endian always (the handshake turns other byte orders away, so only the layout is
// fixed here, not a conversion).
//
// Why padded: the kernel puts what is written next to its own pages' beginning whenever the socket is empty, so the
// header says where in a page the bytes lie, and a copy that moves bytes 1 to 31 further within a page takes several
// times as long (runtime/base/copy_bytes.hpp). Buffers begin 0, 16 or 64 bytes into a page, and a few elements later.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transports/endpoint.hpp"

namespace fabring::tcp {

inline constexpr std::size_t header_bytes = 16;
inline constexpr std::size_t padded_header_bytes = 192;
/// From this size on a message is a long one.
inline constexpr std::size_t long_message_bytes = 64 * 1024;

/// The header of a message of so many bytes, its padding included.
inline constexpr std::size_t header_bytes_of(std::size_t message_bytes) {
  return message_bytes < long_message_bytes ? header_bytes : padded_header_bytes;
}

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

/// Its first header_bytes; padding is left alone.
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
