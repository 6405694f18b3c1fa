// The program's memory in the arena: blocks of it, loans, landings beside other things, and what a peer that is cut off
// or gone mad can do to it.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

constexpr std::size_t mib = 1 << 20;

/// As a peer sees it.
shm::SharedMemory seen_by_a_peer(const shm::Arena& arena) {
  return *shm::SharedMemory::adopt(Descriptor(::fcntl(arena.memory().memfd(), F_DUPFD_CLOEXEC, 0)),
                                   arena.memory().size());
}

// ---- blocks -------------------------------------------------------------------------------------------------------

TEST(ShmMapped, BlocksAreDisjointOfZerosAndJoinAgain) {
  auto arena = *shm::Arena::create(shm::page, mib);
  EXPECT_EQ(arena->mapped_limit(), mib);
  std::mt19937 random(11);
  std::map<std::byte*, std::size_t> given;
  for (int i = 0; i < 1000; ++i) {
    if (random() % 2 == 0 && !given.empty()) {
      auto at = given.begin();
      std::advance(at, random() % given.size());
      std::fill_n(at->first, at->second, std::byte{0xff});
      EXPECT_TRUE(arena->release_mapped(at->first, at->second));
      given.erase(at);
    } else {
      const std::size_t size = 1 + random() % 60'000;
      std::byte* const block = arena->allocate_mapped(size);
      if (block == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % shm::page, 0u);
      EXPECT_TRUE(all_are({block, size}, std::byte{0}));
      const auto after = given.lower_bound(block);
      EXPECT_TRUE(after == given.end() || block + size <= after->first);
      EXPECT_TRUE(after == given.begin() || std::prev(after)->first + std::prev(after)->second <= block);
      given.emplace(block, size);
    }
  }
  for (const auto& [block, size] : given) EXPECT_TRUE(arena->release_mapped(block, size));
  EXPECT_EQ(arena->allocate_mapped(mib + 1), nullptr);
  EXPECT_NE(arena->allocate_mapped(mib), nullptr) << "the free parts must have become one again";
  std::byte elsewhere{};
  EXPECT_FALSE(arena->release_mapped(&elsewhere, 1));
  std::byte* const scratch = arena->allocate(1);
  EXPECT_FALSE(arena->release_mapped(scratch, 1)) << "that is the other part";
}

bool has_large_pages(const std::byte* at) {
  std::ifstream maps("/proc/self/smaps");
  std::string row;
  for (bool there = false; std::getline(maps, row);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(row.c_str(), "%lx-%lx ", &begin, &end) == 2)
      there = begin <= reinterpret_cast<std::uintptr_t>(at) && reinterpret_cast<std::uintptr_t>(at) < end;
    std::size_t in_large_pages = 0;  // KiB
    if (there && std::sscanf(row.c_str(), "ShmemPmdMapped: %zu kB", &in_large_pages) == 1) return in_large_pages > 0;
  }
  return false;
}

// A kernel that makes large pages of a memfd at all makes them of a block.
TEST(ShmMapped, LongBlocksHaveLargePagesWhereverTheyLie) {
  auto probe = *shm::SharedMemory::create(2 * shm::large_page);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(probe.data()) % shm::large_page, 0u);
  shm::make_large_pages(probe, 0, probe.size());
  auto arena = *shm::Arena::create(shm::page, 32 * mib);
  std::byte* const small = arena->allocate_mapped(shm::page);
  std::byte* const block = arena->allocate_mapped(4 * mib + 100);
  std::byte* const next = arena->allocate_mapped(2 * mib);
  ASSERT_TRUE(small != nullptr && block != nullptr && next != nullptr);
  const auto peer = seen_by_a_peer(*arena);
  for (const std::byte* at : {block, next}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % shm::large_page, 0u);
    const auto offset = arena->place_of({at, mib})->offset;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(peer.data() + offset) % shm::large_page, 0u);
  }
  EXPECT_TRUE(all_are({block, 4 * mib + 100}, std::byte{0}));
  EXPECT_TRUE(has_large_pages(block) || !has_large_pages(probe.data()));
  EXPECT_TRUE(arena->release_mapped(block, 4 * mib + 100));
  EXPECT_TRUE(arena->release_mapped(next, 2 * mib));
  EXPECT_TRUE(arena->release_mapped(small, shm::page));
  EXPECT_EQ(arena->allocate_mapped(32 * mib), arena->memory().data() + 2 * shm::page)
      << "what no large page fits into is given all the same, and nothing was lost between blocks";
}

TEST(ShmMapped, WhatIsRevokedOfALargePageKeepsItsBytesAndIsSharedNoMore) {
  auto arena = *shm::Arena::create(shm::page, 8 * mib);
  std::byte* const block = arena->allocate_mapped(4 * mib);
  auto peer = seen_by_a_peer(*arena);
  std::byte* const there = peer.data() + arena->place_of({block, mib})->offset;
  std::fill_n(block, 4 * mib, std::byte{1});
  arena->revoke({block + mib, 64 * shm::page});
  std::fill_n(there, 4 * mib, std::byte{2});
  EXPECT_TRUE(all_are({block, mib}, std::byte{2}));
  EXPECT_TRUE(all_are({block + mib, 64 * shm::page}, std::byte{1}));
  EXPECT_TRUE(all_are({block + mib + 64 * shm::page, 3 * mib - 64 * shm::page}, std::byte{2}));
  EXPECT_TRUE(arena->release_mapped(block, 4 * mib));
}

TEST(ShmMapped, MemoryThatIsGivenBackIsTheMachinesAgain) {
  auto arena = *shm::Arena::create(shm::page, 8 * mib);
  std::byte* const block = arena->allocate_mapped(4 * mib);
  struct stat about {};
  ASSERT_EQ(::fstat(arena->memory().memfd(), &about), 0);
  const auto with = about.st_blocks;
  EXPECT_GE(with * 512, 4 * static_cast<std::ptrdiff_t>(mib)) << "its pages were there when it was given";
  arena->release_mapped(block, 4 * mib);
  ASSERT_EQ(::fstat(arena->memory().memfd(), &about), 0);
  EXPECT_LE(about.st_blocks * 512, with * 512 - 4 * static_cast<std::ptrdiff_t>(mib));
}

// As under gVisor.
TEST(ShmMapped, MemoryIsOfZerosAlsoWhereHolesCannotBeMade) {
  static int asked = 0;
  const shm::ArenaSystem without_holes{.punch = [](int, int, off_t, off_t) { return ++asked, errno = EOPNOTSUPP, -1; }};
  auto arena = *shm::Arena::create(shm::page, 8 * shm::page, without_holes);
  std::byte* const block = arena->allocate_mapped(8 * shm::page);
  const auto peer = seen_by_a_peer(*arena);
  std::byte* const there = peer.data() + *arena->mapped_offset_of({block, 8 * shm::page});
  std::fill_n(block, 8 * shm::page, std::byte{0xff});
  arena->revoke({block + 2 * shm::page, shm::page});
  EXPECT_TRUE(arena->release_mapped(block, 8 * shm::page));
  EXPECT_GT(asked, 0);
  for (const std::size_t pages : {2, 5}) {  // before and after what was revoked
    std::byte* const again = arena->allocate_mapped(pages * shm::page);
    ASSERT_NE(again, nullptr);
    EXPECT_TRUE(all_are({again, pages * shm::page}, std::byte{0}));
    EXPECT_TRUE(all_are({there + (again - block), pages * shm::page}, std::byte{0})) << "as peers see it";
  }
}

TEST(ShmMapped, WhatIsRevokedKeepsItsBytesAndIsSharedNoMore) {
  auto arena = *shm::Arena::create(shm::page, mib);
  std::byte* const block = arena->allocate_mapped(6 * shm::page);
  const auto place = *arena->place_of({block, 6 * shm::page});
  EXPECT_TRUE(place.shares_pages);
  auto peer = seen_by_a_peer(*arena);
  std::byte* const there = peer.data() + place.offset;
  for (std::size_t i = 0; i < 6 * shm::page; ++i) block[i] = static_cast<std::byte>(i * 7);
  const Bytes before(block, block + 6 * shm::page);
  const std::span<std::byte> landing(block + 100, 4 * shm::page);  // pages 1 to 3 whole, 0 and 4 in part
  arena->revoke(landing);
  std::fill_n(there, 6 * shm::page, std::byte{0xee});  // the peer, stopped until now
  for (std::size_t i = 0; i < 6 * shm::page; ++i) {
    const bool own = i >= shm::page && i < 4 * shm::page;
    ASSERT_EQ(block[i], own ? before[i] : std::byte{0xee}) << i << ": pages that it has in part are not taken away";
  }
  EXPECT_FALSE(arena->mapped_offset_of({block + 2 * shm::page, 10}));
  EXPECT_TRUE(arena->mapped_offset_of({block + 4 * shm::page, 10}));
  // Once given back, what was revoked is nobody's, and the rest is free.
  EXPECT_TRUE(arena->release_mapped(block, 6 * shm::page));
  for (int i = 0; i < 200; ++i) {
    std::byte* const other = arena->allocate_mapped(shm::page);
    if (other == nullptr) break;
    EXPECT_TRUE(other < block + shm::page || other >= block + 4 * shm::page);
    EXPECT_TRUE(all_are({other, shm::page}, std::byte{0}));
  }
}

// ---- landings -----------------------------------------------------------------------------------------------------

TEST(ShmMapped, ALandingTouchesNothingBesideTheReceive) {
  World world(mapped_fabric(), 2);
  world.connect();
  std::byte* const block = world.at(0).mapped_memory()->allocate(2 * mib);
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    std::fill_n(block, 2 * mib, std::byte{0x5a});
    const std::size_t begin = random() % (3 * shm::page), room = 16 * 1024 + random() % mib;
    const std::size_t length = i % 4 == 0 ? random() % 9000 : room - random() % 16'000;
    const Bytes from = pattern(length, static_cast<unsigned>(i));
    const auto received = world.recv(0, 1, 9, {block + begin, room});
    ASSERT_TRUE(world.complete({received, world.send(1, 0, 9, from)}));
    EXPECT_EQ(world.ending(received)->bytes, length);
    EXPECT_TRUE(std::equal(from.begin(), from.end(), block + begin));
    EXPECT_TRUE(all_are({block, begin}, std::byte{0x5a}));
    EXPECT_TRUE(all_are({block + begin + length, 2 * mib - begin - length}, std::byte{0x5a}));
  }
}

TEST(ShmMapped, AfterDisconnectALateSenderReachesNothing) {
  World world(mapped_fabric(), 2);
  world.connect();
  std::byte* const block = world.at(0).mapped_memory()->allocate(mib);
  std::fill_n(block, mib, std::byte{0x11});
  const auto received = world.recv(0, 1, 9, {block + 40, mib - 80});
  world.at(0).disconnect(1);
  EXPECT_TRUE(all_are({block, mib}, std::byte{0x11})) << "what was there stays";
  std::fill_n(block, mib, std::byte{0x5a});
  ASSERT_TRUE(world.try_send(1, 0, 9, pattern(mib - 80, 3)));  // rank 1 has not noticed
  EXPECT_TRUE(all_are({block, mib}, std::byte{0x5a}));
  ASSERT_TRUE(world.complete({received}));
  EXPECT_EQ(world.ending(received)->outcome, Outcome::aborted);
}

// ---- loans --------------------------------------------------------------------------------------------------------

TEST(ShmLoan, AMessageInMappedMemoryIsCopiedOnceByItsReceiver) {
  World world(mapped_fabric(), 2);
  world.connect();
  std::byte* const block = world.at(1).mapped_memory()->allocate(mib);
  const Bytes text = pattern(mib, 8);
  std::copy(text.begin(), text.end(), block);
  Bytes into(mib);
  const auto received = world.recv(0, 1, 9, into);
  const auto sent = world.send(1, 0, 9, {block, mib});
  for (int i = 0; i < 20; ++i) world.poll(1);
  EXPECT_FALSE(world.ending(sent)) << "its bytes are still needed";
  ASSERT_TRUE(world.complete({received, sent}));
  EXPECT_TRUE(into == text);
  EXPECT_EQ(world.at(1).counters().bytes_sent - world.at(0).counters().bytes_received, 0u);
}

struct Borrowed {
  Completion completion;
  bool got = false;
};

Borrowed poll_for(Endpoint& endpoint, std::uint64_t context) {
  for (int i = 0; i < 1000; ++i) {
    Completion completion;
    if (endpoint.poll({&completion, 1}) == 1 && completion.context == context) return {completion, true};
  }
  return {};
}

/// Two ranks; rank 1 lends `text` to rank 0.
class Lending : public testing::Test {
 protected:
  void SetUp() override {
    world.connect();
    block = world.at(1).mapped_memory()->allocate(mib);
    std::copy(text.begin(), text.end(), block);
    scratch = world.at(0).memory()->allocate(mib);
    ASSERT_EQ(world.at(0).post_borrowing_recv(1, 9, {scratch, mib}, 77), Post::accepted);
    ASSERT_EQ(world.at(1).post_send(0, 9, {block, mib}, 78), Post::lent);
    borrowed = poll_for(world.at(0), 77);
    ASSERT_TRUE(borrowed.got);
    ASSERT_NE(borrowed.completion.lent, nullptr);
    ASSERT_EQ(borrowed.completion.bytes, mib);
  }
  std::span<const std::byte> lent() const { return {borrowed.completion.lent, mib}; }

  World world{mapped_fabric(), 2};
  const Bytes text = pattern(mib, 5);
  std::byte* block = nullptr;
  std::byte* scratch = nullptr;
  Borrowed borrowed;
};

TEST_F(Lending, IsReadInItsPlaceAndEndsWhenItIsGivenBack) {
  EXPECT_TRUE(std::ranges::equal(lent(), text));
  EXPECT_TRUE(all_are({scratch, mib}, std::byte{0})) << "nothing was copied";
  EXPECT_FALSE(poll_for(world.at(1), 78).got);
  EXPECT_TRUE(world.at(0).give_back(1, borrowed.completion.loan));
  const Borrowed sent = poll_for(world.at(1), 78);
  ASSERT_TRUE(sent.got);
  EXPECT_EQ(sent.completion.outcome, Outcome::done);
}

// A reader that was stopped while the other gave it up: what it read may have been changed meanwhile.
TEST_F(Lending, KnowsThatItWasTakenBack) {
  world.at(1).disconnect(0);
  const Borrowed sent = poll_for(world.at(1), 78);
  ASSERT_TRUE(sent.got);
  EXPECT_EQ(sent.completion.outcome, Outcome::aborted);
  std::fill_n(block, mib, std::byte{0xee});
  (void)std::ranges::count(lent(), std::byte{0xee});  // can still be read
  EXPECT_FALSE(world.at(0).give_back(1, borrowed.completion.loan));
  EXPECT_EQ(world.at(0).peer_error(1).code(), ErrorCode::peer_lost);
}

TEST_F(Lending, OutlivesTheMemoryAndItsRank) {
  EXPECT_TRUE(world.at(1).mapped_memory()->release(block, mib));
  EXPECT_TRUE(all_are(lent(), std::byte{0})) << "gone, but still there to be read";
  world.kill(1);
  EXPECT_TRUE(all_are(lent(), std::byte{0}));
}

TEST(ShmLoan, ManyAreOutAtOnceAndComeBackInAnyOrder) {
  World world(mapped_fabric(), 2);
  world.connect();
  constexpr std::size_t count = 200, bytes = 8192;  // more than there are numbers for loans
  std::byte* const block = world.at(1).mapped_memory()->allocate(count * bytes);
  std::vector<Bytes> into(count, Bytes(bytes));
  std::mt19937 random(5);
  std::map<std::uint64_t, Completion> open;
  std::size_t given_back = 0, sent = 0, copied = 0, ended = 0;
  const auto look = [&] {
    Completion completion;
    while (world.at(0).poll({&completion, 1}) == 1) {
      if (completion.lent != nullptr) open.emplace(completion.context, completion);
      if (completion.lent == nullptr) ++copied;
    }
    while (world.at(1).poll({&completion, 1}) == 1) ended += completion.context >= 1000;
  };
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(world.at(0).post_borrowing_recv(1, static_cast<Slot>(i), into[i], i), Post::accepted);
  for (int round = 0; round < 100'000 && ended < count; ++round) {
    if (sent < count && random() % 2 == 0) {
      std::fill_n(block + sent * bytes, bytes, static_cast<std::byte>(sent));
      if (world.at(1).post_send(0, static_cast<Slot>(sent), {block + sent * bytes, bytes}, 1000 + sent) != Post::again)
        ++sent;
    }
    look();
    if ((open.size() < 80 && sent < count) || open.empty()) continue;
    auto at = open.begin();
    std::advance(at, random() % open.size());
    EXPECT_TRUE(all_are({at->second.lent, bytes}, static_cast<std::byte>(at->first)));
    EXPECT_TRUE(world.at(0).give_back(1, at->second.loan));
    open.erase(at);
    ++given_back;
  }
  EXPECT_EQ(ended, count);
  EXPECT_EQ(given_back + copied, count);
  EXPECT_GT(copied, 0u) << "those for which there was no number left";
  EXPECT_GE(given_back, 64u);
}

// ---- a peer gone mad ----------------------------------------------------------------------------------------------

TEST(ShmLoan, OfBytesThatAreNotInThePeersArenaIsNonsense) {
  constexpr std::uint64_t arena_bytes = 16 * shm::page;
  struct Entry {
    std::uint64_t offset;
    std::uint32_t bytes;
    bool borrows;
  };
  for (const Entry& said : std::vector<Entry>{{0, 100, true},
                                              {shm::page - 1, 100, true},
                                              {arena_bytes - 99, 100, true},
                                              {arena_bytes - 99, 100, false},
                                              {arena_bytes, 1, true},
                                              {~std::uint64_t{0}, 2, true},
                                              {~std::uint64_t{0} - 50, 100, false},
                                              {shm::page, 20'001, true}}) {
    EndpointOptions options;
    options.world_size = 2;
    options.job_nonce = 43;
    auto victim = *shm::ShmEndpoint::open(options);
    auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
    auto arena = *shm::Arena::create(arena_bytes - shm::page);
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_TRUE(AbstractAddress::of(victim->address().substr(4))->connect(socket.fd()));
    const shm::Hello hello{shm::Hello::magic_number, 43, memory.size(), arena->memory().size(), 1, 0};
    ASSERT_TRUE(shm::say(socket.fd(), hello, {memory.memfd(), arena->memory().memfd(), memory.memfd()}));
    ASSERT_TRUE(victim->add_peer(1, "shm " + shm::Introductions::name_begin(43, 1) + "x").ok());
    Completion completion;
    for (int i = 0; i < 3; ++i) (void)victim->poll({&completion, 1});
    Bytes into(20'000);
    ASSERT_EQ(said.borrows ? victim->post_borrowing_recv(1, 5, into, 77) : victim->post_recv(1, 5, into, 77),
              Post::accepted);
    shm::Entry& entry = shm::Pair::of_world(memory.data(), 2).channel(false).entries[0];
    entry.kind = shm::EntryKind::lent;
    entry.slot = 5;
    entry.bytes = said.bytes;
    entry.offset = said.offset;
    entry.turn.store(1);
    bool heard = false;
    for (int i = 0; i < 3 && !heard; ++i) heard = victim->poll({&completion, 1}) == 1;
    ASSERT_TRUE(heard) << said.offset;
    EXPECT_EQ(completion.outcome, Outcome::lost);
    EXPECT_EQ(victim->peer_error(1).code(), ErrorCode::peer_lost);
  }
}

}  // namespace
}  // namespace fabring::conformance
