// Messages in memory that is not shared, which their receiver reads with the kernel's help, or cannot.

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "tests/transports/shm/shm_world.hpp"
#include "transports/shm/process_reader.hpp"

namespace fabring::conformance {
namespace {

constexpr std::size_t long_enough = 64 * 1024;
static_assert(long_enough >= shm::least_unshared);

/// Memory that can be taken away from who reads it, and come again.
class Guarded {
 public:
  explicit Guarded(const Bytes& bytes) : size_(bytes.size()) {
    void* const at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    at_ = static_cast<std::byte*>(at);
    std::memcpy(at_, bytes.data(), size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ::munmap(at_, size_); }
  std::span<const std::byte> bytes() const { return {at_, size_}; }
  void hide() const { ASSERT_EQ(::mprotect(at_, size_, PROT_NONE), 0); }
  void show() const { ASSERT_EQ(::mprotect(at_, size_, PROT_READ), 0); }

 private:
  std::byte* at_ = nullptr;
  std::size_t size_;
};

/// A container may forbid it, even of a process's own memory.
bool kernel_reads() {
  std::byte from{1}, to{0};
  const iovec there{&from, 1}, here{&to, 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

/// Rank 0 sends to rank 1.
class ShmUnshared : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_reads()) GTEST_SKIP() << "process_vm_readv is not allowed here";
    world.connect();
  }

  FastPeer& way_of(Rank rank) { return *world.at(rank).fast_messages()->fast_peer(1 - rank); }

  World world{shm_fabric(), 2};
  const Bytes message = pattern(long_enough, 7);
};

TEST_F(ShmUnshared, AMessageStaysWhereItIsUntilItsReceiverHasReadIt) {
  Bytes into(long_enough);
  const auto received = world.recv(1, 0, 9, into);
  const auto sent = world.readable_send(0, 1, 9, message);
  world.poll(0);
  EXPECT_FALSE(world.ending(sent)) << "its bytes are not in the channel";
  world.poll(1);
  ASSERT_TRUE(world.ending(received));
  EXPECT_EQ(into, message);
  world.poll(0);
  EXPECT_DONE(world, sent);
}

TEST_F(ShmUnshared, AnySendIsCopiedWhoseSenderHasTime) {
  Bytes into(long_enough);
  (void)world.recv(1, 0, 9, into);
  const auto sent = world.send(0, 1, 9, message);
  world.poll(0);
  EXPECT_TRUE(world.ending(sent));
}

TEST_F(ShmUnshared, WhatCannotBeReadComesToTheSameReceiveInAnotherWay) {
  const Guarded hidden(message);
  Bytes into(long_enough);
  const auto received = world.recv(1, 0, 9, into);
  const auto sent = world.readable_send(0, 1, 9, hidden.bytes());
  hidden.hide();
  world.poll(1);
  EXPECT_FALSE(world.ending(received));
  hidden.show();
  ASSERT_TRUE(world.complete({received, sent}));
  EXPECT_DONE(world, received);
  EXPECT_DONE(world, sent);
  EXPECT_EQ(into, message);

  const auto again = world.recv(1, 0, 10, into);
  const auto copied = world.readable_send(0, 1, 10, hidden.bytes());
  world.poll(0);
  EXPECT_TRUE(world.ending(copied)) << "it is not tried again";
  ASSERT_TRUE(world.complete({again}));
}

TEST_F(ShmUnshared, WhatWasTakenBackIsKnownToWhoReadIt) {
  Bytes into(long_enough);
  const auto received = world.recv(1, 0, 9, into);
  const auto sent = world.readable_send(0, 1, 9, message);
  world.at(0).disconnect(1);
  world.poll(0);
  ASSERT_TRUE(world.ending(sent));
  EXPECT_EQ(world.ending(sent)->outcome, Outcome::aborted);
  ASSERT_TRUE(world.complete({received}));
  EXPECT_EQ(world.ending(received)->outcome, Outcome::lost);
}

TEST_F(ShmUnshared, AFastMessageIsBroughtFromWhereItIs) {
  std::uint32_t loan = 0;
  ASSERT_TRUE(way_of(0).lend(head_of(5), message, {.readable = true}, loan));
  FastMessage came;
  ASSERT_TRUE(way_of(1).front(came));
  EXPECT_TRUE(came.is_away() && came.lent);
  EXPECT_EQ(number_of(came.head), 5u);
  Bytes into(came.payload.size());
  ASSERT_TRUE(way_of(1).bring(came, into.data()));
  EXPECT_EQ(into, message);
  EXPECT_TRUE(way_of(1).is_intact());
  EXPECT_FALSE(way_of(0).is_back(loan));
  way_of(1).pop();
  EXPECT_TRUE(way_of(0).is_back(loan));
}

TEST_F(ShmUnshared, AFastMessageIsFetchedForWhoReadsItInPlace) {
  for (const std::uint32_t number : {5u, 6u}) {  // the second must not be taken for the first
    const Bytes own = pattern(long_enough, number);
    std::uint32_t loan = 0;
    ASSERT_TRUE(way_of(0).lend(head_of(number), own, {.readable = true}, loan));
    FastMessage came;
    ASSERT_TRUE(way_of(1).front(came));
    EXPECT_TRUE(std::ranges::equal(way_of(1).fetch(came), own));
    way_of(1).pop();
  }
}

TEST_F(ShmUnshared, AFastMessageThatCannotBeReadWaitsUntilItIsShared) {
  const Guarded hidden(message);
  std::uint32_t loan = 0;
  ASSERT_TRUE(way_of(0).lend(head_of(5), hidden.bytes(), {.readable = true}, loan));
  ASSERT_TRUE(way_of(0).put(head_of(6), {}));
  FastMessage came;
  ASSERT_TRUE(way_of(1).front(came));
  hidden.hide();
  Bytes into(long_enough);
  EXPECT_FALSE(way_of(1).bring(came, into.data()));
  EXPECT_FALSE(way_of(1).front(came)) << "nor what follows it";
  hidden.show();
  world.poll(0);
  ASSERT_TRUE(way_of(1).front(came));
  EXPECT_EQ(number_of(came.head), 5u);
  EXPECT_FALSE(came.is_away());
  EXPECT_TRUE(std::ranges::equal(came.payload, message));
  way_of(1).pop();
  EXPECT_TRUE(way_of(0).is_back(loan));
  ASSERT_TRUE(way_of(1).front(came));
  EXPECT_EQ(number_of(came.head), 6u);
  EXPECT_FALSE(way_of(0).lend(head_of(7), hidden.bytes(), {.readable = true}, loan)) << "it is not tried again";
}

// There is memory to share for fewer of them at once.
TEST_F(ShmUnshared, AnyNumberOfFastMessagesThatCannotBeReadAreSharedOneAfterTheOther) {
  constexpr std::uint32_t messages = 40;
  const Guarded hidden(message);
  std::uint32_t loan = 0;
  for (std::uint32_t i = 0; i < messages; ++i)
    ASSERT_TRUE(way_of(0).lend(head_of(i), hidden.bytes(), {.readable = true}, loan));
  hidden.hide();
  FastMessage came;
  ASSERT_TRUE(way_of(1).front(came));
  Bytes into(long_enough);
  EXPECT_FALSE(way_of(1).bring(came, into.data()));
  hidden.show();
  for (std::uint32_t i = 0; i < messages; ++i) {
    if (i > 0) {
      ASSERT_TRUE(way_of(1).front(came));
      EXPECT_FALSE(way_of(1).bring(came, into.data())) << "it is not tried again";
    }
    world.poll(0);
    ASSERT_TRUE(way_of(1).front(came)) << i;
    EXPECT_EQ(number_of(came.head), i);
    EXPECT_TRUE(std::ranges::equal(came.payload, message));
    way_of(1).pop();
  }
  EXPECT_TRUE(way_of(0).is_back(loan));
}

TEST(ShmFastUnshared, NothingIsLentThatCouldNotBeShared) {
  Fabric little = shm_fabric();
  little.config.scratch_bytes = 64 * 1024;
  World world(little, 2);
  world.connect();
  const Bytes message = pattern(long_enough, 1);
  std::uint32_t loan = 0;
  FastPeer& way = *world.at(0).fast_messages()->fast_peer(1);
  EXPECT_FALSE(way.lend(head_of(0), message, {.readable = true}, loan));
  EXPECT_TRUE(way.put(head_of(0), message));
}

// Who takes back that it has read something, to have it once more, gets nothing: the program may have freed it.
TEST(ShmFastUnshared, WhatIsBackIsNeverSharedAgain) {
  auto memory = *shm::SharedMemory::create(shm::Pair::of_world(nullptr, 2).size());
  const shm::Pair pair = shm::Pair::of_world(memory.data(), 2);
  shm::FastOutbox out(pair, true);
  const Bytes message = pattern(long_enough, 1);
  std::uint32_t loan = 0;
  ASSERT_TRUE(out.lend_unshared(head_of(0), message, loan));
  shm::Channel& channel = pair.channel(true);
  channel.unread = shm::FastRing::stamp_of(0);
  EXPECT_EQ(out.unread_bytes(), long_enough);
  channel.fast_read = 1;
  EXPECT_TRUE(out.is_back(loan));
  channel.fast_read = 0;
  EXPECT_TRUE(out.is_back(loan));
  EXPECT_EQ(out.unread_bytes(), 0u);
}

TEST(ShmProcessReader, ReadsOnlyTheProcessThatItMet) {
  if (!kernel_reads()) GTEST_SKIP() << "process_vm_readv is not allowed here";
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor here(ends[0]), there(ends[1]);
  const auto channel = std::make_unique<shm::Channel>();
  shm::ProcessMark mark{12345, 0};
  mark.at = reinterpret_cast<std::uint64_t>(&mark);
  const Bytes source = pattern(long_enough, 3);
  Bytes into(long_enough);
  const auto address = reinterpret_cast<std::uint64_t>(source.data());

  shm::ProcessReader reader(*channel, here.fd(), mark);
  EXPECT_EQ(channel->reads_unshared.load(), 1u);
  ASSERT_TRUE(reader.read(into.data(), address, into.size()));
  EXPECT_EQ(into, source);
  EXPECT_FALSE(reader.read(into.data(), 8, into.size())) << "nothing is there";
  EXPECT_EQ(channel->reads_unshared.load(), 0u);

  shm::ProcessReader again(*channel, here.fd(), mark);
  mark.number = 54321;  // another program runs there now
  EXPECT_FALSE(again.read(into.data(), address, into.size()));

  const shm::ProcessReader stranger(*channel, here.fd(), {1, mark.at});
  EXPECT_EQ(channel->reads_unshared.load(), 0u);
}

}  // namespace
}  // namespace fabring::conformance
