// 8-bit floats: every pair of values, the codes at the edges, one rounding.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "collectives/reduce/reduce.hpp"
#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

using Codes = std::vector<std::uint8_t>;

struct Float8Format {
  DataType type;
  oracle::SmallFormat layout;
  std::uint8_t one;
};
constexpr Float8Format e4m3{DataType::float8_e4m3, oracle::e4m3, 0x38};
constexpr Float8Format e5m2{DataType::float8_e5m2, oracle::e5m2, 0x3C};
constexpr std::array float8_formats{e4m3, e5m2};

Codes reduced(DataType type, ReduceOp op, const std::vector<Codes>& sources) {
  std::vector<const void*> pointers;
  for (const Codes& source : sources) pointers.push_back(source.data());
  Codes to(sources[0].size());
  reduce(type, op, to.data(), pointers, to.size());
  return to;
}

// 1 * value: nothing but the conversion from float.
int converted(const Float8Format& format, float value) {
  std::uint8_t code = 0;
  scale(format.type, &code, &format.one, &value, 1);
  return code;
}

class Float8Test : public OnTarget {};

TEST_P(Float8Test, every_pair_of_values_is_reduced_as_the_definition_says) {
  Codes left, right;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      left.push_back(static_cast<std::uint8_t>(a));
      right.push_back(static_cast<std::uint8_t>(b));
    }
  }
  for (const Float8Format& format : float8_formats) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
      const Codes got = reduced(format.type, op, {left, right});
      for (std::size_t i = 0; i < got.size(); ++i) {
        const float a = oracle::widen(format.layout, left[i]), b = oracle::widen(format.layout, right[i]);
        ASSERT_EQ(got[i], oracle::narrow(format.layout, oracle::combine(op, a, b)))
            << name(op) << " of " << name(format.type) << ": " << a << ", " << b;
      }
    }
  }
}

// Codes as PyTorch's casts give them.
TEST_P(Float8Test, conversion_at_the_edges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, int>> of_e4m3{
      {0.0f, 0x00},      {-0.0f, 0x80},         {1.0f, 0x38},
      {-1.0f, 0xB8},     {0x1p-9f, 0x01},       {0x1p-10f, 0x00},
      {-0x1p-10f, 0x80}, {0x1.2p-10f, 0x01},    {0x1.8p-9f, 0x02},
      {0x1.cp-7f, 0x07}, {0x1.ep-7f, 0x08},     {0x1p-6f, 0x08},
      {1.0625f, 0x38},   {1.1875f, 0x3A},       {17.0f, 0x58},
      {19.0f, 0x5A},     {448.0f, 0x7E},        {-448.0f, 0xFE},
      {464.0f, 0x7E},    {0x1.d00002p8f, 0x7F}, {480.0f, 0x7F},
      {-465.0f, 0xFF},   {1e30f, 0x7F},         {infinity, 0x7F},
      {-infinity, 0xFF}, {1e-40f, 0x00},        {std::numeric_limits<float>::quiet_NaN(), 0x7F}};
  for (const auto& [value, code] : of_e4m3) EXPECT_EQ(converted(e4m3, value), code) << value;
  const std::vector<std::pair<float, int>> of_e5m2{
      {0.0f, 0x00},       {-0.0f, 0x80},      {1.0f, 0x3C},       {-1.0f, 0xBC},
      {0x1p-16f, 0x01},   {0x1p-17f, 0x00},   {-0x1p-17f, 0x80},  {0x1.2p-17f, 0x01},
      {0x1.8p-16f, 0x02}, {0x1.8p-15f, 0x03}, {0x1.cp-15f, 0x04}, {0x1p-14f, 0x04},
      {1.125f, 0x3C},     {1.375f, 0x3E},     {57344.0f, 0x7B},   {0x1.dffffep15f, 0x7B},
      {61440.0f, 0x7C},   {-61440.0f, 0xFC},  {65536.0f, 0x7C},   {1e30f, 0x7C},
      {infinity, 0x7C},   {-infinity, 0xFC},  {1e-40f, 0x00},     {std::numeric_limits<float>::quiet_NaN(), 0x7F}};
  for (const auto& [value, code] : of_e5m2) EXPECT_EQ(converted(e5m2, value), code) << value;
}

TEST_P(Float8Test, conversion_of_any_float) {
  for (const Float8Format& format : float8_formats) {
    // Every exponent, low bits of all kinds.
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 10007) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      ASSERT_EQ(converted(format, value), oracle::narrow(format.layout, value)) << name(format.type) << " " << value;
    }
    // Every tie between neighbours, and what is next to it on either side.
    for (int code = 0; code + 1 < oracle::overflow_code(format.layout); ++code) {
      const float tie = (oracle::widen(format.layout, code) + oracle::widen(format.layout, code + 1)) / 2;
      ASSERT_EQ(converted(format, tie), code + code % 2) << name(format.type) << " " << tie;
      ASSERT_EQ(converted(format, std::nextafter(tie, 0.0f)), code) << name(format.type) << " " << tie;
      ASSERT_EQ(converted(format, std::nextafter(tie, 1e30f)), code + 1) << name(format.type) << " " << tie;
      ASSERT_EQ(converted(format, -tie), 0x80 | (code + code % 2)) << name(format.type) << " " << -tie;
    }
  }
}

TEST_P(Float8Test, sums_of_many_sources_are_rounded_once) {
  // 16 + 1 in E4M3 is 16 again, 8 + 1 in E5M2 is 8 again; rounding after each source would never leave them.
  std::vector<Codes> sources(9, Codes(33, e4m3.one));
  sources[0].assign(33, 0x58);
  EXPECT_EQ(reduced(e4m3.type, ReduceOp::sum, sources), Codes(33, 0x5C));  // 24
  sources.assign(9, Codes(33, e5m2.one));
  sources[0].assign(33, 0x48);
  EXPECT_EQ(reduced(e5m2.type, ReduceOp::sum, sources), Codes(33, 0x4C));  // 16
  // Beyond the largest on the way, within it at the end.
  EXPECT_EQ(reduced(e4m3.type, ReduceOp::sum, {Codes(5, 0x7E), Codes(5, 0x7E), Codes(5, 0xFE)}), Codes(5, 0x7E));
  EXPECT_EQ(reduced(e5m2.type, ReduceOp::sum, {Codes(5, 0x7B), Codes(5, 0x7B), Codes(5, 0xFB)}), Codes(5, 0x7B));
}

INSTANTIATE_TEST_SUITE_P(Target, Float8Test, every_target(), target_name);

}  // namespace
}  // namespace fabring
