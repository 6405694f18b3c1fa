// What is special to shared memory: the arena, landings, what a hostile peer can write, and who may come in.

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/transports/conformance/world.hpp"
#include "transports/shm/shm_endpoint.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::conformance {
namespace {

Fabric shm_fabric() {
  Fabric fabric;
  fabric.name = "shm";
  fabric.transport = [] { return make_shm_transport(); };
  return fabric;
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

// ---- the arena ----------------------------------------------------------------------------------------------------

TEST(ShmArena, LendsDisjointBlocksAndJoinsThemAgain) {
  constexpr std::size_t bytes = 1 << 20;
  auto arena = *shm::Arena::create(bytes);
  std::mt19937 random(7);
  std::map<std::byte*, std::size_t> lent;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0 && !lent.empty()) {
      auto at = lent.begin();
      std::advance(at, random() % lent.size());
      EXPECT_TRUE(arena->release(at->first, at->second));
      lent.erase(at);
    } else {
      const std::size_t size = 1 + random() % 60'000;
      std::byte* const block = arena->allocate(size);
      if (block == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % shm::page, 0u);
      const auto after = lent.lower_bound(block);
      EXPECT_TRUE(after == lent.end() || block + size <= after->first);
      EXPECT_TRUE(after == lent.begin() || std::prev(after)->first + std::prev(after)->second <= block);
      lent.emplace(block, size);
    }
  }
  for (const auto& [block, size] : lent) EXPECT_TRUE(arena->release(block, size));
  EXPECT_NE(arena->allocate(bytes), nullptr) << "the free parts must have become one again";
  std::byte elsewhere{};
  EXPECT_FALSE(arena->release(&elsewhere, 1));
}

TEST(ShmArena, WhatIsRevokedIsSharedNoMore) {
  auto arena = *shm::Arena::create(8 * shm::page);
  std::byte* const first = arena->allocate(2 * shm::page);
  std::byte* const second = arena->allocate(2 * shm::page);
  const auto offset = arena->place_of({first, 2 * shm::page})->offset;
  auto peer = *shm::SharedMemory::adopt(Descriptor(::fcntl(arena->memory().memfd(), F_DUPFD_CLOEXEC, 0)),
                                        arena->memory().size());
  peer.data()[offset] = std::byte{1};
  EXPECT_EQ(first[0], std::byte{1});
  arena->revoke({first, 100});
  first[0] = std::byte{2};
  peer.data()[offset] = std::byte{3};
  EXPECT_EQ(first[0], std::byte{2});
  EXPECT_FALSE(arena->place_of({first, 10}));
  EXPECT_FALSE(arena->place_of({first + shm::page - 1, 2}));
  EXPECT_TRUE(arena->place_of({first + shm::page, 10})) << "the next page was not named";
  EXPECT_TRUE(arena->place_of({second, 2 * shm::page}));
}

TEST(SharedMemory, TakesOnlySealedMemoryOfTheSizeAgreedOn) {
  auto own = *shm::SharedMemory::create(2 * shm::page);
  const auto again = [&] { return Descriptor(::fcntl(own.memfd(), F_DUPFD_CLOEXEC, 0)); };
  EXPECT_TRUE(shm::SharedMemory::adopt(again(), 2 * shm::page));
  EXPECT_FALSE(shm::SharedMemory::adopt(again(), 3 * shm::page));
  EXPECT_FALSE(shm::SharedMemory::adopt(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)), 2 * shm::page));
  Descriptor shrinkable(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(shrinkable.fd(), 2 * shm::page), 0);
  EXPECT_FALSE(shm::SharedMemory::adopt(std::move(shrinkable), 2 * shm::page));
}

// ---- landings -----------------------------------------------------------------------------------------------------

constexpr std::size_t beyond_staging = 1 << 20;  // can be sent at once only straight into its receive

TEST(ShmLanding, AReceiveInTheArenaIsFilledByTheSender) {
  World world(shm_fabric(), 2);
  world.connect();
  std::byte* const block = world.at(0).memory()->allocate(beyond_staging);
  const Bytes from = pattern(beyond_staging - 5, 3);
  const auto received = world.recv(0, 1, 9, {block, beyond_staging});
  const auto sent = world.send(1, 0, 9, from);
  for (int i = 0; i < 3; ++i) world.poll(1);
  ASSERT_TRUE(world.ending(sent)) << "rank 0 has not looked yet, and the staging ring is smaller than the message";
  ASSERT_TRUE(world.complete({received}));
  EXPECT_EQ(world.ending(received)->bytes, from.size());
  EXPECT_TRUE(std::equal(from.begin(), from.end(), block));
}

TEST(ShmLanding, AfterDisconnectALateSenderReachesNothing) {
  World world(shm_fabric(), 2);
  world.connect();
  std::byte* const block = world.at(0).memory()->allocate(beyond_staging);
  const auto received = world.recv(0, 1, 9, {block, beyond_staging});
  world.at(0).disconnect(1);
  std::fill_n(block, beyond_staging, std::byte{0x5a});               // ours again
  ASSERT_TRUE(world.try_send(1, 0, 9, pattern(beyond_staging, 3)));  // rank 1 has not noticed
  EXPECT_TRUE(all_are({block, beyond_staging}, std::byte{0x5a}));
  ASSERT_TRUE(world.complete({received}));
  EXPECT_EQ(world.ending(received)->outcome, Outcome::aborted);
}

// ---- small messages -----------------------------------------------------------------------------------------------

FastMessage::Head head_of(std::uint32_t number) {
  FastMessage::Head head{};
  std::memcpy(head.data(), &number, sizeof number);
  return head;
}

std::uint32_t number_of(const FastMessage::Head& head) {
  std::uint32_t number = 0;
  std::memcpy(&number, head.data(), sizeof number);
  return number;
}

// The worst that a payload can hold is what would be a stamp, of this or a later time round the ring.
TEST(ShmFastBox, KeepsOrderAndBytesHoweverOftenItGoesRoundAndWhateverThePayload) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true);
    std::mt19937 random(seed);
    const std::uint32_t most = pair.fast.most_bytes();
    std::uint32_t sent = 0, received = 0, lines = 0;
    std::map<std::uint32_t, Bytes> under_way;
    std::uint32_t refused = 0;
    while (received < 20'000) {
      if (random() % 2 == 0) {
        const std::uint32_t bytes = random() % 4 == 0 ? random() % (most + 1) : random() % 100;
        Bytes payload(bytes);
        for (std::size_t at = 0; at + 4 <= payload.size(); at += 4) {
          const std::uint32_t stamp =
              shm::FastRing::stamp_of(lines + static_cast<std::uint32_t>(at) / 64 + pair.fast.lines * (random() % 3));
          std::memcpy(payload.data() + at, &stamp, sizeof stamp);
        }
        if (out.put(head_of(sent), payload)) {
          under_way[sent++] = std::move(payload);
          lines += shm::FastRing::length(bytes);
        } else {
          ++refused;
          EXPECT_FALSE(out.has_room());
        }
      } else {
        FastMessage message;
        const auto found = in.front(message);
        ASSERT_NE(found, shm::FastInbox::Found::nonsense);
        ASSERT_EQ(found == shm::FastInbox::Found::message, !under_way.empty());
        ASSERT_EQ(in.empty(), under_way.empty());
        if (found == shm::FastInbox::Found::nothing) continue;
        ASSERT_EQ(number_of(message.head), received);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.payload.data()) % 16, 0u);
        ASSERT_TRUE(std::ranges::equal(message.payload, under_way.at(received)));
        under_way.erase(received++);
        in.pop();
      }
    }
    EXPECT_GT(refused, 0u) << "the ring was never full";
  }
}

TEST(ShmFastBox, LendsWhatLiesInTheSendersArenaUntilItsLineIsPassed) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  alignas(64) std::array<std::byte, 3 * shm::page> arena{};
  shm::FastOutbox out(pair, true);
  shm::FastInbox in(pair, true, arena);
  std::uint32_t first = 0, second = 0;
  ASSERT_TRUE(out.lend(head_of(0), shm::page, 5000, nullptr, first));
  ASSERT_TRUE(out.put(head_of(1), pattern(100, 1)));
  ASSERT_TRUE(out.lend(head_of(2), shm::page + 8, 16, nullptr, second));
  FastMessage message;
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out.is_back(first), i > 0);
    EXPECT_FALSE(out.is_back(second));
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    EXPECT_EQ(number_of(message.head), i);
    EXPECT_EQ(message.lent, i != 1);
    if (i == 0) {
      EXPECT_EQ(message.payload.data(), arena.data() + shm::page);
      EXPECT_EQ(message.payload.size(), 5000u);
    }
    EXPECT_TRUE(in.is_intact());
    in.pop();
  }
  EXPECT_TRUE(out.is_back(second));
  out.withdraw();
  EXPECT_TRUE(in.is_intact()) << "nothing was lent any more";
  ASSERT_TRUE(out.lend(head_of(3), shm::page, 16, nullptr, first));
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  out.withdraw();
  EXPECT_FALSE(in.is_intact());
}

// Two ranks, each of which answers what it got in its place: room is free again once the answers have been read.
TEST(ShmFastBox, AnswersInThePlaceOfWhatWasSent) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  shm::FastOutbox to_b(pair, true), to_a(pair, false);
  shm::FastInbox at_b(pair, true), at_a(pair, false);
  const std::uint32_t bytes = pair.fast.most_bytes() / 2;
  const auto answer = [&](shm::FastInbox& in, shm::FastOutbox& out, std::uint32_t number) {
    FastMessage message;
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    ASSERT_EQ(number_of(message.head), number);
    ASSERT_TRUE(std::ranges::equal(message.payload, pattern(bytes, static_cast<unsigned>(number))));
    std::byte* const place = in.place_of_answer(out);
    ASSERT_EQ(place, message.payload.data());
    ASSERT_TRUE(out.has_room_for_line());
    std::ranges::copy(pattern(bytes, static_cast<unsigned>(number + 1)), place);
    in.pop_answered(out.put_answer(head_of(number + 1), in.answer_place(), bytes));
  };
  const auto read = [&](shm::FastInbox& in, std::uint32_t number) {
    FastMessage message;
    ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
    ASSERT_EQ(number_of(message.head), number);
    ASSERT_TRUE(std::ranges::equal(message.payload, pattern(bytes, static_cast<unsigned>(number))));
    in.pop();
  };
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(to_b.put(head_of(i), pattern(bytes, static_cast<unsigned>(i)))) << i;
    ASSERT_TRUE(to_a.put(head_of(i + 5000), pattern(bytes, static_cast<unsigned>(i + 5000)))) << i;
    answer(at_b, to_a, i);
    answer(at_a, to_b, i + 5000);
    read(at_a, i + 1);
    read(at_b, i + 5001);
  }
}

TEST(ShmFastBox, HoldsNoMoreThanAFewAnswersThatNobodyReads) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  shm::FastOutbox to_b(pair, true), to_a(pair, false);
  shm::FastInbox at_b(pair, true);
  const std::uint32_t bytes = pair.fast.most_bytes() / 2;
  std::uint32_t answered = 0;
  for (; answered < 100; ++answered) {
    FastMessage message;
    ASSERT_TRUE(to_b.put(head_of(answered), pattern(bytes, 1)));
    ASSERT_EQ(at_b.front(message), shm::FastInbox::Found::message);
    if (at_b.place_of_answer(to_a) == nullptr) break;
    at_b.pop_answered(to_a.put_answer(head_of(answered), at_b.answer_place(), bytes));
  }
  EXPECT_GT(answered, 1u);
  EXPECT_LT(answered, 8u);
  at_b.pop();
  EXPECT_TRUE(to_b.put(head_of(answered), pattern(pair.fast.most_bytes(), 1)))
      << "the longest message still finds room";
}

TEST(ShmFastBox, TakesNoAnswerThatCannotBe) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const auto& [line, bytes] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 0}, {0, 16}, {0, ring.most_bytes() + 1}, {ring.lines - 2, 4096}, {~std::uint32_t{0}, 1000}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true);
    (void)out.put_answer(head_of(0), {line, 0, 0}, bytes);
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << line << " " << bytes;
  }
}

TEST(ShmFastBox, TakesNoAnswerOutsideItsArena) {
  constexpr std::uint64_t size = 3 * shm::page;
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint32_t>>{
           {0, 16}, {shm::page + 4, 16}, {size, 16}, {shm::page, 3 * shm::page}, {~std::uint64_t{0} - 7, 16}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    const std::vector<std::byte> arena(size);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true, {}, arena);
    (void)out.put_answer(head_of(0), {offset, 1, 0}, bytes);
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << offset;
  }
}

TEST(ShmFastBox, AnswersInTheSendersMemoryWhereThatWasLentForIt) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  alignas(64) std::array<std::byte, 3 * shm::page> arena{};
  shm::FastOutbox out(pair, true), back(pair, false);
  shm::FastInbox in(pair, true, arena), home(pair, false, {}, arena);
  std::uint32_t plain = 0, loan = 0;
  ASSERT_TRUE(out.lend(head_of(0), shm::page, shm::page, nullptr, plain));
  ASSERT_TRUE(out.lend(head_of(1), shm::page, shm::page, arena.data() + shm::page, loan));
  FastMessage message;
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  EXPECT_EQ(in.place_of_answer(back), nullptr) << "that one was not lent for it";
  in.pop();
  ASSERT_EQ(in.front(message), shm::FastInbox::Found::message);
  std::byte* const place = in.place_of_answer(back);
  ASSERT_EQ(place, arena.data() + shm::page);
  std::vector<std::span<std::byte>> open;
  out.for_each_place([&](std::span<std::byte> at) { open.push_back(at); });
  ASSERT_EQ(open.size(), 1u) << "the peer may write there";
  place[7] = std::byte{42};
  in.pop_answered(back.put_answer(head_of(2), in.answer_place(), shm::page));
  EXPECT_TRUE(out.is_back(loan));
  out.for_each_place([&](std::span<std::byte>) { ADD_FAILURE() << "it is not written to any more"; });
  ASSERT_EQ(home.front(message), shm::FastInbox::Found::message);
  EXPECT_EQ(message.payload.data(), place);
  EXPECT_EQ(message.payload.size(), shm::page);
}

TEST(ShmFastBox, TakesNoLoanThatCannotBe) {
  const std::uint64_t size = 3 * shm::page;
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint32_t>>{
           {0, 16}, {shm::page - 8, 16}, {size - 8, 16}, {size, 8}, {~std::uint64_t{0} - 7, 16}, {shm::page + 4, 16}}) {
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
    std::vector<std::byte> arena(size);
    shm::FastOutbox out(pair, true);
    shm::FastInbox in(pair, true, arena);
    std::uint32_t loan = 0;
    ASSERT_TRUE(out.lend(head_of(0), offset, bytes, nullptr, loan));
    FastMessage message;
    EXPECT_EQ(in.front(message), shm::FastInbox::Found::nonsense) << offset;
  }
}

TEST(ShmFastMessages, WakeASleeperAndOutliveTheirSender) {
  World world(shm_fabric(), 2);
  world.connect();
  FastMessages& from = *world.at(0).fast_messages();
  FastMessages& to = *world.at(1).fast_messages();
  EXPECT_TRUE(from.reaches(1));
  FastMessage first;
  ASSERT_TRUE(world.reach([&] { return from.put(1, head_of(0), {}); }, "rank 0 to have met rank 1"));
  ASSERT_TRUE(world.reach([&] { return to.front(0, first); }, "the first message"));
  to.pop(0);
  std::thread sleeper([&] {
    FastMessage message;
    while (!to.front(0, message)) world.at(1).wait(std::chrono::seconds(60));
  });
  ASSERT_TRUE(from.put(1, head_of(1), {}));
  from.deliver();
  sleeper.join();  // else the test would take a minute
  to.pop(0);
  const Bytes payload = pattern(1000, 1);
  ASSERT_TRUE(from.put(1, head_of(2), payload));
  world.at(0).finish_sending();
  world.at(0).close();
  ASSERT_EQ(world.at(1).post_recv(0, 3, {}, 1), Post::accepted);
  const auto over = [&] {
    Completion completion;
    (void)world.at(1).poll({&completion, 1});
    return world.at(1).peer_error(0).code() == ErrorCode::peer_lost;
  };
  ASSERT_TRUE(world.reach(over, "rank 1 to hear of the end of rank 0"));
  FastMessage message;
  ASSERT_TRUE(to.front(0, message));
  EXPECT_EQ(number_of(message.head), 2u);
  EXPECT_TRUE(std::ranges::equal(message.payload, payload));
}

// ---- who comes in -------------------------------------------------------------------------------------------------

/// Whoever connects to a rank's socket.
struct Visitor {
  explicit Visitor(const std::string& address)
      : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    connected = AbstractAddress::of(address.substr(4))->connect(socket.fd());
  }
  bool turned_away() const {
    char byte = 0;
    return ::recv(socket.fd(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  Descriptor socket;
  bool connected = false;
};

void exchange(World& world) {
  const Bytes from = pattern(200'000, 1);
  Bytes into(200'000);
  const auto received = world.recv(1, 0, 1, into);
  ASSERT_TRUE(world.complete({received, world.send(0, 1, 1, from)}));
  EXPECT_TRUE(into == from);
}

TEST(ShmStrangers, AreTurnedAwayAndCountedAndDisturbNobody) {
  World world(shm_fabric(), 2);
  world.connect();
  const std::string address = world.at(0).address();
  auto memory = *shm::SharedMemory::create(shm::page);
  const std::uint64_t nonce = world.options(0).job_nonce;
  const auto size = shm::Pair::of_world(nullptr, 2).size();
  const int fd = memory.memfd();
  std::vector<Visitor> talkers;
  const auto visit = [&](const shm::Hello& hello, std::initializer_list<int> descriptors) {
    talkers.emplace_back(address);
    ASSERT_TRUE(talkers.back().connected);
    ASSERT_TRUE(shm::say(talkers.back().socket.fd(), hello, descriptors));
  };
  Visitor silent(address);
  ASSERT_TRUE(silent.connected);
  talkers.emplace_back(address);
  ASSERT_EQ(::send(talkers.back().socket.fd(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  visit({1, nonce, size, shm::page, 1, 0}, {fd, fd, fd});                             // not our magic
  visit({shm::Hello::magic_number, nonce + 1, size, shm::page, 1, 0}, {fd, fd, fd});  // an earlier incarnation
  visit({shm::Hello::magic_number, nonce, size, shm::page, 7, 0}, {fd, fd, fd});      // no such rank
  visit({shm::Hello::magic_number, nonce, size, shm::page, 0, 0}, {fd, fd, fd});      // rank 0 itself
  visit({shm::Hello::magic_number, nonce, size, shm::page, 1, 0}, {fd});              // one descriptor
  visit({shm::Hello::magic_number, nonce, size, shm::page, 1, 0}, {fd, fd, fd});      // rank 1 is here already
  const auto all_turned_away = [&] {
    return std::ranges::all_of(talkers, [](const Visitor& visitor) { return visitor.turned_away(); });
  };
  EXPECT_TRUE(world.reach(all_turned_away, "strangers to be turned away"));
  EXPECT_GE(world.at(0).counters().strangers, talkers.size());
  exchange(world);
}

// ---- a peer gone mad ----------------------------------------------------------------------------------------------

/// Rank 1 of 2, introduced by the rules, which then writes what it likes into the memory of the pair.
class MadPeer {
 public:
  MadPeer() {
    EndpointOptions options;
    options.world_size = 2;
    options.job_nonce = 42;
    victim = *shm::ShmEndpoint::open(options);
    memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    arena = *shm::Arena::create(shm::page);
    pair = shm::Pair::of_world(memory.data(), 2);
    caller = std::make_unique<Visitor>(victim->address());
    const shm::Hello hello{shm::Hello::magic_number, 42, memory.size(), arena->memory().size(), 1, 0};
    EXPECT_TRUE(shm::say(caller->socket.fd(), hello, {memory.memfd(), arena->memory().memfd(), memory.memfd()}));
    EXPECT_TRUE(victim->add_peer(1, "shm fabring-shm-000000000000002a-1-x").ok());
    Completion completion;
    for (int i = 0; i < 3; ++i) (void)victim->poll({&completion, 1});
    EXPECT_EQ(victim->post_recv(1, 5, into, 77), Post::accepted);
  }

  void write(std::uint32_t kind, Slot slot, std::uint32_t bytes) {
    shm::Channel& channel = pair.channel(false);  // from the higher rank
    shm::Entry& entry = channel.entries[written_ % shm::entry_count];
    entry.kind = static_cast<shm::EntryKind>(kind);
    entry.slot = slot;
    entry.bytes = bytes;
    entry.turn.store(++written_);
  }

  std::optional<Completion> outcome() {
    Completion completion;
    for (int i = 0; i < 3; ++i)
      if (victim->poll({&completion, 1}) == 1) return completion;
    return {};
  }

  std::unique_ptr<shm::ShmEndpoint> victim;
  shm::SharedMemory memory;
  std::shared_ptr<shm::Arena> arena;
  shm::Pair pair;
  std::unique_ptr<Visitor> caller;
  Bytes into = Bytes(1000);

 private:
  std::uint32_t written_ = 0;
};

TEST(ShmHostilePeer, IsHeardWhileItKeepsTheRules) {
  MadPeer mad;
  const auto part = static_cast<std::uint32_t>(shm::EntryKind::part),
             last = static_cast<std::uint32_t>(shm::EntryKind::last);
  mad.write(part, 5, 600);
  mad.write(last, 5, 400);
  const auto outcome = mad.outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->outcome, Outcome::done);
  EXPECT_EQ(outcome->bytes, 1000u);
}

TEST(ShmHostilePeer, LosesTheConnectionForEveryNonsense) {
  constexpr std::uint32_t part = 1, last = 2, landed = 3;
  using Entries = std::vector<std::array<std::uint32_t, 3>>;
  for (const Entries& entries : std::vector<Entries>{
           {{last, 6, 10}},                 // nobody waits there
           {{last, 5, 1001}},               // longer than the receive
           {{last, 5, 0xffffffff}},         // longer than anything
           {{part, 5, 999}, {last, 5, 2}},  // in all longer
           {{part, 5, 10}, {last, 6, 10}},  // another message inside this one
           {{landed, 5, 10}},               // no landing was offered
           {{part, 5, 10}, {landed, 5, 10}},
           {{0, 5, 10}},
           {{99, 5, 10}},
       }) {
    MadPeer mad;
    for (const auto& [kind, slot, bytes] : entries) mad.write(kind, slot, bytes);
    const auto outcome = mad.outcome();
    ASSERT_TRUE(outcome) << entries[0][0];
    EXPECT_EQ(outcome->context, 77u);
    EXPECT_EQ(outcome->outcome, Outcome::lost);
    EXPECT_EQ(mad.victim->peer_error(1).code(), ErrorCode::peer_lost);
  }
}

TEST(ShmHostilePeer, LosesTheConnectionForASmallMessageThatCannotBe) {
  const shm::FastRing ring = shm::FastRing::of_world(2);
  for (const std::uint32_t bytes : {ring.most_bytes() + 1, ring.bytes(), 0xfffffffeu}) {
    MadPeer mad;
    shm::FastLine& first = *mad.pair.fast_lines(false);
    first.bytes = bytes;
    first.stamp.store(shm::FastRing::stamp_of(0));
    FastMessage message;
    EXPECT_FALSE(mad.victim->fast_messages()->front(1, message));
    const auto outcome = mad.outcome();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->outcome, Outcome::lost);
  }
}

// A ring that says "go on at the beginning" for ever, and one whose reader says that it has read what was never sent.
TEST(ShmHostilePeer, CannotHoldUpWhoReadsOrWritesSmallMessages) {
  MadPeer mad;
  FastMessages& victim = *mad.victim->fast_messages();
  shm::FastLine* const lines = mad.pair.fast_lines(false);
  for (std::uint32_t round = 0; round < 4; ++round) {
    lines[0].bytes = shm::FastRing::skipped;
    lines[0].stamp.store(shm::FastRing::stamp_of(round * mad.pair.fast.lines));
    FastMessage message;
    EXPECT_FALSE(victim.front(1, message));
  }
  mad.pair.channel(true).fast_taken.store(12345);
  const std::uint32_t too_many = 12345 + mad.pair.fast.lines + 1;
  std::uint32_t accepted = 0;
  while (accepted < too_many && victim.put(1, head_of(accepted), {})) ++accepted;
  EXPECT_LT(accepted, too_many) << "it must read as full sooner or later";
}

TEST(ShmHostilePeer, CannotMakeASenderWriteOutsideItsArena) {
  MadPeer mad;
  shm::Landing& landing = mad.pair.channel(true).landings[9];
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 1 << 20},
                                                            {1, 100},
                                                            {mad.arena->memory().size() - 10, 100},
                                                            {~std::uint64_t{0} - 50, 1 << 20},
                                                            {std::uint64_t{1} << 40, 1 << 20}}) {
    landing.offset = offset;
    landing.bytes = bytes;
    landing.key.store(10);
    const Bytes from = pattern(100, 1);
    ASSERT_EQ(mad.victim->post_send(1, 9, from, 1), Post::accepted);
    EXPECT_TRUE(
        all_are({mad.arena->memory().data() + shm::page, mad.arena->memory().size() - shm::page}, std::byte{0}));
  }
  EXPECT_EQ(mad.pair.channel(true).entries[0].kind, shm::EntryKind::last) << "sent the other way instead";
}

}  // namespace
}  // namespace fabring::conformance
