// Tickets through shared memory: bytes that say where a message lies, lent like the message itself.

#include <algorithm>
#include <cstring>

#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

std::optional<Completion> completion_of(Endpoint& endpoint, std::uint64_t context) {
  for (int i = 0; i < 1000; ++i) {
    Completion completion;
    if (endpoint.poll({&completion, 1}) == 1 && completion.context == context) return completion;
  }
  return std::nullopt;
}

/// Rank 1 has sent rank 0 a ticket.
class ShmTicket : public testing::Test {
 protected:
  void SetUp() override {
    world.connect();
    ASSERT_TRUE(world.at(0).takes_tickets(1));
    ASSERT_EQ(world.at(0).post_recv_or_ticket(1, 9, into, 77), Post::accepted);
    Bytes passing = text;
    ASSERT_EQ(world.at(1).post_ticket(0, 9, passing, 78), Post::lent);
    std::ranges::fill(passing, std::byte{0xee});  // it was copied
    got = completion_of(world.at(0), 77);
    ASSERT_TRUE(got && got->ticket);
  }

  World world{shm_fabric(), 2};
  const Bytes text = pattern(400, 5);
  Bytes into = Bytes(8);  // shorter than the ticket
  std::optional<Completion> got;
};

TEST_F(ShmTicket, ArrivesWholeAndEndsWhenItIsGivenBack) {
  EXPECT_TRUE(std::ranges::equal(std::span(got->lent, got->bytes), text));
  EXPECT_TRUE(std::ranges::all_of(into, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_FALSE(completion_of(world.at(1), 78));
  EXPECT_TRUE(world.at(0).give_back(1, got->loan));
  const auto sent = completion_of(world.at(1), 78);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->outcome, Outcome::done);
}

TEST_F(ShmTicket, ThatCannotBeUsedIsSaidToItsSender) {
  world.at(0).refuse(1, got->loan);
  const auto sent = completion_of(world.at(1), 78);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->outcome, Outcome::refused);
}

TEST_F(ShmTicket, ThatWasTakenBackIsKnownToWhoReadWhatItSpeaksOf) {
  world.at(1).disconnect(0);
  const auto sent = completion_of(world.at(1), 78);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->outcome, Outcome::aborted);
  EXPECT_FALSE(world.at(0).give_back(1, got->loan));
  EXPECT_EQ(world.at(0).peer_error(1).code(), ErrorCode::peer_lost);
}

TEST_F(ShmTicket, OfADeadRankEndsItsLoans) {
  world.kill(0);
  const auto sent = completion_of(world.at(1), 78);
  ASSERT_TRUE(sent);
  EXPECT_NE(sent->outcome, Outcome::done);
}

TEST(ShmTickets, NeverWaitBehindEachOther) {
  World world(shm_fabric(), 2);
  world.connect();
  Bytes into(8);
  const Bytes text = pattern(400, 5);
  std::vector<Completion> open;
  std::size_t sent = 0;
  for (Slot slot = 0; slot < 200; ++slot) {
    ASSERT_EQ(world.at(0).post_recv_or_ticket(1, slot, into, slot), Post::accepted);
    if (world.at(1).post_ticket(0, slot, text, 1000 + slot) == Post::again) break;
    ++sent;
    if (const auto got = completion_of(world.at(0), slot)) open.push_back(*got);
  }
  EXPECT_EQ(sent, open.size());
  EXPECT_LT(sent, 200u) << "there are so many loans and no more";
  // An ordinary message goes on all the same.
  Bytes message(100'000);
  const auto received = world.recv(0, 1, 500, message);
  const Bytes from = pattern(100'000, 3);
  ASSERT_TRUE(world.complete({received, world.send(1, 0, 500, from)}));
  EXPECT_EQ(message, from);
}

TEST(ShmTickets, ToAReceiveThatTakesNoneLoseTheConnection) {
  World world(shm_fabric(), 2);
  world.connect();
  Bytes into(8192);
  ASSERT_EQ(world.at(0).post_recv(1, 9, into, 77), Post::accepted);
  ASSERT_EQ(world.at(1).post_ticket(0, 9, pattern(400, 5), 78), Post::lent);
  const auto got = completion_of(world.at(0), 77);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->outcome, Outcome::lost);
  EXPECT_EQ(world.at(0).peer_error(1).code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace fabring::conformance
