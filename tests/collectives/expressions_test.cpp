#include "collectives/check/expressions.hpp"

#include <gtest/gtest.h>

#include <array>

#include "collectives/check/memory.hpp"

namespace fabring::check {
namespace {

TEST(Expressions, EqualExpressionsAreOneAndOrderAndRoundingMatter) {
  Expressions e(3);
  const auto [a, b, c] = std::array{e.input_of(0), e.input_of(1), e.input_of(2)};
  const auto ab = e.reduced(std::array{a, b});
  EXPECT_EQ(ab, e.reduced(std::array{a, b}));
  EXPECT_NE(ab, e.reduced(std::array{b, a}));
  EXPECT_NE(e.reduced(std::array{ab, c}), e.reduced(std::array{a, b, c}));
  EXPECT_EQ(e.text(e.finished(e.reduced(std::array{ab, c}))), "((x0+x1)+x2)/n");
}

TEST(Expressions, ComplainsUnlessEveryInputIsThereOnceAndFinishedLast) {
  Expressions e(2);
  const auto [a, b] = std::array{e.input_of(0), e.input_of(1)};
  const auto ab = e.reduced(std::array{a, b});
  EXPECT_EQ(e.complaint(ab, {}), "");
  EXPECT_EQ(e.complaint(e.finished(ab), {.finished = true}), "");
  EXPECT_EQ(e.complaint(ab, {.finished = true}), "is not finished");
  EXPECT_NE(e.complaint(e.finished(ab), {}), "");
  EXPECT_NE(e.complaint(e.finished(e.finished(ab)), {.finished = true}), "");
  EXPECT_NE(e.complaint(e.reduced(std::array{e.finished(a), b}), {.finished = true}), "");
  EXPECT_EQ(e.complaint(a, {}), "has rank 1's input 0 times, not once");
  EXPECT_EQ(e.complaint(e.reduced(std::array{ab, b}), {}), "has rank 1's input 2 times, not once");
  EXPECT_NE(e.complaint(Expressions::undefined, {}), "");
  EXPECT_EQ(e.reduced(std::array{a, Expressions::undefined}), Expressions::undefined);
}

TEST(Expressions, OneFoldMayTakeSeveralStepsButNotOtherBrackets) {
  Expressions e(4);
  const auto [a, b, c, d] = std::array{e.input_of(0), e.input_of(1), e.input_of(2), e.input_of(3)};
  const auto ab = e.reduced(std::array{a, b});
  const Wanted fold{.order = Order::folded};
  EXPECT_EQ(e.complaint(e.reduced(std::array{a, b, c, d}), fold), "");
  EXPECT_EQ(e.complaint(e.reduced(std::array{ab, c, d}), fold), "");
  EXPECT_EQ(e.complaint(e.reduced(std::array{e.reduced(std::array{ab, c}), d}), fold), "");
  EXPECT_EQ(e.complaint(e.reduced(std::array{ab, e.reduced(std::array{c, d})}), fold), "is not one fold from the left");
  EXPECT_NE(e.complaint(e.reduced(std::array{e.reduced(std::array{b, a}), c, d}), fold), "");
  EXPECT_NE(e.complaint(e.reduced(std::array{ab, c, d}), {.order = Order::in_one_step}), "");
}

TEST(Expressions, DoublingTermsForEverTakesNoTime) {
  Expressions e(2);
  auto value = e.reduced(std::array{e.input_of(0), e.input_of(1)});
  for (int i = 0; i < 200; ++i) value = e.reduced(std::array{value, value});
  EXPECT_NE(e.complaint(value, {}), "");
  EXPECT_LT(e.text(value).size(), 1000u);
}

TEST(Memory, KeepsWhatAWriteDoesNotCover) {
  Memory memory({0, 10}, 1);
  memory.write({3, 7}, std::array{Piece{3, 7, 2, 0}});
  const auto pieces = memory.read({2, 8});
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].value, 1u);
  EXPECT_EQ(pieces[1].value, 2u);
  EXPECT_EQ(pieces[1].end.at, 7u);
  EXPECT_EQ(pieces[2].end.at, 8u);
  EXPECT_TRUE(memory.read({5, 5}).empty());
}

TEST(Memory, OperandsOfDifferentElementsMakeNothing) {
  Expressions e(2);
  std::vector<Piece> moved{{4, 6, e.input_of(0), 0}};
  move_pieces(moved, {4, 6}, {0, 2});
  const std::vector<Piece> still{{0, 2, e.input_of(1), 0}};
  const auto mixed = reduce_pieces(e, {0, 2}, std::array{moved, still});
  ASSERT_EQ(mixed.size(), 1u);
  EXPECT_EQ(mixed[0].value, Expressions::undefined);
  EXPECT_EQ(moved[0].shift.by, 4);
}

}  // namespace
}  // namespace fabring::check
