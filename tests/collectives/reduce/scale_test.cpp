#include <gtest/gtest.h>

#include <array>

#include "collectives/reduce/reduce.hpp"
#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

using Bytes = std::vector<std::byte>;

// `count` elements after one that belongs to nobody: aligned to the element only.
Bytes elements(DataType type, std::size_t count, std::mt19937_64& random) {
  const std::size_t width = size_of(type);
  Bytes bytes((count + 1) * width);
  for (std::size_t i = 0; i <= count; ++i) {
    const std::uint64_t bits = interesting_bits(type, random);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

template <class Code>
void expect_small(oracle::SmallFormat format, const Bytes& from, const Bytes& to, std::size_t count, float factor) {
  for (std::size_t i = 1; i <= count; ++i) {
    const float value = oracle::widen(format, oracle::load<Code>(from.data() + i * sizeof(Code)));
    ASSERT_EQ(oracle::load<Code>(to.data() + i * sizeof(Code)), oracle::narrow(format, value * factor))
        << value << " * " << factor << ", element " << i;
  }
}

void expect_scaled(DataType type, const Bytes& from, const Bytes& to, std::size_t count, const void* factor) {
  float small_factor;
  std::memcpy(&small_factor, factor, sizeof(small_factor));
  switch (type) {
    case DataType::float16:
      return expect_small<std::uint16_t>(oracle::binary16, from, to, count, small_factor);
    case DataType::bfloat16:
      return expect_small<std::uint16_t>(oracle::brain16, from, to, count, small_factor);
    case DataType::float8_e4m3:
      return expect_small<std::uint8_t>(oracle::e4m3, from, to, count, small_factor);
    case DataType::float8_e5m2:
      return expect_small<std::uint8_t>(oracle::e5m2, from, to, count, small_factor);
    default:
      break;
  }
  const std::size_t width = size_of(type);
  for (std::size_t i = 1; i <= count; ++i) {
    const Bytes expected = oracle::reduce(
        type, ReduceOp::prod, {from.data() + i * width, static_cast<const std::byte*>(factor)}, 1);
    ASSERT_EQ(std::memcmp(to.data() + i * width, expected.data(), width), 0) << "element " << i;
  }
}

class Scale : public OnTarget {};

TEST_P(Scale, multiplies_every_element_of_every_type) {
  std::mt19937_64 random(7);
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    if (!supports(type, ReduceOp::premul_sum)) continue;
    const bool small_float = is_floating_point(type) && size_of(type) < 4;
    // More than two blocks of the widest type, and lengths that fill no vector.
    for (const std::size_t count : {0, 1, 3, 17, 63, 64, 65, 1031, 5003}) {
      for (int draw = 0; draw < 5; ++draw) {
        SCOPED_TRACE(testing::Message() << name(type) << ", " << count << " elements");
        const std::uint64_t factor = interesting_bits(small_float ? DataType::float32 : type, random);
        const Bytes from = elements(type, count, random), before = elements(type, count + 1, random);
        Bytes to = before;
        const std::size_t width = size_of(type);
        scale(type, to.data() + width, from.data() + width, &factor, count);
        expect_scaled(type, from, to, count, &factor);
        EXPECT_EQ(std::memcmp(to.data(), before.data(), width), 0) << "wrote before its output";
        EXPECT_EQ(std::memcmp(to.data() + (count + 1) * width, before.data() + (count + 1) * width, width), 0)
            << "wrote after its output";
        Bytes in_place = from;
        scale(type, in_place.data() + width, in_place.data() + width, &factor, count);
        EXPECT_EQ(std::memcmp(in_place.data() + width, to.data() + width, count * width), 0);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Scale, small_floats_take_a_float_and_round_once) {
  const float third = 1.0f / 3;  // no 16-bit or 8-bit float
  std::uint16_t half = 0x4500;   // 5
  scale(DataType::float16, &half, &half, &third, 1);
  EXPECT_EQ(half, oracle::narrow(oracle::binary16, 5 * third));
  EXPECT_NE(half, oracle::narrow(oracle::binary16,
                                 5 * oracle::widen(oracle::binary16, oracle::narrow(oracle::binary16, third))));
}

INSTANTIATE_TEST_SUITE_P(Target, Scale, every_target(), target_name);

}  // namespace
}  // namespace fabring
