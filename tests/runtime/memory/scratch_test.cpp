// Memory that operations borrow, of the host and of a device.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "runtime/memory/device_scratch.hpp"
#include "runtime/memory/scratch.hpp"
#include "tests/support/fake_device.hpp"

namespace fabring {
namespace {

TEST(Scratch, counts_what_it_promised_and_has_memory_for_it_only_when_that_is_asked_for) {
  Scratch scratch(3 * 4096);
  ASSERT_TRUE(scratch.promise(5000));
  EXPECT_EQ(scratch.lent(), 8192u);
  EXPECT_EQ(scratch.held(), 0u);
  EXPECT_FALSE(scratch.promise(5000));
  EXPECT_EQ(scratch.borrow(5000), nullptr);
  std::byte* const block = scratch.keep_promise(5000);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(scratch.lent(), 8192u);
  EXPECT_EQ(scratch.held(), 8192u);
  scratch.give_back(block, 5000);
  EXPECT_EQ(scratch.lent(), 0u);
  ASSERT_TRUE(scratch.promise(5000));
  EXPECT_EQ(scratch.keep_promise(5000), block) << "it was kept";
  scratch.give_back(block, 5000);
  ASSERT_TRUE(scratch.promise(5000));
  scratch.release_promise(5000);
  EXPECT_EQ(scratch.lent(), 0u);
}

TEST(Scratch, lends_up_to_its_budget_and_what_came_back_again) {
  Scratch scratch(3 * 4096);
  std::byte* a = scratch.borrow(4096);
  std::byte* b = scratch.borrow(1);
  std::byte* c = scratch.borrow(4095);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 4096, 0u);
  std::memset(c, 1, 4095);
  EXPECT_EQ(scratch.lent(), 3u * 4096);
  EXPECT_EQ(scratch.borrow(1), nullptr);
  scratch.give_back(b, 1);
  EXPECT_EQ(scratch.borrow(4096), b);
  for (std::byte* block : {a, b, c}) scratch.give_back(block, 4096);
  EXPECT_EQ(scratch.lent(), 0u);
}

TEST(Scratch, makes_room_by_dropping_kept_blocks_of_other_sizes) {
  Scratch scratch(4 * 4096);
  std::vector<std::byte*> small;
  for (int i = 0; i < 4; ++i) small.push_back(scratch.borrow(4096));
  for (std::byte* block : small) scratch.give_back(block, 4096);
  std::byte* large = scratch.borrow(4 * 4096);
  ASSERT_NE(large, nullptr);
  EXPECT_LE(scratch.held(), scratch.budget());
  scratch.give_back(large, 4 * 4096);
}

TEST(Scratch, beyond_the_budget_keeps_nothing) {
  Scratch scratch(4096);
  std::byte* within = scratch.borrow(4096);
  std::byte* beyond = scratch.borrow(8192, true);
  ASSERT_TRUE(within && beyond);
  EXPECT_EQ(scratch.held(), 3u * 4096);
  scratch.give_back(beyond, 8192);
  EXPECT_EQ(scratch.held(), 4096u);
  scratch.give_back(within, 4096);
}

TEST(Scratch, promises_beyond_the_budget_are_memory_only_when_they_are_kept) {
  Scratch scratch(4096);
  ASSERT_TRUE(scratch.promise(8192, true));
  EXPECT_EQ(scratch.held(), 0u);
  EXPECT_FALSE(scratch.promise(1)) << "others wait until it is over";
  scratch.release_promise(8192);
  EXPECT_TRUE(scratch.promise(1));
  scratch.release_promise(1);
}

TEST(Scratch, lends_longer_blocks_for_less_and_counts_all_of_them) {
  constexpr std::size_t page = 4096;
  Scratch scratch(39 * page);
  std::byte* const large = scratch.borrow(19 * page);
  EXPECT_EQ(scratch.held(), 20u * page) << "one of four sizes between 16 and 32";
  EXPECT_EQ(scratch.lent(), 20u * page);
  scratch.give_back(large, 19 * page);
  EXPECT_EQ(scratch.borrow(10 * page), large);
  EXPECT_EQ(scratch.lent(), 20u * page);
  scratch.give_back(large, 10 * page);
  std::byte* const small = scratch.borrow(5 * page);
  EXPECT_NE(small, large) << "more than twice as long, while there is room";
  scratch.give_back(small, 5 * page);
  EXPECT_EQ(scratch.lent(), 0u);
  std::byte* const exact = scratch.borrow(39 * page);
  EXPECT_EQ(scratch.lent(), 39u * page) << "its size would pass the budget";
  EXPECT_EQ(scratch.held(), 39u * page);
  scratch.give_back(exact, 39 * page);
  EXPECT_EQ(scratch.borrow(page), exact) << "rather than freeing it";
  EXPECT_EQ(scratch.asked(), page);
  EXPECT_FALSE(scratch.promise(page)) << "all of it counts";
  scratch.give_back(exact, page);
  ASSERT_TRUE(scratch.promise(page));
  EXPECT_EQ(scratch.lent(), page);
  EXPECT_EQ(scratch.keep_promise(page), exact);
  EXPECT_EQ(scratch.lent(), 39u * page);
  scratch.give_back(exact, page);
  EXPECT_EQ(scratch.lent(), 0u);
  EXPECT_LE(scratch.most_held(), scratch.budget());
}

class Hours final : public Clock {
 public:
  Time now() const override { return at; }
  Time at = std::chrono::hours(1);
};

TEST(DeviceScratch, that_a_device_has_none_left_is_believed_for_a_while) {
  const auto device = std::make_shared<fixture::FakeDevice>(1);
  const auto clock = std::make_shared<Hours>();
  DeviceScratch scratch(device, 1 << 20, clock);
  EXPECT_TRUE(scratch.why_none_left().ok());
  device->refuse_to_allocate(true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scratch.borrow(0, 8192).at, nullptr);
  EXPECT_EQ(device->allocations_asked(), 1u);
  EXPECT_EQ(scratch.why_none_left().code(), ErrorCode::out_of_memory);
  EXPECT_EQ(scratch.borrow(0, 4096).at, nullptr) << "so little it may have";
  EXPECT_EQ(device->allocations_asked(), 2u);
  device->refuse_to_allocate(false);
  EXPECT_EQ(scratch.borrow(0, 8192).at, nullptr);
  clock->at += DeviceScratch::time_to_ask_again;
  const auto block = scratch.borrow(0, 8192);
  EXPECT_NE(block.at, nullptr);
  scratch.give_back(0, block);
}

TEST(DeviceScratch, that_cannot_be_shared_is_lent_to_who_reads_it_alone) {
  using Readers = DeviceScratch::Readers;
  const auto device = std::make_shared<fixture::FakeDevice>(1);
  DeviceScratch scratch(device, 1 << 20, std::make_shared<SteadyClock>());
  const auto for_peers = scratch.borrow(0, 4096);
  device->out_of_reach_of_others();
  EXPECT_EQ(scratch.borrow(0, 4096).at, nullptr);
  EXPECT_TRUE(scratch.why_none_left().ok());
  EXPECT_EQ(scratch.why_not_shared().code(), ErrorCode::unsupported);
  EXPECT_EQ(scratch.held(), 8192u) << "it stays for who reads it alone";
  const auto own = scratch.borrow(0, 4096, false, Readers::none);
  ASSERT_NE(own.at, nullptr) << "though others were refused";
  scratch.give_back(0, for_peers);
  scratch.give_back(0, own);
  EXPECT_EQ(scratch.borrow(0, 4096).at, for_peers.at);
  EXPECT_EQ(scratch.borrow(0, 4096).at, nullptr);
  EXPECT_EQ(scratch.borrow(0, 4096, false, Readers::none).at, own.at);
  scratch.give_back(0, for_peers);
  scratch.give_back(0, own);
}

TEST(DeviceScratch, that_cannot_be_shared_is_neither_freed_nor_allocated_again_to_ask_anew) {
  const auto device = std::make_shared<fixture::FakeDevice>(1);
  const auto clock = std::make_shared<Hours>();
  DeviceScratch scratch(device, 1 << 20, clock);
  device->out_of_reach_of_others();
  void* const stream = device->open_stream(0);
  device->hold(stream);
  for (const std::size_t bytes : {4096, 8192, 4096}) {
    EXPECT_EQ(scratch.borrow(0, bytes).at, nullptr);
    clock->at += DeviceScratch::time_to_ask_again;
  }
  EXPECT_EQ(device->frees_behind_held_streams(), 0u) << "it would wait for the stream";
  EXPECT_EQ(device->allocations_asked(), 1u);
  device->within_reach_of_others();
  const auto larger = scratch.borrow(0, 8192), first = scratch.borrow(0, 4096);
  EXPECT_TRUE(larger.facts.bytes == 8192 && first.facts.bytes == 4096);
  EXPECT_EQ(device->allocations_asked(), 2u) << "what was refused is shared by now";
  scratch.give_back(0, larger);
  scratch.give_back(0, first);
  device->release(stream);
}

TEST(DeviceScratch, lends_kept_blocks_for_less_and_passes_its_budget_only_when_told_to) {
  const auto device = std::make_shared<fixture::FakeDevice>(1, 2);
  DeviceScratch scratch(device, 3 * 8192, std::make_shared<SteadyClock>());
  const auto large = scratch.borrow(0, 16384), small = scratch.borrow(0, 5000);
  ASSERT_TRUE(large.at != nullptr && small.at != nullptr);
  EXPECT_EQ(scratch.held(), 3u * 8192);
  EXPECT_EQ(scratch.borrow(0, 1).at, nullptr);
  scratch.give_back(0, large);
  EXPECT_EQ(scratch.borrow(1, 1).at, nullptr) << "it is another device's";
  const auto again = scratch.borrow(0, 4096);
  EXPECT_EQ(again.at, large.at) << "larger than asked for, and kept";
  const auto beyond = scratch.borrow(0, 4096, true);
  ASSERT_NE(beyond.at, nullptr);
  EXPECT_EQ(scratch.borrow(0, 4096).at, nullptr) << "what is held is beyond the budget";
  for (const auto& block : {small, again, beyond}) scratch.give_back(0, block);
  EXPECT_EQ(scratch.borrow(0, 16384).at, large.at);
  scratch.give_back(0, large);
}

}  // namespace
}  // namespace fabring
