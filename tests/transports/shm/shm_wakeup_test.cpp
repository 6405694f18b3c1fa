// Who is woken, and who does not sleep: room that is given back late, and loans that nobody waits for room to get back.

#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

/// Two ranks that have met; their bells are silent.
struct Two {
  Two() : world(mapped_fabric(), 2) {
    world.connect();
    (void)rung(0), (void)rung(1);
  }
  shm::ShmEndpoint& at(Rank rank) { return dynamic_cast<shm::ShmEndpoint&>(world.at(rank)); }
  FastPeer& way_of(Rank rank) { return *world.at(rank).fast_messages()->fast_peer(1 - rank); }
  bool rung(Rank rank) {
    std::uint64_t rings = 0;
    return ::read(at(rank).bell(), &rings, sizeof rings) == sizeof rings;
  }
  /// Rank 0 sends a message that rank 1 answers in its place.
  void answer_one() {
    FastMessage message;
    ASSERT_TRUE(way_of(0).put(head_of(0), payload));
    ASSERT_TRUE(way_of(1).front(message));
    ASSERT_NE(way_of(1).answer_place(), nullptr);
    way_of(1).answer(head_of(1), payload.size());
  }
  void read_answer() {
    FastMessage message;
    ASSERT_TRUE(way_of(0).front(message));
    way_of(0).pop();
  }
  World world;
  const Bytes payload = pattern(4096, 1);
};

TEST(ShmWakeUps, WhoHasReadAnswersAndFindsNoRoomRingsWhoAnswered) {
  Two two;
  two.answer_one();
  FastMessage message;
  while (two.way_of(0).put(head_of(2), two.payload)) {  // all are read, but their room is behind that of the answer
    ASSERT_TRUE(two.way_of(1).front(message));
    two.way_of(1).pop();
  }
  ASSERT_TRUE(two.at(1).arm());
  two.read_answer();
  ASSERT_FALSE(two.way_of(0).put(head_of(2), two.payload));
  ASSERT_TRUE(two.at(0).arm());
  EXPECT_TRUE(two.rung(1));
  two.at(1).disarm();
  two.world.poll(1);
  EXPECT_TRUE(two.rung(0));
  two.at(0).disarm();
  EXPECT_TRUE(two.way_of(0).put(head_of(2), two.payload));
}

TEST(ShmWakeUps, NobodySleepsOnRoomThatItCanGiveBack) {
  Two two;
  two.answer_one();
  EXPECT_TRUE(two.at(1).arm()) << "the answer has not been read";
  two.at(1).disarm();
  two.read_answer();
  EXPECT_FALSE(two.at(1).arm());
  two.world.poll(1);
  EXPECT_TRUE(two.at(1).arm());
  two.at(1).disarm();
}

TEST(ShmWakeUps, WhoWaitsForALoanIsRungByWhoCopiedIt) {
  Two two;
  constexpr std::size_t bytes = 64 * 1024;
  std::byte* const mapped = two.world.at(0).mapped_memory()->allocate(bytes);
  ASSERT_NE(mapped, nullptr);
  Bytes into(bytes);
  const auto received = two.world.recv(1, 0, 5, into);
  const auto sent = two.world.try_send(0, 1, 5, {mapped, bytes});
  ASSERT_TRUE(sent);
  two.world.poll(0);
  ASSERT_FALSE(two.world.ending(*sent)) << "it is lent";
  ASSERT_TRUE(two.at(0).arm());
  two.world.poll(1);
  ASSERT_TRUE(two.world.ending(received));
  EXPECT_TRUE(two.rung(0));
  two.at(0).disarm();
  two.world.poll(0);
  EXPECT_TRUE(two.world.ending(*sent));
}

TEST(ShmWakeUps, WhoWaitsForASmallLoanIsRungByWhoReadIt) {
  Two two;
  constexpr std::size_t bytes = 8192;
  std::byte* const mapped = two.world.at(0).mapped_memory()->allocate(bytes);
  ASSERT_NE(mapped, nullptr);
  std::uint32_t first = 0, second = 0;
  ASSERT_TRUE(two.way_of(0).lend(head_of(0), {mapped, bytes}, {}, first));
  ASSERT_TRUE(two.way_of(0).lend(head_of(1), {mapped, bytes}, {}, second));
  two.world.poll(0);
  ASSERT_TRUE(two.at(0).arm()) << "both are out";
  FastMessage message;
  ASSERT_TRUE(two.way_of(1).front(message));
  two.way_of(1).pop();
  EXPECT_TRUE(two.rung(0));
  two.at(0).disarm();
  EXPECT_TRUE(two.way_of(0).is_back(first));
  two.world.poll(0);
  EXPECT_FALSE(two.at(0).arm()) << "one came back, for which nobody may have looked since it did";
  ASSERT_TRUE(two.at(0).arm()) << "the other is out";
  ASSERT_TRUE(two.way_of(1).front(message));
  two.way_of(1).pop();
  EXPECT_TRUE(two.rung(0));
  two.at(0).disarm();
  EXPECT_TRUE(two.way_of(0).is_back(second));
  two.world.poll(0);
  EXPECT_FALSE(two.at(0).arm());
  EXPECT_TRUE(two.at(0).arm()) << "nothing is out any more";
  two.at(0).disarm();
}

// What ends_a_quarter() relies on.
TEST(ShmWakeUps, WhoeverWaitsForRoomHasMoreThanAQuarterOfTheRingBeforeItsReader) {
  for (int ranks = 2; ranks <= 256; ++ranks) {
    const shm::FastRing ring = shm::FastRing::of_world(ranks);
    EXPECT_LT(ring.lines / 4, ring.lines - (2 * ring.length(ring.most_bytes()) + 1)) << ranks;
    const shm::Staging staging = shm::Staging::of_world(ranks);
    const std::uint32_t most = std::max(2 * staging.part(), 2 * shm::MessageEnds::most_bytes);
    EXPECT_LT(staging.bytes / 4, staging.bytes - most) << ranks;
  }
}

TEST(ShmWakeUps, AQuarterEndsOnceHoweverFarOneReadsAndWhereNumbersWrap) {
  EXPECT_FALSE(shm::ends_a_quarter(0, 31, 128));
  EXPECT_TRUE(shm::ends_a_quarter(31, 32, 128));
  EXPECT_TRUE(shm::ends_a_quarter(5, 5 + 128, 128));
  EXPECT_FALSE(shm::ends_a_quarter(32, 63, 128));
  EXPECT_TRUE(shm::ends_a_quarter(~std::uint32_t{0}, 0, 128));
}

}  // namespace
}  // namespace fabring::conformance
