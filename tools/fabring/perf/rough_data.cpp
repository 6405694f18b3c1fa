#include "tools/fabring/perf/rough_data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tools/fabring/perf/exact_data.hpp"

namespace fabring::tools {
namespace {

// In [-1, 1), with 24 bits.
float value_at(int rank, std::size_t index, std::uint32_t seed) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) << 40) + (static_cast<std::uint64_t>(index) << 8) + seed;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;  // splitmix64
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<float>(static_cast<std::int32_t>(x >> 39) - (1 << 24)) * 0x1p-24f;
}

}  // namespace

RoughData::RoughData(DataType wire_type, ReduceOp op, int rank, int ranks, std::uint32_t seed)
    : rank_(rank), ranks_(ranks), seed_(seed) {
  // Every input is rounded once and every addition that it takes part in, of which there are at most ranks - 1; avg
  // divides, and rounds again. Additions in float32 round too, in a sum of n terms n - 1 times.
  const bool bfloat = wire_type == DataType::bfloat16;
  const double unit = std::ldexp(1, bfloat ? -8 : -11);
  const int roundings = ranks + (op == ReduceOp::avg ? 1 : 0);
  least_ = std::ldexp(1, bfloat ? -134 : -25);
  growth_ = std::pow(1 + unit, roundings) * std::pow(1 + 0x1p-24, ranks + 1) - 1;
  factor_ = op == ReduceOp::premul_sum ? ExactData::premul_factor : 1;
  if (op == ReduceOp::avg) factor_ /= ranks;
}

RoughData::Expected RoughData::expected(std::size_t place) const {
  double sum = 0, magnitudes = 0;
  for (int each = 0; each < ranks_; ++each) {
    const double term = factor_ * static_cast<double>(value_at(each, place, seed_));
    sum += term;
    magnitudes += std::abs(term);
  }
  return {sum, magnitudes * growth_ + 2 * ranks_ * least_ * (1 + growth_)};
}

void RoughData::fill(void* buffer, std::size_t count) const {
  auto* to = static_cast<float*>(buffer);
  for (std::size_t i = 0; i < count; ++i) to[i] = i < period ? value_at(rank_, i, seed_) : to[i - period];
}

std::size_t RoughData::wrong_results(const void* buffer, std::size_t count) const {
  const auto* values = static_cast<const float*>(buffer);
  std::size_t wrong = 0;
  for (std::size_t place = 0; place < std::min(count, period); ++place) {
    const Expected right = expected(place);
    for (std::size_t i = place; i < count; i += period)
      if (!(std::abs(static_cast<double>(values[i]) - right.exact) <= right.bound)) ++wrong;  // NaN is wrong
  }
  return wrong;
}

std::size_t RoughData::wrong_inputs(const void* buffer, std::size_t count) const {
  const auto* values = static_cast<const float*>(buffer);
  std::size_t wrong = 0;
  for (std::size_t place = 0; place < std::min(count, period); ++place) {
    const auto right = std::bit_cast<std::uint32_t>(value_at(rank_, place, seed_));
    for (std::size_t i = place; i < count; i += period)
      if (std::bit_cast<std::uint32_t>(values[i]) != right) ++wrong;
  }
  return wrong;
}

}  // namespace fabring::tools
