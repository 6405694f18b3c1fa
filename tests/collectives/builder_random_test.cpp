// Random programs over nested, overlapping and differently cut ranges: whatever the builder was asked, the dependencies
// it derived must leave no two steps that share bytes unordered, for any element count.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "collectives/builder.hpp"
#include "collectives/check/world.hpp"

namespace fabring {
namespace {

RangeId random_range(PlanBuilder& plan, std::mt19937& random) {
  constexpr std::array cuts{2, 3, 4, 7};
  RangeId range = plan.whole();
  for (unsigned depth = random() % 4; depth > 0; --depth) {
    const int parts = cuts[random() % cuts.size()];
    const int first = static_cast<int>(random() % static_cast<unsigned>(parts));
    const int length = random() % 3 == 0 ? static_cast<int>(random() % static_cast<unsigned>(parts - first + 1)) : 1;
    range = plan.parts(range, first, first + length, parts);
  }
  return range;
}

Plan random_program(std::uint32_t seed) {
  std::mt19937 random(seed);
  PlanBuilder plan("random", 0, 1);
  for (int i = 0; i < 40; ++i) {
    const RangeId range = random_range(plan, random);
    const Block data = random() % 2 == 0 ? plan.input(range) : plan.output(range);
    switch (random() % 4) {
      case 0:
        plan.copy(plan.output(range), plan.scratch(range));
        break;
      case 1:
        plan.copy(plan.output(range), data);
        break;
      case 2:
        plan.reduce(plan.scratch(range), std::array{data, plan.scratch(range)});
        break;
      default:
        plan.copy(plan.scratch(range), data);
    }
  }
  return std::move(plan).build();
}

TEST(PlanBuilderRandom, NoTwoStepsThatShareBytesAreLeftUnordered) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    const Plan plan = random_program(seed);
    for (const std::size_t count : {1, 2, 3, 5, 8, 13, 29, 84, 1000}) {
      const auto world = check::bind_world({&plan, 1}, count, ReduceOp::sum);
      ASSERT_TRUE(world.has_value()) << "seed " << seed << ": " << world.error().message();
      const Status status = check::check_races(*world);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ", count " << count << ": " << status.message();
    }
  }
}

}  // namespace
}  // namespace fabring
