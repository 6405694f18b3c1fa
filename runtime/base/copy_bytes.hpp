#pragma once
// copy_bytes: memcpy for long blocks whose places nobody chose. Where the destination lies 1 to 31 bytes behind the
// source, counted within a page, processors with AMD's Zen 3 and 4 cores take up to twenty times as long for the `rep
// movsb` that memcpy uses (glibc bug 30994): 3 GB/s instead of 50. A buffer that begins a few bytes into a page meets
// shared blocks that begin with one, so it is not rare.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fabring {

namespace detail {

inline constexpr std::size_t least_repeated = 2048;  // bytes; below it memcpy has a loop

inline bool lies_just_behind(const std::byte* to, const std::byte* from) {
  constexpr std::uintptr_t page = 4096;
  return (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from) - 1) % page < 31;
}

void copy_in_vectors(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace detail

/// As memcpy; of 0 bytes the pointers may be null.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= detail::least_repeated && detail::lies_just_behind(to, from))
    return detail::copy_in_vectors(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace fabring
