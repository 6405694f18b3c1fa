// Descriptors that one rank hands another over the lifeline of the two, and what may come there instead.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/support/few_files.hpp"
#include "tests/transports/conformance/world.hpp"
#include "transports/shm/handover.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::conformance {
namespace {

Fabric fabric_of_pieces() {
  Fabric fabric;
  fabric.name = "shm";
  fabric.transport = [] { return make_shm_transport(); };
  return fabric;
}

std::ptrdiff_t descriptors_open() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

std::vector<Descriptor> files(std::size_t count) {
  std::vector<Descriptor> made;
  for (std::size_t i = 0; i < count; ++i) made.emplace_back(memfd_create("piece", MFD_CLOEXEC));
  return made;
}

bool same_file(const Descriptor& one, const Descriptor& other) {
  struct stat a {
  }, b{};
  return ::fstat(one.fd(), &a) == 0 && ::fstat(other.fd(), &b) == 0 && a.st_ino == b.st_ino && one.fd() != other.fd();
}

TEST(ShmHandover, CopiesAreThereOnceTheNumberIsKnownAndAreTakenOnce) {
  World world(fabric_of_pieces(), 2);
  world.connect();
  for (const std::size_t count : {1u, 2u, 32u}) {
    const auto mine = files(count);
    const auto number = world.at(1).hand_over(0, mine);
    ASSERT_TRUE(number && *number != 0);
    const auto taken = world.at(0).take_over(1, *number);
    ASSERT_TRUE(taken);
    ASSERT_EQ(taken->size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(same_file((*taken)[i], mine[i]));
      EXPECT_EQ(::fcntl((*taken)[i].fd(), F_GETFD), FD_CLOEXEC);
    }
    EXPECT_FALSE(world.at(0).take_over(1, *number));
    EXPECT_FALSE(world.at(0).take_over(1, *number + 1));
  }
}

TEST(ShmHandover, WhatNobodyTakesIsClosed) {
  World world(fabric_of_pieces(), 2);
  world.connect();
  const auto mine = files(3);
  const auto before = descriptors_open();
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 100; ++i) {
    numbers.push_back(*world.at(1).hand_over(0, mine));
    EXPECT_FALSE(world.at(0).take_over(1, 0)) << "it looks, and none has that number";
    EXPECT_LE(descriptors_open() - before, std::ptrdiff_t{3 * shm::Handover::most_kept});
  }
  EXPECT_FALSE(world.at(0).take_over(1, numbers.front()));
  EXPECT_EQ(world.at(0).take_over(1, numbers.back())->size(), 3u);
  EXPECT_EQ(descriptors_open(), before);
}

TEST(ShmHandover, AFullSocketIsSaidAndNobodyWaits) {
  World world(fabric_of_pieces(), 2);
  world.connect();
  const auto mine = files(1);
  const auto before = descriptors_open();
  std::uint64_t last = 0;
  int handed = 0;
  while (const auto number = world.at(1).hand_over(0, mine)) {
    last = *number;
    ASSERT_LT(++handed, 100'000);
  }
  EXPECT_GT(handed, 8);
  EXPECT_TRUE(world.at(0).take_over(1, last));
  EXPECT_TRUE(world.at(1).hand_over(0, mine)) << "there is room again";
  world.kill(0);
  EXPECT_TRUE(world.reach([&] { return !world.at(1).hand_over(0, mine); }, "the end of rank 0"));
  EXPECT_LT(descriptors_open(), before);
}

TEST(ShmHandover, NothingStaysOpenOnceTheTwoHaveParted) {
  std::ptrdiff_t before = 0;
  {
    World world(fabric_of_pieces(), 2);
    before = descriptors_open();
  }
  const auto without = descriptors_open();
  const auto mine = files(4);
  {
    World world(fabric_of_pieces(), 2);
    world.connect();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(world.at(1).hand_over(0, mine));
    EXPECT_TRUE(world.at(0).take_over(1, 2));
    const auto now = descriptors_open();
    world.at(0).disconnect(1);
    EXPECT_LT(descriptors_open(), now);
    EXPECT_FALSE(world.at(0).take_over(1, 4));
    EXPECT_FALSE(world.at(0).hand_over(1, mine));
  }
  EXPECT_EQ(descriptors_open(), without + 4);
  EXPECT_LT(without, before);
}

// ---- what makes no sense -------------------------------------------------------------------------------------------

class ShmHandoverOfAnything : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> both{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both.data()), 0);
    here = Descriptor(both[0]);
    peer = Descriptor(both[1]);
  }
  void say(std::vector<std::uint64_t> words, std::size_t descriptors, std::size_t bytes = 24) {
    words.resize(64);
    std::vector<int> fds(descriptors, STDERR_FILENO);
    std::vector<std::byte> control(CMSG_SPACE(fds.size() * sizeof(int)));
    iovec all{words.data(), bytes};
    msghdr message{};
    message.msg_iov = &all;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(peer.fd(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }

  static constexpr std::uint64_t magic = 0x31564f444e414846;
  Descriptor here, peer;
  shm::Handover handover;
};

TEST_F(ShmHandoverOfAnything, IsNonsenseAndLeavesNothingOpen) {
  const auto before = descriptors_open();
  const auto heard = [&](std::vector<std::uint64_t> words, std::size_t descriptors, std::size_t bytes = 24) {
    say(std::move(words), descriptors, bytes);
    const auto result = handover.hear(here.fd());
    handover.clear();
    EXPECT_EQ(descriptors_open(), before);
    return result;
  };
  using Heard = shm::Handover::Heard;
  EXPECT_EQ(heard({magic, 1, 2}, 2), Heard::all);
  EXPECT_EQ(heard({magic + 1, 1, 2}, 2), Heard::nonsense);
  EXPECT_EQ(heard({magic, 0, 2}, 2), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 0}, 0), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 3}, 2), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 1}, 2), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 1}, 0), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 33}, 33), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, ~std::uint64_t{0}}, 2), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 2}, 2, 25), Heard::nonsense);
  EXPECT_EQ(heard({magic, 1, 2}, 2, 8), Heard::nonsense);
  EXPECT_EQ(heard({}, 100, 512), Heard::nonsense);
  peer.close();
  EXPECT_EQ(handover.hear(here.fd()), Heard::ended);
}

TEST_F(ShmHandoverOfAnything, DescriptorsThatThisProcessMayNotHaveAreSaid) {
  const auto hear = [this] {
    say({magic, 7, 8}, 8);
    const Descriptor highest(::dup(STDERR_FILENO));
    tests::no_more_files(static_cast<rlim_t>(highest.fd()) + 3);  // room for some of them
    EXPECT_EQ(handover.hear(here.fd()), shm::Handover::Heard::all);
    const auto taken = handover.take(7);
    EXPECT_TRUE(taken && taken->empty());
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(hear(), testing::ExitedWithCode(0), "");
}

TEST_F(ShmHandoverOfAnything, TheSoftLimitKeepsNoDescriptorOut) {
  say({magic, 7, 8}, 8);
  {
    const tests::NoMoreFilesForNow none;
    EXPECT_EQ(handover.hear(here.fd()), shm::Handover::Heard::all);
  }
  const auto taken = handover.take(7);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->size(), 8u);
}

// The sockets between the two are found among the descriptors of this process.
TEST(ShmHandover, APeerThatSaysSomethingElseIsLost) {
  World world(fabric_of_pieces(), 2);
  world.connect();
  const std::array<std::byte, 10> rubbish{};
  int said = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    int type = 0, listens = 0;
    socklen_t bytes = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET) continue;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens != 0) continue;
    if (::send(fd, rubbish.data(), rubbish.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) ++said;
  }
  ASSERT_EQ(said, 2);
  EXPECT_TRUE(world.reach([&] { return !world.at(0).peer_error(1).ok() && !world.at(1).peer_error(0).ok(); },
                          "the end of both"));
  EXPECT_EQ(world.at(0).peer_error(1).code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace fabring::conformance
