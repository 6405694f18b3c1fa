// When what a probe of the machine found is doubtful.
#include "runtime/startup/machine_probe.hpp"

#include <gmock/gmock.h>

namespace fabring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Accuracy accuracy(std::size_t within_20_percent, std::size_t priced, double worst) {
  return {.median = 1, .worst = worst, .within_20_percent = within_20_percent, .priced = priced};
}

TEST(MachineProbe, WarnsOfPricesThatDoNotFit) {
  EXPECT_EQ(warning_of(accuracy(20, 24, 1.4)), "");
  EXPECT_EQ(warning_of(accuracy(12, 24, 5.0)), "") << "half of them, and not above five times";
  EXPECT_EQ(warning_of(accuracy(0, 0, 1)), "") << "nothing has a price";
  EXPECT_THAT(warning_of(accuracy(11, 24, 1.4)), HasSubstr("11 of 24 times within 20%"));
  EXPECT_THAT(warning_of(accuracy(20, 24, 5.01)), HasSubstr("the worst 5.01 times off"));
  EXPECT_THAT(warning_of(accuracy(6, 15, 25.13)),
              AllOf(HasSubstr("algorithms may be chosen that are slow"), HasSubstr("start again on quiet hosts"),
                    HasSubstr("a file that describes one")));
}

}  // namespace
}  // namespace fabring
