// Several threads that leave with one engine: one does, and the others wait for it.

#include <gtest/gtest.h>

#include <future>

#include "runtime/engine/members/leaving.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;

TEST(Leaving, is_begun_by_the_first_alone) {
  Leaving leaving;
  EXPECT_FALSE(leaving.has_begun());
  EXPECT_TRUE(leaving.begin());
  EXPECT_TRUE(leaving.has_begun());
  EXPECT_FALSE(leaving.takes_nothing());
  EXPECT_FALSE(leaving.begin());
  leaving.end();
  EXPECT_FALSE(leaving.begin()) << "nor again when it is over";
}

TEST(Leaving, is_not_waited_for_by_the_thread_that_leaves) {
  Leaving leaving;
  ASSERT_TRUE(leaving.begin());
  EXPECT_TRUE(leaving.await_end(10s).ok());
}

TEST(Leaving, is_waited_for_by_others_until_it_is_over) {
  Leaving leaving;
  ASSERT_TRUE(leaving.begin());
  auto second = std::async(std::launch::async, [&] { return leaving.await_end(10s); });
  leaving.end();
  EXPECT_TRUE(second.get().ok());
}

TEST(Leaving, that_takes_too_long_is_told_to_those_who_wait) {
  Leaving leaving;
  ASSERT_TRUE(leaving.begin());
  const Status late = std::async(std::launch::async, [&] { return leaving.await_end(1ms); }).get();
  EXPECT_EQ(late.code(), ErrorCode::timeout);
  EXPECT_EQ(late.message(), "another thread has been in leave() for more than 1 ms");
}

}  // namespace
}  // namespace fabring
