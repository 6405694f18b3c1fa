#include "runtime/base/number_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace fabring {
namespace {

TEST(NumberSet, has_what_was_put_into_it) {
  NumberSet numbers;
  std::set<std::uint32_t> expected;
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t number = random() % 3000;
    numbers.insert(number);
    expected.insert(number);
  }
  std::size_t runs = 0;
  for (std::uint32_t number = 0; number <= 3000; ++number) {
    ASSERT_EQ(numbers.contains(number), expected.contains(number)) << number;
    if (expected.contains(number) && !expected.contains(number + 1)) ++runs;
  }
  EXPECT_EQ(numbers.runs(), runs);
}

TEST(NumberSet, has_the_first_and_the_last_number) {
  constexpr std::uint32_t last = ~std::uint32_t{0};
  NumberSet numbers;
  for (const std::uint32_t number : {last, 0u, last - 1, 1u, last, 0u}) numbers.insert(number);
  EXPECT_EQ(numbers.runs(), 2u);
  EXPECT_TRUE(numbers.contains(0) && numbers.contains(1) && numbers.contains(last - 1) && numbers.contains(last));
  EXPECT_FALSE(numbers.contains(2) || numbers.contains(last - 2));
}

TEST(NumberSet, of_a_counter_is_one_run_whatever_their_order) {
  std::vector<std::uint32_t> order(10'000);
  std::iota(order.begin(), order.end(), 77u);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  NumberSet numbers;
  for (const std::uint32_t number : order) numbers.insert(number);
  EXPECT_EQ(numbers.runs(), 1u);
}

}  // namespace
}  // namespace fabring
