#include "runtime/engine/state_askers.hpp"

#include <gtest/gtest.h>

namespace fabring {
namespace {

TEST(StateAskers, AreAllTakenAtOnceAndKnownToBeThereUntilThen) {
  std::atomic<bool> any{false};
  StateAskers askers(any);
  int told = 0;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(askers.add([&](const RankState&) { ++told; }));
  EXPECT_TRUE(any.load());
  for (const auto& tell : askers.take()) tell(RankState());
  EXPECT_EQ(told, 3);
  EXPECT_FALSE(any.load());
  EXPECT_TRUE(askers.take().empty());
}

TEST(StateAskers, AreNoMoreThanSoMany) {
  std::atomic<bool> any{false};
  StateAskers askers(any);
  for (std::size_t i = 0; i < StateAskers::most; ++i) EXPECT_TRUE(askers.add([](const RankState&) {}));
  EXPECT_FALSE(askers.add([](const RankState&) {}));
  EXPECT_EQ(askers.take().size(), StateAskers::most);
  EXPECT_TRUE(askers.add([](const RankState&) {}));
}

}  // namespace
}  // namespace fabring
