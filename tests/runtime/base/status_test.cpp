#include "fabring/status.hpp"

#include <gtest/gtest.h>

#include <string>

namespace fabring {
namespace {

TEST(Result, has_a_value_or_an_error) {
  const Result<std::string> right = std::string("here");
  EXPECT_EQ(*right, "here");
  EXPECT_EQ(right->size(), 4u);
  EXPECT_TRUE(right.error().ok());
  Result<std::string> moved = right;
  EXPECT_EQ(std::move(moved).value(), "here");
  const Result<std::string> wrong = Status(ErrorCode::unavailable, "no such port");
  EXPECT_EQ(wrong.error().message(), "no such port");
  EXPECT_EQ(wrong.value_or("other"), "other");
}

TEST(ResultDeathTest, without_a_value_ends_who_takes_it_with_the_reason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Result<std::string> wrong = Status(ErrorCode::unavailable, "no such port");
  EXPECT_DEATH((void)wrong.value(), "unavailable: no such port");
  EXPECT_DEATH((void)*wrong, "unavailable: no such port");
  EXPECT_DEATH((void)wrong->size(), "unavailable: no such port");
  EXPECT_DEATH((void)std::move(wrong).value(), "unavailable: no such port");
}

}  // namespace
}  // namespace fabring
