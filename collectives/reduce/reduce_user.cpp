#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "collectives/reduce/float_mode.hpp"
#include "collectives/reduce/reduce.hpp"
#include "runtime/base/check.hpp"

namespace fabring {
namespace {
constexpr std::size_t block_bytes = 8 << 10;  // a quarter of a small first-level cache

// Other ranks wait for this part, and nobody above could make a result of it: better an end that all hear of than a
// rank that is stuck.
[[noreturn]] void end_with(const char* what) {
  std::fprintf(
      stderr,
      "fabring: the function of a user-defined operation threw an exception (%s), which it must not: other ranks "
      "count on its result; this process ends\n",
      what);
  std::abort();
}
}  // namespace

void reduce_user(DataType type, UserFunction function, void* context, void* to, std::span<const void* const> sources,
                 std::size_t count) {
  FABRING_CHECK(!sources.empty());
  FABRING_CHECK(function != nullptr);
  if (count == 0) return;
  const std::size_t width = size_of(type);
  if (sources.size() == 1) {
    if (to != sources[0]) std::memcpy(to, sources[0], count * width);
    return;
  }
  const DefaultFloatMode mode;
  alignas(64) std::byte block[block_bytes];
  for (std::size_t at = 0; at < count; at += block_bytes / width) {
    const std::size_t elements = std::min(block_bytes / width, count - at);
    std::memcpy(block, static_cast<const std::byte*>(sources[0]) + at * width, elements * width);
    try {
      for (const void* source : sources.subspan(1))
        function(block, static_cast<const std::byte*>(source) + at * width, elements, type, context);
    } catch (const std::exception& thrown) {
      end_with(thrown.what());
    } catch (...) {
      end_with("of no std type");
    }
    std::memcpy(static_cast<std::byte*>(to) + at * width, block, elements * width);
  }
}

}  // namespace fabring
