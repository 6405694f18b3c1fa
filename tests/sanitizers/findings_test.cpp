// With a sanitizer that is not there, or that goes on after what it found, every other test passes all the same. Each
// of these has the fault it is named after and would end with exit code 0, which a death test does not take.
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace {

#if defined(__SANITIZE_ADDRESS__)
volatile int one = 1;

TEST(Findings, AnOverflowEndsTheProcess) {
  EXPECT_DEATH(
      {
        volatile int sum = INT_MAX;
        sum = sum + one;
        std::exit(0);
      },
      "signed integer overflow");
}

TEST(Findings, AReadOfFreedMemoryEndsTheProcess) {
  EXPECT_DEATH(
      {
        auto freed = std::make_unique<int>(one);
        volatile int* at = freed.get();
        freed.reset();
        one = *at;
        std::exit(0);
      },
      "heap-use-after-free");
}

TEST(Findings, MemoryThatNobodyKnowsAnyMoreEndsTheProcess) {
  EXPECT_DEATH(
      {
        for (int i = 0; i < 100; ++i) *new volatile int[100] = one;
        std::exit(0);
      },
      "LeakSanitizer: detected memory leaks");
}
#endif

#if defined(__SANITIZE_THREAD__)
TEST(Findings, ARaceEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        int count = 0;
        std::thread other([&] { ++count; });
        ++count;
        other.join();
        std::exit(count == 2 ? 0 : 1);
      },
      "data race");
}
#endif

}  // namespace
