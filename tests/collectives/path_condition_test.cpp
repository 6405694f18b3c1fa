// What each operation on a memory notes of the order of bounds. Half of a count and two quarters of it are the same at
// multiples of four; elsewhere two quarters may be longer by one.
#include "collectives/check/path_condition.hpp"

#include <gtest/gtest.h>

#include <array>

#include "collectives/check/memory.hpp"

namespace fabring::check {
namespace {

class PathConditionOf : public ::testing::Test {
 protected:
  /// Does what was noted at 8 hold at `count`?
  bool holds_at(std::size_t count) {
    std::vector<std::int64_t> values;
    forms.evaluate(count, values);
    return path.holds_until(0, values, std::vector<std::int64_t>(values.size())).has_value();
  }
  void write(Position begin, Position end, ExpressionId value, Shift shift = 0) {
    memory.write({begin, end}, std::array{Piece{begin, end, value, shift}}, &path);
  }

  LinearForms forms{nullptr};
  PathCondition path{forms};
  Position whole{8, forms.counts(1)};
  Position half{4, forms.begin_of_part(1, 2, whole.form)};
  Position quarters{4, forms.begin_of_part(2, 4, whole.form)};
  Memory memory{{0, whole}, 1, &path};
};

TEST_F(PathConditionOf, a_read_behind_what_was_written) {
  write(0, half, 2);
  EXPECT_TRUE(holds_at(6)) << "nothing was compared that is elsewhere there";
  EXPECT_EQ(memory.read({quarters, whole}, &path).size(), 1U);
  EXPECT_TRUE(holds_at(6)) << "it begins even later there";
  EXPECT_EQ(memory.read({0, quarters}, &path).size(), 1U);
  EXPECT_FALSE(holds_at(6)) << "two pieces there";
  EXPECT_TRUE(holds_at(12));
}

TEST_F(PathConditionOf, a_read_that_begins_earlier_elsewhere) {
  write(0, quarters, 2);
  EXPECT_EQ(memory.read({half, whole}, &path).size(), 1U);
  EXPECT_FALSE(holds_at(6));
  EXPECT_TRUE(holds_at(12));
}

TEST_F(PathConditionOf, a_write_behind_another) {
  write(0, half, 2);
  write(quarters, whole, 3);
  EXPECT_FALSE(holds_at(6)) << "a gap there";
  EXPECT_TRUE(holds_at(5));
}

TEST_F(PathConditionOf, pieces_that_become_one) {
  write(0, half, 2, {0, forms.minus(quarters.form, half.form)});
  write(half, whole, 2, 0);
  EXPECT_EQ(memory.size(), 1U);
  EXPECT_FALSE(holds_at(6)) << "they speak of other elements there";
  EXPECT_TRUE(holds_at(12));
}

TEST_F(PathConditionOf, operands_that_end_together) {
  Expressions expressions(2);
  const std::array<std::vector<Piece>, 2> operands{
      std::vector<Piece>{{0, half, expressions.input_of(0), 0}, {half, whole, expressions.input_of(1), 0}},
      std::vector<Piece>{{0, quarters, expressions.input_of(1), 0}, {quarters, whole, expressions.input_of(0), 0}}};
  EXPECT_EQ(reduce_pieces(expressions, {0, whole}, operands, &path).size(), 2U);
  EXPECT_FALSE(holds_at(6));
  EXPECT_TRUE(holds_at(12));
}

TEST_F(PathConditionOf, a_memory_that_is_empty) {
  PathCondition of_nothing(forms);
  EXPECT_TRUE(Memory().read({{4, half.form}, {4, quarters.form}}, &of_nothing).empty());
  std::vector<std::int64_t> values;
  forms.evaluate(6, values);
  EXPECT_FALSE(of_nothing.holds_until(0, values, std::vector<std::int64_t>(values.size())));
}

// At 4 k + 2, half is 2 k + 1 and two quarters are 2 k + 2.
TEST_F(PathConditionOf, holds_from_some_k_to_another) {
  const auto until = [&](FormId a, FormId b, std::uint64_t rest, std::uint64_t period, std::int64_t k) {
    PathCondition condition(forms);
    condition.at_most(a, b);
    std::vector<std::int64_t> values, slopes;
    forms.evaluate(rest, values);
    forms.evaluate(rest + period, slopes);
    for (std::size_t i = 0; i < values.size(); ++i) slopes[i] -= values[i];
    return condition.holds_until(k, values, slopes);
  };
  EXPECT_EQ(until(half.form, quarters.form, 2, 4, 0), PathCondition::always);
  EXPECT_EQ(until(quarters.form, half.form, 2, 4, 1000), std::nullopt);
  const FormId thirds = forms.begin_of_part(2, 3, whole.form);
  EXPECT_EQ(until(thirds, half.form, 1, 6, 0), 0) << "of one element both are all; of seven they are five and four";
  EXPECT_EQ(until(thirds, half.form, 1, 6, 1), std::nullopt);
}

}  // namespace
}  // namespace fabring::check
