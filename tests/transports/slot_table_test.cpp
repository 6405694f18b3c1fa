#include "transports/slot_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fabring {
namespace {

TEST(SlotTable, BehavesAsAMapOverRandomOperations) {
  SlotTable table;
  std::map<Slot, std::uint64_t> model;
  std::mt19937 random(7);
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    const Slot slot = (random() % 300) * (random() % 2 == 0 ? 1u : 65536u);
    if (random() % 2 == 0) {
      EXPECT_EQ(table.insert({slot, false, nullptr, 0, step}), model.emplace(slot, step).second);
    } else {
      table.erase(slot);
      model.erase(slot);
    }
    ASSERT_EQ(table.size(), model.size());
    const Slot probe = random() % 300;
    const PostedReceive* found = table.find(probe);
    ASSERT_EQ(found != nullptr, model.contains(probe));
    if (found != nullptr) {
      ASSERT_EQ(found->context, model[probe]);
    }
  }
  std::size_t drained = 0;
  table.drain([&](const PostedReceive&) { ++drained; });
  EXPECT_EQ(drained, model.size());
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace fabring
