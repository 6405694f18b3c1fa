// float32 to 16-bit floats and back, at every length and offset: the bits that the oracle gives.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "collectives/reduce/convert.hpp"
#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

struct Format {
  DataType type;
  oracle::SmallFormat layout;
};
constexpr Format formats[] = {{DataType::float16, oracle::binary16}, {DataType::bfloat16, oracle::brain16}};

class Convert : public OnTarget {};

TEST_P(Convert, every_value_of_16_bits_survives_being_widened_and_narrowed) {
  for (const Format& format : formats) {
    std::vector<std::uint16_t> all(65536), back(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(all.size());
    widen(format.type, wide.data(), all.data(), all.size());
    narrow(format.type, back.data(), wide.data(), wide.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float expected = oracle::widen(format.layout, all[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[i])) << std::hex << i;
        ASSERT_EQ(back[i], format.type == DataType::float16 ? 0x7E00 : 0x7FC0) << std::hex << i;
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << std::hex << i;
        ASSERT_EQ(back[i], all[i]) << std::hex << i;
      }
    }
  }
}

TEST_P(Convert, rounds_any_float_once_to_nearest_even_wherever_it_lies) {
  std::mt19937_64 random(7);
  for (const Format& format : formats) {
    for (int round = 0; round < 300; ++round) {
      const std::size_t count = random() % 200, offset = random() % 20;
      std::vector<float> from(count + offset);
      for (float& value : from) {
        // Ties and their neighbours, and whatever interesting floats there are.
        auto bits = static_cast<std::uint32_t>(interesting_bits(DataType::float32, random));
        if (random() % 3 == 0) bits = (bits & 0xFFFF0000u) + 0x8000u + static_cast<std::uint32_t>(random() % 3) - 1u;
        if (random() % 3 == 0)
          bits = (bits & 0x807FE000u) + (117u << 23) + 0x1000u + static_cast<std::uint32_t>(random() % 3) - 1u;
        value = std::bit_cast<float>(bits);
      }
      std::vector<std::uint16_t> to(count + offset + 1, 0xABCD);
      narrow(format.type, to.data() + offset, from.data() + offset, count);
      for (std::size_t i = 0; i < count; ++i) {
        const float value = from[offset + i];
        const auto expected = std::isnan(value) ? (format.type == DataType::float16 ? 0x7E00 : 0x7FC0)
                                                : static_cast<int>(oracle::narrow(format.layout, value));
        ASSERT_EQ(to[offset + i], expected) << name(format.type) << " " << value << " at " << i << " of " << count;
      }
      ASSERT_EQ(to.back(), 0xABCD) << "something beyond the end was written";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, Convert, every_target(), target_name);

}  // namespace
}  // namespace fabring
