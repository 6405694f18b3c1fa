// Small messages that are too long for the ring of a pair: copies in their sender's arena, of which there are few.

#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

// Among many ranks a ring is short.
TEST(ShmFastMessages, ThatAreTooLongForTheRingLieInCopiesOfWhichThereAreFew) {
  World world(shm_fabric(), 4);
  world.connect();
  FastMessages& messages = *world.at(0).fast_messages();
  const auto longest = messages.most_bytes_of_few();
  ASSERT_GT(longest, messages.most_bytes());
  const auto way = [&](Rank from, Rank to) { return world.at(from).fast_messages()->fast_peer(to); };
  const std::size_t held = world.at(0).held_bytes();
  std::uint32_t sent = 0;
  for (Rank to = 1; way(0, to)->put(head_of(sent), pattern(longest, sent)); to = to % 3 + 1) ASSERT_LT(++sent, 100u);
  EXPECT_GE(sent, 3u);
  ASSERT_EQ(sent % 3, 0u) << "each has its share";
  EXPECT_EQ(world.at(0).held_bytes(), held + (sent - 1) * longest) << "one was there when they met";
  EXPECT_TRUE(way(0, 1)->put(head_of(100), pattern(1000, 1))) << "there is room for others";
  FastMessage came;
  for (std::uint32_t number = 0; number < 3 * sent; ++number) {
    const auto to = static_cast<Rank>(number % 3 + 1);
    FastPeer& from = *way(to, 0);
    ASSERT_TRUE(from.front(came)) << number;
    if (number_of(came.head) == 100) {
      from.pop();
      ASSERT_TRUE(from.front(came)) << number;
    }
    ASSERT_EQ(number_of(came.head), number);
    ASSERT_TRUE(std::ranges::equal(came.payload, pattern(longest, number)));
    EXPECT_FALSE(way(0, to)->put(head_of(0), pattern(longest, 0))) << "all are out";
    EXPECT_TRUE(from.is_intact());
    from.pop();
    world.poll(0);
    const std::uint32_t next = number + sent;
    ASSERT_TRUE(way(0, static_cast<Rank>(next % 3 + 1))->put(head_of(next), pattern(longest, next))) << number;
  }
}

TEST(ShmFastMessages, ThatOneRankDoesNotTakeHoldUpNoOther) {
  World world(shm_fabric(), 4);
  world.connect();
  FastMessages& messages = *world.at(0).fast_messages();
  const Bytes longest = pattern(messages.most_bytes_of_few(), 1);
  for (int i = 0; messages.fast_peer(1)->put(head_of(0), longest); ++i) ASSERT_LT(i, 100);
  EXPECT_TRUE(messages.fast_peer(2)->put(head_of(0), longest));
  EXPECT_TRUE(messages.fast_peer(3)->put(head_of(0), longest));
}

TEST(ShmFastMessages, ThatAreTooLongForTheRingAndForTheMachineEndTheConnection) {
  Fabric little = shm_fabric();
  little.config.scratch_bytes = 64 * 1024;
  World world(little, 4);
  world.connect();
  FastMessages& messages = *world.at(0).fast_messages();
  EXPECT_TRUE(messages.fast_peer(1)->put(head_of(0), pattern(messages.most_bytes_of_few(), 1)));
  EXPECT_EQ(world.at(0).peer_error(1).code(), ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace fabring::conformance
