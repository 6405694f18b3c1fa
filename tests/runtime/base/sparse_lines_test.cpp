#include "runtime/base/sparse_lines.hpp"

#include <gmock/gmock.h>

namespace fabring {
namespace {

using namespace std::chrono_literals;
using testing::Optional;

TEST(SparseLines, TheFirstIsWrittenAndThenOneInTenSecondsWithACount) {
  SparseLines lines;
  const SparseLines::Clock::time_point start{1h};
  EXPECT_THAT(lines.due("one", start), Optional(std::string("one")));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(lines.due("more", start + i * 9ms), std::nullopt);
  EXPECT_THAT(lines.due("late", start + 10s), Optional(std::string("late (and 1000 more like it before)")));
  EXPECT_EQ(lines.due("more", start + 19s), std::nullopt);
  EXPECT_THAT(lines.due("later", start + 20s), Optional(std::string("later (and 1 more like it before)")));
  EXPECT_THAT(lines.due("last", start + 30s), Optional(std::string("last")));
}

}  // namespace
}  // namespace fabring
