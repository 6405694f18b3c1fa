#include "runtime/engine/plans/choice_tables.hpp"

#include <gtest/gtest.h>

#include "collectives/cost/machine.hpp"

namespace fabring {
namespace {

TEST(ChoiceTables, ArePricedOnceForEachShapeUntilPricesChange) {
  ChoiceTables tables;
  int priced = 0;
  const auto of = [&](const WorldShape& shape) {
    return tables.of(shape, [&] {
      ++priced;
      return ChoiceTable::make(shape, *find_machine("10g"));
    });
  };
  const WorldShape four{4, 1, 4, 4}, eight{8, 2, 4, 4};
  const auto first = of(four);
  const auto other = of(eight);
  EXPECT_EQ(first->shape(), four);
  EXPECT_EQ(other->shape(), eight);
  EXPECT_EQ(of(four), first);
  EXPECT_EQ(of(eight), other);
  EXPECT_EQ(priced, 2);
  tables.clear();
  EXPECT_NE(of(four), first);
  EXPECT_EQ(priced, 3);
}

}  // namespace
}  // namespace fabring
