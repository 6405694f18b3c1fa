#pragma once
// The state of a large world is in no cache. What will be looked at soon is brought there meanwhile.

#include <cstddef>

namespace fabring::simulation {

/// Objects from `first` to before `last`, unless they are too many to be a gain.
template <typename T>
void prefetch(const T* first, const T* last) {
  constexpr std::ptrdiff_t most_bytes = 16 << 10;
  constexpr std::ptrdiff_t line = 64;
  const auto* const from = reinterpret_cast<const char*>(first);
  const auto* const to = reinterpret_cast<const char*>(last);
  if (to - from > most_bytes) return;
  for (const char* each = from; each < to; each += line) __builtin_prefetch(each, 1);
}

}  // namespace fabring::simulation
