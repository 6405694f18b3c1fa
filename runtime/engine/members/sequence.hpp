#pragma once
// The numbers of a communicator's collectives, and of the messages of a pair: they count up, and begin again after
// 2^32 - 1. Of collectives 0 is left out, as it says that there is none.

#include <cstdint>

namespace fabring {

inline constexpr std::uint32_t next_sequence(std::uint32_t last) { return last + 1 == 0 ? 1 : last + 1; }

/// Was `a` given before `b`? Of two that are less than 2^31 apart.
inline constexpr bool is_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace fabring
