#include "transports/shm/shared_copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "runtime/base/copy_bytes.hpp"
#include "transports/shm/layout.hpp"

namespace fabring::shm {
namespace {

constexpr std::size_t least_chosen = 4096;  // below it a look at the clock costs too much

}  // namespace

void SharedCopy::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < least_chosen) {
    copy_bytes(to, from, bytes);
    return;
  }
  const StoreChoice::Turn turn = choice_.next();
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const std::chrono::steady_clock::time_point begin = turn.measured ? now() : std::chrono::steady_clock::time_point();
  if (turn.stores == Stores::streaming) {
    streaming_copy(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
  if (turn.measured) choice_.took(turn.stores, bytes, std::chrono::nanoseconds(now() - begin).count());
}

#ifdef __SSE2__
// A line is written as a whole, or it would be read first. Wider stores gained nothing.
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t before = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  std::size_t done = std::min(before, bytes);
  if (done > 0) std::memcpy(to, from, done);
  for (; bytes - done >= line; done += line) {
    const auto* const in = reinterpret_cast<const __m128i*>(from + done);
    auto* const out = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
  _mm_sfence();  // a release store does not wait for these by itself
}
#else
void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
#endif

}  // namespace fabring::shm
