// 16-bit floats: every value, every tie, one rounding.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "collectives/reduce/reduce.hpp"
#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

using Halves = std::vector<std::uint16_t>;

struct HalfFormat {
  DataType type;
  oracle::SmallFormat layout;
};
constexpr std::array half_formats{HalfFormat{DataType::float16, oracle::binary16},
                                  HalfFormat{DataType::bfloat16, oracle::brain16}};

Halves every_value() {
  Halves all(65536);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Halves reduced(DataType type, ReduceOp op, const std::vector<Halves>& sources) {
  std::vector<const void*> pointers;
  for (const Halves& source : sources) pointers.push_back(source.data());
  Halves to(sources[0].size());
  reduce(type, op, to.data(), pointers, to.size());
  return to;
}

class Half : public OnTarget {};

TEST_P(Half, every_value_survives_the_way_to_float_and_back) {
  for (const HalfFormat& format : half_formats) {
    const Halves all = every_value();
    const Halves minus_zero(all.size(), 0x8000);  // x + -0 is x, for both zeros too
    const Halves got = reduced(format.type, ReduceOp::sum, {all, minus_zero});
    const std::uint16_t nan = format.type == DataType::float16 ? 0x7E00 : 0x7FC0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_nan = std::isnan(oracle::widen(format.layout, all[i]));
      ASSERT_EQ(got[i], is_nan ? nan : all[i]) << name(format.type) << " " << std::hex << i;
    }
  }
}

// Factors such as 1/2 and 3/4 put the subnormal and the overflowing results of all values on ties and beside them.
TEST_P(Half, products_and_sums_of_every_value_round_to_nearest_even) {
  for (const HalfFormat& format : half_formats) {
    const Halves all = every_value();
    for (const float other : {0.5f, 0.25f, 0.75f, 0.3125f, 1.5f, 1.00390625f, 2.0f, 3.0f, -0.5f, 0x1p-10f, 0x1.8p-12f,
                              0x1p-20f, 0x1.4p-24f, 0x1p14f, 0x1.8p15f}) {
      const auto bits = static_cast<std::uint16_t>(oracle::narrow(format.layout, other));
      const float exact = oracle::widen(format.layout, bits);
      const Halves others(all.size(), bits);
      const Halves products = reduced(format.type, ReduceOp::prod, {all, others});
      const Halves sums = reduced(format.type, ReduceOp::sum, {all, others});
      for (std::size_t i = 0; i < all.size(); ++i) {
        const float value = oracle::widen(format.layout, all[i]);
        ASSERT_EQ(products[i], oracle::narrow(format.layout, value * exact))
            << name(format.type) << " " << value << " * " << exact;
        ASSERT_EQ(sums[i], oracle::narrow(format.layout, value + exact))
            << name(format.type) << " " << value << " + " << exact;
      }
    }
  }
}

// For every value: plus half of its last place (a tie), and plus a little less and a little more (a quarter).
TEST_P(Half, ties_of_every_value_go_to_even) {
  for (const HalfFormat& format : half_formats) {
    Halves values, halves, quarters;
    for (const std::uint16_t bits : every_value()) {
      const float value = oracle::widen(format.layout, bits);
      if (!std::isfinite(value) || std::fabs(value) < std::ldexp(1.0f, format.layout.smallest_exponent + 14)) continue;
      const float place = std::ldexp(1.0f, std::ilogb(value) - format.layout.fraction_bits);
      for (const float quarter : {0.0f, 0.25f, -0.25f}) {
        values.push_back(bits);
        halves.push_back(static_cast<std::uint16_t>(oracle::narrow(format.layout, std::copysign(place / 2, value))));
        quarters.push_back(static_cast<std::uint16_t>(oracle::narrow(format.layout, place * quarter)));
      }
    }
    ASSERT_GT(values.size(), 50'000u);
    const Halves got = reduced(format.type, ReduceOp::sum, {values, halves, quarters});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float sum = oracle::widen(format.layout, values[i]) + oracle::widen(format.layout, halves[i]) +
                        oracle::widen(format.layout, quarters[i]);
      ASSERT_EQ(got[i], oracle::narrow(format.layout, sum)) << name(format.type) << " " << std::hex << values[i];
      if (quarters[i] == 0) {
        ASSERT_EQ(got[i] & 1, 0) << "a tie must go to even";
      }
    }
  }
}

TEST_P(Half, sums_of_many_sources_are_rounded_once) {
  // 256 + 1 in bfloat16 is 256 again; rounding after each source would never leave it.
  std::vector<Halves> sources(9, Halves(33, 0x3F80));
  sources[0].assign(33, 0x4380);
  EXPECT_EQ(reduced(DataType::bfloat16, ReduceOp::sum, sources), Halves(33, 0x4384));  // 264
  // 2048 + 1 in float16 is 2048 again.
  for (Halves& source : sources) source.assign(33, 0x3C00);
  sources[0].assign(33, 0x6800);
  EXPECT_EQ(reduced(DataType::float16, ReduceOp::sum, sources), Halves(33, 0x6804));  // 2056
  // Beyond the largest float16 on the way, within it at the end.
  EXPECT_EQ(reduced(DataType::float16, ReduceOp::sum, {Halves(5, 0x7BFF), Halves(5, 0x7BFF), Halves(5, 0xFBFF)}),
            Halves(5, 0x7BFF));
}

INSTANTIATE_TEST_SUITE_P(Target, Half, every_target(), target_name);

}  // namespace
}  // namespace fabring
