// A program's own rounding mode, and what it does to subnormals, must not reach results: which thread reduces is a
// matter of time.

#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <vector>

#include "collectives/reduce/convert.hpp"
#include "collectives/reduce/reduce.hpp"
#include "target_fixture.hpp"
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fabring {
namespace {

using Bytes = std::vector<std::byte>;

/// What a program may have set in its threads; back to the usual at the end.
class Mode {
 public:
  explicit Mode(int rounding) { std::fesetround(rounding); }
  ~Mode() { std::fesetenv(FE_DFL_ENV); }
  /// As torch.set_flush_denormal() and -ffast-math do.
  void flush_subnormals() {
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    asm volatile("msr fpcr, %0" : : "r"(mode | (1u << 24)));
#endif
  }
  static bool flushes() {
    volatile float least = 1e-38F;
    volatile const float half = least * 0.5F;
    return half == 0;
  }
};

Bytes bytes_of(DataType type, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = interesting_bits(type, random);
    std::memcpy(bytes.data() + i * size_of(type), &bits, size_of(type));
  }
  return bytes;
}

void add(void* inout, const void* in, std::size_t count, DataType /*type*/, void* /*context*/) {
  for (std::size_t i = 0; i < count; ++i) static_cast<float*>(inout)[i] += static_cast<const float*>(in)[i];
}

/// Everything that calculates, with every type and operation, one after the other.
std::vector<Bytes> results() {
  constexpr std::size_t count = 501;
  std::mt19937_64 random(11);
  std::vector<Bytes> all;
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    const Bytes first = bytes_of(type, count, random), second = bytes_of(type, count, random);
    const Bytes third = bytes_of(type, count, random);
    for (int o = 0; o < reduce_op_count; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      if (op == ReduceOp::user || !supports(type, op)) continue;
      const void* const sources[] = {first.data(), second.data(), third.data()};
      reduce(type, op, all.emplace_back(first.size()).data(), sources, count);
      if (op == ReduceOp::avg) finish_average(type, all.emplace_back(first).data(), count, 3);
      const double tiny = 1e-20;
      const float small = 1e-20F;
      const std::int64_t whole = 7;
      const void* const factor = type == DataType::float64 ? static_cast<const void*>(&tiny)
                                 : is_floating_point(type) ? static_cast<const void*>(&small)
                                                           : static_cast<const void*>(&whole);
      if (op == ReduceOp::premul_sum) scale(type, all.emplace_back(first.size()).data(), first.data(), factor, count);
    }
    if (type == DataType::float32) {
      const void* const sources[] = {first.data(), second.data(), third.data()};
      reduce_user(type, add, nullptr, all.emplace_back(first.size()).data(), sources, count);
    }
    if (!is_narrow(type)) continue;
    const Bytes wide = bytes_of(DataType::float32, count, random);
    std::vector<float> floats(count);
    std::memcpy(floats.data(), wide.data(), wide.size());
    narrow(type, all.emplace_back(first.size()).data(), floats.data(), count);
    widen(type, floats.data(), first.data(), count);
    std::memcpy(all.emplace_back(wide.size()).data(), floats.data(), wide.size());
  }
  return all;
}

class FloatMode : public OnTarget {};

TEST_P(FloatMode, of_the_program_does_not_reach_results_and_stays_as_it_was) {
  const std::vector<Bytes> usual = results();
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO}) {
    for (const bool flush : {false, true}) {
      Mode mode(rounding);
      if (flush) mode.flush_subnormals();
      const bool flushes = Mode::flushes();
      const std::vector<Bytes> got = results();
      const int rounding_after = std::fegetround();
      const bool flushes_after = Mode::flushes();
      EXPECT_TRUE(got == usual) << "rounding mode " << rounding << (flush ? ", subnormals flushed" : "");
      EXPECT_EQ(rounding_after, rounding);
      EXPECT_EQ(flushes_after, flushes);
      EXPECT_EQ(flushes, flush);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Target, FloatMode, every_target(), target_name);

}  // namespace
}  // namespace fabring
