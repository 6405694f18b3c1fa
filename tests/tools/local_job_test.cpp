// The pure parts of `fabring run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/fabring/local_job.hpp"
#include "tools/fabring/output_lines.hpp"

namespace fabring::tools {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Bindings, CoresAreSharedOutInNeighbouringBlocks) {
  EXPECT_THAT(bindings(Binding::core, 2, {0, 1, 2, 3}, {}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(bindings(Binding::core, 3, {4, 5, 6, 7}, {}),
              ElementsAre(ElementsAre(4), ElementsAre(5), ElementsAre(6, 7)));
}

TEST(Bindings, MoreRanksThanCoresAreNotBound) { EXPECT_THAT(bindings(Binding::core, 3, {0, 1}, {}), Each(IsEmpty())); }

TEST(Bindings, NumaNodesAreSharedOutAndOneNodeIsNone) {
  EXPECT_THAT(bindings(Binding::numa, 3, {0, 1, 2, 3}, {{0, 1}, {2, 3}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(bindings(Binding::numa, 2, {0, 1}, {{0, 1, 2, 3}}), Each(IsEmpty()));
  EXPECT_THAT(bindings(Binding::numa, 2, {0, 1}, {{0, 1}, {2, 3}}), Each(IsEmpty()));  // the other node is not ours
  EXPECT_THAT(bindings(Binding::none, 2, {0, 1}, {{0}, {1}}), Each(IsEmpty()));
}

TEST(OutputLines, HoldsBackALineUntilItEnds) {
  OutputLines plain(3, {});
  EXPECT_EQ(plain.take("one"), "");
  EXPECT_EQ(plain.take(" and\ntwo"), "one and\n");
  EXPECT_EQ(plain.finish(), "two");
  OutputLines tagged(3, {.tag = true, .timestamp = false});
  EXPECT_EQ(tagged.take("a\nb\n\nc"), "[3] a\n[3] b\n[3] \n");
  EXPECT_EQ(tagged.finish(), "[3] c\n");
  EXPECT_EQ(tagged.finish(), "");
}

TEST(OutputLines, LetsAProgressBarThroughAndEndlessLinesInPieces) {
  OutputLines plain(0, {});
  EXPECT_EQ(plain.take("50%\r60"), "50%\r");
  OutputLines tagged(0, {.tag = true, .timestamp = false});
  const std::string endless(1 << 20, 'x');
  EXPECT_EQ(tagged.take(endless).size(), endless.size() + 5);
}

}  // namespace
}  // namespace fabring::tools
