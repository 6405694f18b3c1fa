#pragma once
// Runs a test once per instruction set of this machine, and the values that arithmetic goes wrong on.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "collectives/reduce/targets.hpp"
#include "fabring/types.hpp"

namespace fabring {

class OnTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_reduce_target(GetParam())); }
  void TearDown() override { force_reduce_target(""); }
};

inline std::string target_name(const testing::TestParamInfo<std::string>& info) { return info.param; }
inline auto every_target() { return testing::ValuesIn(reduce_targets()); }

/// Bits of one element: any at all, or one of the special values, or a small number (so that equal ones meet).
inline std::uint64_t interesting_bits(DataType type, std::mt19937_64& random) {
  int exponent_bits = 0;
  switch (type) {
    case DataType::float64:
      exponent_bits = 11;
      break;
    case DataType::float32:
      exponent_bits = 8;
      break;
    case DataType::float16:
      exponent_bits = 5;
      break;
    case DataType::bfloat16:
      exponent_bits = 8;
      break;
    case DataType::float8_e4m3:
      exponent_bits = 4;
      break;
    case DataType::float8_e5m2:
      exponent_bits = 5;
      break;
    case DataType::boolean:
      return random() % 2 == 0 ? 0 : random() % 2 == 0 ? 1 : random();
    default:
      return random() % 4 == 0 ? random() % 3 - 1 : random();
  }
  const int bits = 8 * static_cast<int>(size_of(type));
  const std::uint64_t sign = (random() & 1) << (bits - 1);
  const std::uint64_t fraction_mask = (std::uint64_t{1} << (bits - 1 - exponent_bits)) - 1;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << (bits - 1 - exponent_bits);
  const std::uint64_t one = infinity / 2 & ~fraction_mask;
  switch (random() % 16) {
    case 0:
      return sign;  // zero
    case 1:
      return sign | (random() & fraction_mask);  // subnormal
    case 2:
      return sign | (infinity - 1);  // largest
    case 3:
      return random() % 4 == 0 ? sign | infinity : sign | one;
    case 4:
      return random() % 4 == 0 ? sign | infinity | (random() & fraction_mask) : sign;  // mostly NaN, or zero
    case 5:
      return random();
    default:
      return sign | (one + ((random() % 5) << (bits - 1 - exponent_bits)) + (random() & fraction_mask));
  }
}

}  // namespace fabring
