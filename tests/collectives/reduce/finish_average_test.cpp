#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "collectives/reduce/reduce.hpp"
#include "oracle.hpp"
#include "target_fixture.hpp"

namespace fabring {
namespace {

class FinishAverage : public OnTarget {
 protected:
  template <class T>
  static void expect_integers_truncate(DataType type) {
    std::vector<T> values{0, 1, 2, 6, 7, 8, 100, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    std::mt19937_64 random(4);
    while (values.size() < 1001) values.push_back(static_cast<T>(random() >> (random() % 64)));
    for (const int ranks : {1, 2, 3, 7, 64, 1000, 65537, std::numeric_limits<int>::max()}) {
      std::vector<T> averages = values;
      finish_average(type, averages.data(), averages.size(), ranks);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // A divisor beyond the type's range leaves nothing but -1/0/1 quotients, which the wide division gets right.
        if constexpr (std::is_signed_v<T>) {
          ASSERT_EQ(averages[i], static_cast<T>(std::int64_t{values[i]} / ranks)) << +values[i] << " / " << ranks;
        } else {
          ASSERT_EQ(averages[i], static_cast<T>(std::uint64_t{values[i]} / static_cast<unsigned>(ranks)))
              << +values[i] << " / " << ranks;
        }
      }
    }
  }
};

TEST_P(FinishAverage, integers_truncate_towards_zero) {
  expect_integers_truncate<std::int8_t>(DataType::int8);
  expect_integers_truncate<std::int16_t>(DataType::int16);
  expect_integers_truncate<std::int32_t>(DataType::int32);
  expect_integers_truncate<std::int64_t>(DataType::int64);
  expect_integers_truncate<std::uint8_t>(DataType::uint8);
  expect_integers_truncate<std::uint16_t>(DataType::uint16);
  expect_integers_truncate<std::uint32_t>(DataType::uint32);
  expect_integers_truncate<std::uint64_t>(DataType::uint64);
  std::vector<int> values{-7, -1, 7};
  finish_average(DataType::int32, values.data(), values.size(), 2);
  EXPECT_EQ(values, (std::vector<int>{-3, 0, 3}));
}

TEST_P(FinishAverage, floats_are_divided_not_multiplied_by_a_reciprocal) {
  std::mt19937_64 random(5);
  for (const int ranks : {1, 2, 3, 10, 49, 1000}) {
    std::vector<float> singles(333);
    std::vector<double> doubles(333);
    for (std::size_t i = 0; i < singles.size(); ++i) {
      singles[i] = static_cast<float>(doubles[i] = static_cast<double>(random() % 100000) / 7);
    }
    std::vector<float> single_averages = singles;
    std::vector<double> double_averages = doubles;
    finish_average(DataType::float32, single_averages.data(), singles.size(), ranks);
    finish_average(DataType::float64, double_averages.data(), doubles.size(), ranks);
    for (std::size_t i = 0; i < singles.size(); ++i) {
      ASSERT_EQ(single_averages[i], singles[i] / static_cast<float>(ranks));
      ASSERT_EQ(double_averages[i], doubles[i] / ranks);
    }
  }
}

TEST_P(FinishAverage, halves_are_divided_in_float_and_rounded_once) {
  for (const auto& [type, format] :
       {std::pair{DataType::float16, oracle::binary16}, {DataType::bfloat16, oracle::brain16}}) {
    for (const int ranks : {1, 2, 3, 7, 100}) {
      std::vector<std::uint16_t> values(65536 + 7);  // not a multiple of any vector
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
      std::vector<std::uint16_t> averages = values;
      finish_average(type, averages.data(), averages.size(), ranks);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = oracle::widen(format, values[i]);
        if (ranks == 1) {
          ASSERT_EQ(averages[i], values[i]) << "one rank's average is its value, NaN payloads included";
        } else {
          ASSERT_EQ(averages[i], oracle::narrow(format, value / static_cast<float>(ranks))) << value << " / " << ranks;
        }
      }
    }
  }
}

TEST_P(FinishAverage, bytes_are_divided_in_float_and_rounded_once) {
  for (const auto& [type, format] :
       {std::pair{DataType::float8_e4m3, oracle::e4m3}, {DataType::float8_e5m2, oracle::e5m2}}) {
    for (const int ranks : {1, 2, 3, 7, 100}) {
      std::vector<std::uint8_t> values(256 + 7);
      std::iota(values.begin(), values.end(), std::uint8_t{0});
      std::vector<std::uint8_t> averages = values;
      finish_average(type, averages.data(), averages.size(), ranks);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = oracle::widen(format, values[i]);
        const int expected = ranks == 1 ? values[i] : oracle::narrow(format, value / static_cast<float>(ranks));
        ASSERT_EQ(averages[i], expected) << name(type) << " " << value << " / " << ranks;
      }
    }
  }
}

TEST_P(FinishAverage, touches_nothing_when_there_is_nothing) {
  finish_average(DataType::float32, nullptr, 0, 4);
  finish_average(DataType::bfloat16, nullptr, 0, 4);
  reduce(DataType::float32, ReduceOp::avg, nullptr, std::vector<const void*>(2, nullptr), 0);
}

INSTANTIATE_TEST_SUITE_P(Target, FinishAverage, every_target(), target_name);

}  // namespace
}  // namespace fabring
