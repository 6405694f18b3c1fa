// The arena that a rank shows its neighbours, and landings in it: messages that their sender writes where they belong.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <random>

#include "tests/support/few_addresses.hpp"
#include "tests/transports/shm/shm_world.hpp"

namespace fabring::conformance {
namespace {

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

// Each in a child, which has locked all that it will map.
void in_child_that_locks(uid_t user, const std::function<void()>& look) {
  constexpr int not_allowed = 77;
  const auto child = [&] {
    if (user != ::geteuid() && ::seteuid(user) != 0) ::_exit(not_allowed);
    if (::mlockall(MCL_FUTURE) != 0) ::_exit(not_allowed);
    look();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(
      child(),
      [](int status) { return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == not_allowed); },
      "");
}

TEST(ShmArena, IsNotFilledWithPagesWhereAllMemoryIsLocked) {
  in_child_that_locks(::geteuid(), [] {
    for (const std::size_t bytes : {std::size_t{64 * 4096}, std::size_t{1} << 30}) {
      auto memory = shm::SharedMemory::create(bytes);
      if (!memory) {  // the limit, and no pages
        EXPECT_THAT(memory.error().message(), testing::HasSubstr("ulimit -l"));
        continue;
      }
      memory->data()[5000] = std::byte{1};
      struct stat about {};
      ASSERT_EQ(::fstat(memory->memfd(), &about), 0);
      EXPECT_LT(about.st_blocks * 512, bytes) << "of all";
    }
  });
}

TEST(ShmArena, ThatMayNotBeLockedSaysByWhichLimit) {
  if (tests::needs_addresses_of_its_own) GTEST_SKIP() << "a sanitizer lets nobody lock memory";
  if (::geteuid() != 0) GTEST_SKIP() << "who is root can be somebody with a limit";
  constexpr uid_t nobody = 65534;
  in_child_that_locks(nobody, [] {
    const auto memory = shm::SharedMemory::create(std::size_t{1} << 30);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code(), ErrorCode::out_of_memory);
    EXPECT_THAT(memory.error().message(), testing::HasSubstr("ulimit -l"));
  });
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

// Landings of several peers lie side by side in a block of scratch, where one page may belong to two of them.
TEST(ShmArena, WhatSharesAPageWithOneRevokedBeforeIsTakenAwayToo) {
  auto arena = *shm::Arena::create(8 * shm::page);
  std::byte* const block = arena->allocate(4 * shm::page);
  const auto offset = arena->place_of({block, 4 * shm::page})->offset;
  auto peer = *shm::SharedMemory::adopt(Descriptor(::fcntl(arena->memory().memfd(), F_DUPFD_CLOEXEC, 0)),
                                        arena->memory().size());
  arena->revoke({block, shm::page + 100});
  arena->revoke({block + shm::page + 100, 2 * shm::page});
  peer.data()[offset + 2 * shm::page + 5] = std::byte{7};
  EXPECT_EQ(block[2 * shm::page + 5], std::byte{0});
  EXPECT_FALSE(arena->place_of({block + 2 * shm::page, 10}));
  EXPECT_FALSE(arena->place_of({block + 3 * shm::page, 10}));
  // Around what was revoked before, nothing of which is lost.
  std::byte* const other = arena->allocate(4 * shm::page);
  arena->revoke({other + shm::page, shm::page});
  other[shm::page] = std::byte{1};
  arena->revoke({other, 3 * shm::page});
  for (const std::size_t i : {0, 2}) {
    peer.data()[arena->place_of({other + 3 * shm::page, 1})->offset - (3 - i) * shm::page] = std::byte{7};
    EXPECT_EQ(other[i * shm::page], std::byte{0}) << "page " << i;
  }
  EXPECT_EQ(other[shm::page], std::byte{1});
  EXPECT_TRUE(arena->place_of({other + 3 * shm::page, shm::page}));
}

// The same of the program's memory, which keeps what is there.
TEST(ShmArena, WhatOverlapsOneRevokedBeforeKeepsItsBytesAndIsTakenAwayToo) {
  auto arena = *shm::Arena::create(shm::page, 8 * shm::page);
  std::byte* const block = arena->allocate_mapped(4 * shm::page);
  const auto offset = *arena->mapped_offset_of({block, 4 * shm::page});
  auto peer = *shm::SharedMemory::adopt(Descriptor(::fcntl(arena->memory().memfd(), F_DUPFD_CLOEXEC, 0)),
                                        arena->memory().size());
  std::fill_n(block, 4 * shm::page, std::byte{1});
  arena->revoke({block, 2 * shm::page});
  block[0] = std::byte{2};
  arena->revoke({block, 3 * shm::page});
  std::fill_n(peer.data() + offset, 4 * shm::page, std::byte{7});
  EXPECT_EQ(block[0], std::byte{2});
  EXPECT_TRUE(all_are({block + 1, 3 * shm::page - 1}, std::byte{1}));
  EXPECT_EQ(block[3 * shm::page], std::byte{7});
}

// As on kernels whose pages have 64 KiB.
TEST(ShmArena, CountsInPagesOfTheSystem) {
  constexpr std::size_t large = 64 * 1024;
  auto arena = *shm::Arena::create(1, 8 * large, {.page = large});
  const auto offset_of = [&](const std::byte* at) { return static_cast<std::size_t>(at - arena->memory().data()); };
  std::byte* const scratch = arena->allocate(100);
  EXPECT_EQ(offset_of(scratch), large);
  EXPECT_EQ(arena->allocate(1), nullptr) << "there was one page of it";
  std::byte* const first = arena->allocate_mapped(2 * large);
  std::byte* const second = arena->allocate_mapped(100);
  EXPECT_EQ(offset_of(first), 2 * large);
  EXPECT_EQ(offset_of(second), 4 * large);
  arena->revoke({first + 100, large});
  EXPECT_TRUE(arena->place_of({first, 2 * large})) << "no page lies whole inside";
  arena->revoke({first, large});
  EXPECT_FALSE(arena->place_of({first + large - 1, 1}));
  EXPECT_TRUE(arena->place_of({first + large, large}));
  EXPECT_TRUE(arena->place_of({second, large}));
  EXPECT_FALSE(arena->landing_place_of({second, large})) << "a part of a large page cannot be taken from a peer";
  arena->revoke({scratch, 1});
  EXPECT_FALSE(arena->place_of({scratch + large - 1, 1}));
}

// The kernel allows a process so many mappings (vm.max_map_count), and memory for so many.
TEST(ShmArena, WhatCannotBeTakenFromAPeerIsNeverLentOrGivenAgain) {
  const shm::ArenaSystem failing{
      .map = [](void*, std::size_t, int, int, int, off_t) { return errno = ENOMEM, MAP_FAILED; }};
  auto arena = *shm::Arena::create(4 * shm::page, 4 * shm::page, failing);
  std::byte* const scratch = arena->allocate(2 * shm::page);
  std::byte* const mapped = arena->allocate_mapped(2 * shm::page);
  arena->revoke({scratch + shm::page, shm::page});
  arena->revoke({mapped + shm::page, shm::page});
  for (std::byte* const block : {scratch, mapped}) {
    EXPECT_TRUE(arena->place_of({block, shm::page}));
    EXPECT_FALSE(arena->place_of({block + shm::page, 1}));
  }
  EXPECT_TRUE(arena->release(scratch, 2 * shm::page));
  EXPECT_TRUE(arena->release_mapped(mapped, 2 * shm::page));
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(arena->allocate(shm::page), scratch + shm::page);
    EXPECT_NE(arena->allocate_mapped(shm::page), mapped + shm::page);
  }
  EXPECT_EQ(arena->allocate(1), nullptr);
  EXPECT_EQ(arena->allocate_mapped(1), nullptr);
}

// Under vm.overcommit_memory=2 the kernel refuses a page when it is touched, which would end the program.
TEST(ShmArena, GivesNoScratchWhosePagesWouldBeRefused) {
  const auto refuses = [](const shm::SharedMemory& memory, std::size_t offset, std::size_t bytes) {
    return bytes <= 4 * shm::page && shm::populate(memory, offset, bytes);
  };
  for (const bool may_be_refused : {true, false}) {
    auto arena = *shm::Arena::create(64 * shm::page, 0, {.pages_may_be_refused = may_be_refused, .populate = refuses});
    EXPECT_EQ(arena->allocate(8 * shm::page) == nullptr, may_be_refused);
    EXPECT_NE(arena->allocate(4 * shm::page), nullptr);
  }
  auto arena = *shm::Arena::create(8 * shm::page, 0, {.pages_may_be_refused = true, .populate = refuses});
  EXPECT_EQ(arena->allocate(8 * shm::page), nullptr);
  EXPECT_NE(arena->allocate(4 * shm::page), nullptr) << "what was refused is free again";
  EXPECT_NE(arena->allocate(4 * shm::page), nullptr);
  const auto none = [](const shm::SharedMemory&, std::size_t, std::size_t) { return false; };
  EXPECT_FALSE(shm::Arena::create(shm::page, 0, {.populate = none}));
}

std::size_t bytes_of_pages(const shm::SharedMemory& memory) {
  struct stat about {};
  EXPECT_EQ(::fstat(memory.memfd(), &about), 0);
  return static_cast<std::size_t>(about.st_blocks) * 512;
}

TEST(ShmArena, ScratchThatIsReleasedHasNoPages) {
  auto arena = *shm::Arena::create(64 * shm::page);
  const std::size_t header = bytes_of_pages(arena->memory());
  std::byte* const first = arena->allocate(16 * shm::page);
  std::byte* const second = arena->allocate(16 * shm::page);
  std::fill_n(first, 16 * shm::page, std::byte{1});
  std::fill_n(second, 16 * shm::page, std::byte{2});
  ASSERT_EQ(bytes_of_pages(arena->memory()), header + 32 * shm::page);
  arena->revoke({first, 4 * shm::page});
  EXPECT_TRUE(arena->release(first, 16 * shm::page));
  EXPECT_EQ(bytes_of_pages(arena->memory()), header + 16 * shm::page);
  EXPECT_TRUE(all_are({second, 16 * shm::page}, std::byte{2}));
  EXPECT_EQ(arena->allocate(16 * shm::page), first) << "its addresses are free";
}

TEST(ShmArena, AForkedChildReleasesNoneOfItsParentsScratch) {
  auto arena = *shm::Arena::create(4 * shm::page);
  std::byte* const block = arena->allocate(4 * shm::page);
  std::fill_n(block, 4 * shm::page, std::byte{1});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(arena->release(block, 4 * shm::page) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "not by free(), either";
  EXPECT_TRUE(all_are({block, 4 * shm::page}, std::byte{1}));
}

TEST(SharedMemory, PagesExistAlsoWhereTheKernelMakesNoneOfAMapping) {
  constexpr std::size_t bytes = 3 * shm::large_page;
  const auto memory = *shm::SharedMemory::create(bytes);
  ASSERT_EQ(bytes_of_pages(memory), 0u);
  EXPECT_TRUE(shm::populate_memfd(memory.memfd(), bytes - shm::page, shm::page));
  EXPECT_GE(bytes_of_pages(memory), shm::system_page());  // a large one where all memfds have those
  EXPECT_TRUE(shm::populate_memfd(memory.memfd(), 0, bytes));
  EXPECT_EQ(bytes_of_pages(memory), bytes);
  EXPECT_TRUE(all_are({memory.data(), bytes}, std::byte{0}));
}

TEST(SharedMemory, PagesThatAMemfdCannotHaveAreRefused) {
  using Allocate = int(int, int, off_t, off_t);
  Allocate* const full = [](int, int, off_t offset, off_t) { return offset == 0 ? 0 : (errno = ENOSPC, -1); };
  EXPECT_TRUE(shm::populate_memfd(-1, 0, shm::large_page, full));
  EXPECT_FALSE(shm::populate_memfd(-1, 0, 2 * shm::large_page, full));
  Allocate* const interrupted = [](int, int, off_t, off_t) {
    static int calls = 0;
    return ++calls % 3 == 0 ? 0 : (errno = EINTR, -1);
  };
  EXPECT_TRUE(shm::populate_memfd(-1, 0, 2 * shm::large_page, interrupted));
  Allocate* const unknown = [](int, int, off_t, off_t) { return errno = EOPNOTSUPP, -1; };
  EXPECT_TRUE(shm::populate_memfd(-1, 0, shm::page, unknown)) << "they exist when they are touched";
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

// What two peers send for one operation lies side by side, with a page of which both have a part.
TEST(ShmLanding, AfterTwoDisconnectsNeitherLateSenderReachesAnything) {
  World world(shm_fabric(), 3);
  world.connect();
  constexpr std::size_t each = beyond_staging + 100;
  std::byte* const block = world.at(0).memory()->allocate(2 * each);
  std::vector<std::uint64_t> received;
  for (const Rank from : {1, 2})
    received.push_back(world.recv(0, from, 9, {block + static_cast<std::size_t>(from - 1) * each, each}));
  world.at(0).disconnect(1);
  world.at(0).disconnect(2);
  std::fill_n(block, 2 * each, std::byte{0x5a});  // ours again
  for (const Rank from : {1, 2}) ASSERT_TRUE(world.try_send(from, 0, 9, pattern(each, 3)));
  EXPECT_TRUE(all_are({block, 2 * each}, std::byte{0x5a}));
  ASSERT_TRUE(world.complete(received));
}

}  // namespace
}  // namespace fabring::conformance
