// Messages that are written part by part to where they are received, or to one copy that several peers read, before
// they are posted; and receives that go past the caches.

#include <random>

#include "tests/transports/shm/shm_world.hpp"
#include "transports/shm/common_copies.hpp"

namespace fabring::conformance {
namespace {

constexpr std::size_t kib = 1024;

/// Rank 0 sends to all others, in parts.
class WrittenAhead : public testing::Test {
 protected:
  void SetUp() override { world.connect(); }

  std::vector<Ahead> ahead_of(const std::vector<std::pair<Rank, Slot>>& receives) {
    std::vector<Ahead> to;
    for (const auto& [peer, slot] : receives) to.push_back({peer, slot});
    return to;
  }
  void write(std::vector<Ahead>& to, std::span<const std::byte> message, std::size_t part) {
    for (std::size_t begin = 0; begin < message.size(); begin += part)
      world.at(0).write_ahead(to, message, begin, std::min(begin + part, message.size()));
  }
  /// post_written(); whether it has completed is asked for by ending_of().
  Post post(const Ahead& to, std::span<const std::byte> message, std::uint64_t context) {
    return world.at(0).post_written(to.peer, to.slot, message, context);
  }
  std::size_t endings_of(std::size_t awaited) {
    std::size_t ended = 0;
    for (int i = 0; i < 1000 && ended < awaited; ++i) {
      for (Rank rank = 1; rank < world.size(); ++rank) world.poll(rank);
      Completion completion;
      while (world.at(0).poll({&completion, 1}) == 1) ended += completion.outcome == Outcome::done;
    }
    return ended;
  }

  World world{mapped_fabric(), 4};
};

TEST_F(WrittenAhead, GoesToTheLandingsThatThereAre) {
  const Bytes message = pattern(100 * kib + 12, 3);
  std::byte* const landing = world.at(1).memory()->allocate(message.size());
  const auto received = world.recv(1, 0, 9, {landing, message.size()});
  auto to = ahead_of({{1, 9}});
  write(to, message, 16 * kib);
  EXPECT_EQ(to[0].way, Ahead::Way::landing);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), landing)) << "it is there before it is posted";
  EXPECT_FALSE(world.ending(received));
  ASSERT_EQ(post(to[0], message, 1 << 20), Post::accepted);
  EXPECT_EQ(endings_of(1), 1u);
  EXPECT_DONE(world, received);
  EXPECT_EQ(world.ending(received)->bytes, message.size());
}

// Pages that the receive has only in part are not the sender's to write to, now or later.
TEST_F(WrittenAhead, TouchesNothingBesideTheReceive) {
  constexpr std::size_t room = 1 << 20;
  std::byte* const block = world.at(1).mapped_memory()->allocate(room);
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    std::fill_n(block, room, std::byte{0x5a});
    const std::size_t begin = random() % (3 * shm::page), bytes = 16 * kib + random() % (256 * kib);
    const Bytes message = pattern(bytes, static_cast<unsigned>(i));
    const auto received = world.recv(1, 0, 9, {block + begin, bytes});
    auto to = ahead_of({{1, 9}});
    write(to, message, 1 + random() % (40 * kib));
    ASSERT_EQ(to[0].way, Ahead::Way::landing);
    ASSERT_EQ(post(to[0], message, 1 << 20), Post::accepted);
    ASSERT_EQ(endings_of(1), 1u);
    EXPECT_DONE(world, received);
    EXPECT_TRUE(std::equal(message.begin(), message.end(), block + begin));
    EXPECT_TRUE(all_are({block, begin}, std::byte{0x5a}));
    EXPECT_TRUE(all_are({block + begin + bytes, room - begin - bytes}, std::byte{0x5a}));
  }
}

TEST_F(WrittenAhead, IsOneCopyForPeersWithoutALanding) {
  Bytes message = pattern(200 * kib, 4);
  const Bytes sent = message;
  std::vector<Bytes> into(4, Bytes(message.size()));
  std::vector<std::uint64_t> received;
  for (Rank rank = 1; rank < 4; ++rank)
    received.push_back(world.recv(rank, 0, 9, into[static_cast<std::size_t>(rank)]));
  auto to = ahead_of({{1, 9}, {2, 9}, {3, 9}});
  const std::size_t held = world.at(0).held_bytes();
  write(to, message, 16 * kib);
  for (const Ahead& each : to) ASSERT_EQ(each.way, Ahead::Way::common);
  for (const Ahead& each : to) EXPECT_EQ(post(each, message, 1 << 20), Post::lent);
  EXPECT_EQ(endings_of(3), 3u);
  for (Rank rank = 1; rank < 4; ++rank) {
    EXPECT_DONE(world, received[static_cast<std::size_t>(rank - 1)]);
    EXPECT_TRUE(into[static_cast<std::size_t>(rank)] == sent) << "rank " << rank;
  }
  EXPECT_EQ(world.at(0).held_bytes(), held + shm::FastRing::most_lent_bytes) << "kept for the next one";
}

TEST_F(WrittenAhead, IsSentAsAnyOtherWhereThatIsAsGood) {
  const Bytes message = pattern(64 * kib, 4);
  std::vector<Bytes> into(4, Bytes(message.size()));
  for (Rank rank = 1; rank < 4; ++rank) (void)world.recv(rank, 0, 9, into[static_cast<std::size_t>(rank)]);
  auto one = ahead_of({{1, 9}});
  write(one, message, 16 * kib);
  EXPECT_FALSE(one[0].reached()) << "a copy for one peer saves nothing";
  std::byte* const mapped = world.at(0).mapped_memory()->allocate(message.size());
  std::copy(message.begin(), message.end(), mapped);
  auto all = ahead_of({{1, 9}, {2, 9}, {3, 9}});
  write(all, {mapped, message.size()}, 16 * kib);
  for (const Ahead& each : all) EXPECT_FALSE(each.reached()) << "it is lent from where it is";
}

// A receive that ends unused, as its operation has failed, leaves nothing behind for the next with its number.
TEST_F(WrittenAhead, AndNeverPostedDoesNoHarm) {
  const Bytes first = pattern(64 * kib, 1), second = pattern(64 * kib, 2);
  for (int round = 0; round < 40; ++round) {  // more often than there are copies
    std::vector<Bytes> into(4, Bytes(first.size()));
    std::vector<std::uint64_t> received;
    for (Rank rank = 1; rank < 4; ++rank)
      received.push_back(world.recv(rank, 0, 9, into[static_cast<std::size_t>(rank)]));
    auto to = ahead_of({{1, 9}, {2, 9}, {3, 9}});
    write(to, first, 16 * kib);
    for (const Ahead& each : to) ASSERT_EQ(each.way, Ahead::Way::common) << "round " << round;
    for (Rank rank = 1; rank < 4; ++rank) (void)world.send(0, rank, 9, second);
    ASSERT_TRUE(world.complete(received));
    for (Rank rank = 1; rank < 4; ++rank) ASSERT_TRUE(into[static_cast<std::size_t>(rank)] == second);
  }
}

TEST_F(WrittenAhead, ByMoreThanThereAreCopiesIsSentAsAnyOther) {
  std::vector<Bytes> messages;
  std::vector<std::vector<Ahead>> posted;
  std::size_t reached = 0;
  constexpr std::size_t most = 20;
  for (Slot slot = 0; slot < most; ++slot) {
    messages.push_back(pattern(64 * kib, slot));
    posted.push_back(ahead_of({{1, slot}, {2, slot}}));
    write(posted.back(), messages.back(), 64 * kib);
    reached += posted.back()[0].reached();
    ASSERT_EQ(posted.back()[0].reached(), posted.back()[1].reached());
  }
  EXPECT_GT(reached, 2u);
  EXPECT_LT(reached, most) << "their number is limited";
  auto too_long = ahead_of({{1, 30}, {2, 30}});
  const Bytes long_one = pattern(1 << 20, 1);
  write(too_long, long_one, 64 * kib);
  EXPECT_FALSE(too_long[0].reached());
}

// As the shared memory of a rank with peers on other hosts is asked.
TEST(ShmWrittenAhead, ToARankOfAnotherHostIsNothing) {
  EndpointOptions options;
  options.world_size = 3;
  options.job_nonce = 44;
  auto alone = *shm::ShmEndpoint::open(options);
  std::vector<Ahead> to{{1, 9}, {2, 9}};
  const Bytes message = pattern(64 * kib, 1);
  alone->write_ahead(to, message, 0, message.size());
  EXPECT_FALSE(to[0].reached());
  EXPECT_FALSE(to[1].reached());
}

TEST_F(WrittenAhead, ToAPeerThatIsGoneIsNothing) {
  const Bytes message = pattern(64 * kib, 1);
  Bytes into(message.size());
  (void)world.recv(1, 0, 9, into);
  world.at(0).disconnect(1);
  auto to = ahead_of({{1, 9}, {2, 9}});
  write(to, message, 16 * kib);
  EXPECT_FALSE(to[0].reached());
}

// A copy that a peer has not read when it is dropped is another message's only when nobody holds it.
TEST_F(WrittenAhead, IsTakenBackFromWhoIsDropped) {
  const Bytes message = pattern(64 * kib, 1);
  std::vector<Bytes> into(3, Bytes(message.size()));
  (void)world.recv(1, 0, 9, into[1]);
  const auto received = world.recv(2, 0, 9, into[2]);
  auto to = ahead_of({{1, 9}, {2, 9}});
  write(to, message, 16 * kib);
  ASSERT_EQ(post(to[0], message, (1 << 20) + 1), Post::lent);
  ASSERT_EQ(post(to[1], message, (1 << 20) + 2), Post::lent);
  world.at(0).disconnect(1);
  Completion completion;
  ASSERT_EQ(world.at(0).poll({&completion, 1}), 1u);
  EXPECT_EQ(completion.context, (1u << 20) + 1);
  EXPECT_EQ(completion.outcome, Outcome::aborted);
  EXPECT_EQ(endings_of(1), 1u);
  EXPECT_DONE(world, received);
  EXPECT_TRUE(into[2] == message);
}

TEST(CommonCopies, AreLimitedAndUsedAgain) {
  auto arena = *shm::Arena::create(16 << 20);
  shm::CommonCopies copies(arena);
  EXPECT_EQ(copies.take(1 << 20), nullptr) << "longer than a segment";
  std::vector<std::shared_ptr<const shm::CommonCopy>> held;
  while (auto copy = copies.take(100)) {
    for (const auto& other : held) EXPECT_NE(other->at, copy->at);
    EXPECT_EQ(arena->place_of({copy->at, 100})->offset, copy->offset);
    held.push_back(std::move(copy));
    ASSERT_LT(held.size(), 100u);
  }
  std::byte* const last = held.back()->at;
  held.pop_back();
  EXPECT_EQ(copies.take(100)->at, last);
}

TEST(CommonCopies, MayOutliveTheirEndpoint) {
  auto arena = *shm::Arena::create(1 << 20);
  std::shared_ptr<const shm::CommonCopy> held;
  {
    shm::CommonCopies copies(arena);
    held = copies.take(100);
  }
  ASSERT_NE(held, nullptr);
  *held->at = std::byte{1};
  held.reset();
  EXPECT_NE(arena->allocate(1 << 20), nullptr) << "it has been given back";
}

// ---- past the caches ----------------------------------------------------------------------------------------------

// Through the staging ring, a block halfway, and as a loan.
TEST(ShmColdReceive, BringsTheSameBytesByEveryWay) {
  for (const int ranks : {2, 3}) {
    World world(mapped_fabric(), ranks);
    world.connect();
    for (const bool mapped : {false, true})
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, 100 * kib + 7, 700 * kib}) {
        const Bytes text = pattern(bytes, 8);
        std::byte* const block = mapped ? world.at(1).mapped_memory()->allocate(bytes) : nullptr;
        if (mapped) std::copy(text.begin(), text.end(), block);
        Bytes into(bytes + 200, std::byte{0x5a});
        const std::span<std::byte> place(into.data() + 100, bytes);
        ASSERT_EQ(world.at(0).post_cold_recv(1, 9, place, 1 << 20), Post::accepted);
        const auto sent = world.send(1, 0, 9, mapped ? std::span<const std::byte>(block, bytes) : text);
        Completion completion;
        for (int i = 0; i < 10'000 && completion.context == 0; ++i) {
          world.poll(1);
          (void)world.at(0).poll({&completion, 1});
        }
        EXPECT_EQ(completion.bytes, bytes);
        EXPECT_TRUE(std::ranges::equal(place, text));
        EXPECT_TRUE(all_are({into.data(), 100}, std::byte{0x5a}));
        EXPECT_TRUE(all_are({into.data() + 100 + bytes, 100}, std::byte{0x5a}));
        for (int i = 0; i < 1000 && !world.ending(sent); ++i) world.poll(1);
        EXPECT_DONE(world, sent);
        if (mapped) {
          EXPECT_TRUE(world.at(1).mapped_memory()->release(block, bytes));
        }
      }
  }
}

}  // namespace
}  // namespace fabring::conformance
