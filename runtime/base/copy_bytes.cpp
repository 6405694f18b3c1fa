#include "runtime/base/copy_bytes.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace fabring::detail {

// Loads and stores by name: a loop in C++ would become a call of memcpy again.
#ifdef __SSE2__
void copy_in_vectors(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t step = 4 * sizeof(__m128i);
  std::size_t done = 0;
  for (; bytes - done >= step; done += step) {
    const auto* const in = reinterpret_cast<const __m128i*>(from + done);
    auto* const out = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_storeu_si128(out, a);
    _mm_storeu_si128(out + 1, b);
    _mm_storeu_si128(out + 2, c);
    _mm_storeu_si128(out + 3, d);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}
#else
void copy_in_vectors(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
#endif

}  // namespace fabring::detail
