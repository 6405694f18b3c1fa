#include "runtime/base/close_on_fork.hpp"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <vector>

#include "runtime/base/descriptor.hpp"
#include "tests/support/forked_child.hpp"

namespace fabring {
namespace {

ino_t inode(int fd) {
  struct stat file {};
  return ::fstat(fd, &file) == 0 ? file.st_ino : 0;
}

bool is_at_its_end(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/// A child lets go of its copies a moment after the fork.
bool comes_to_its_end(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, 60'000) == 1 && is_at_its_end(fd);
}

/// Two ends, of which children are not to have the first.
struct Ends {
  Ends() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    first = Descriptor::not_for_children(ends[0]);
    second = Descriptor(ends[1]);
  }
  Descriptor first, second;
};

bool in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(CloseOnFork, EndsAreSeenThoughAChildLives) {
  Ends ends;
  const ForkedChild child(ForkedChild::Copies::of_all_but_ours);
  ASSERT_TRUE(child.started());
  EXPECT_FALSE(is_at_its_end(ends.second.fd()));
  ends.first.close();  // and not hang_up(), which ends it for children too
  EXPECT_TRUE(comes_to_its_end(ends.second.fd()));
}

TEST(CloseOnFork, WhatAChildDoesToTheNumberNobodySees) {
  Ends ends;
  const int number = ends.first.fd();
  EXPECT_TRUE(in_child([&] {
    const Descriptor own(::eventfd(0, EFD_CLOEXEC));
    const bool taken = ::fcntl(number, F_GETFD) == FD_CLOEXEC && own.fd() != number;
    char byte = 1;
    const bool connected = ::send(number, &byte, 1, MSG_NOSIGNAL) >= 0 || ::recv(number, &byte, 1, 0) >= 0;
    ends.first.hang_up();
    return taken && !connected && ::fcntl(own.fd(), F_GETFD) >= 0;
  }));
  EXPECT_FALSE(is_at_its_end(ends.second.fd()));
  EXPECT_EQ(::send(ends.first.fd(), "1", 1, MSG_NOSIGNAL), 1);
}

TEST(CloseOnFork, AChildHasItsOwnWhichItsChildrenDoNotKeep) {
  Ends of_parent;
  EXPECT_TRUE(in_child([&] {
    of_parent.first.close();
    const Ends ends;  // the first at the same number
    const ino_t own = inode(ends.first.fd());
    return in_child([&] { return inode(ends.first.fd()) != own; }) && inode(ends.first.fd()) == own &&
           ::send(ends.first.fd(), "1", 1, MSG_NOSIGNAL) == 1;
  }));
}

TEST(CloseOnFork, AFileThatHasTheNumberNowIsTheChilds) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  close_on_fork::add(ends[0]);
  const Descriptor other(ends[1]);
  // Closed without remove(), as by a program that closes what it does not know; the number is another socket's now.
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::dup2(socket.fd(), ends[0]), ends[0]);
  const ino_t now = inode(ends[0]);
  EXPECT_TRUE(in_child([&] { return inode(ends[0]) == now; }));
  close_on_fork::remove(ends[0]);
  ::close(ends[0]);
}

TEST(CloseOnFork, WhatWasRemovedOrIsNoSocketStays) {
  Ends ends;
  close_on_fork::remove(ends.first.fd());
  const Descriptor event = Descriptor::not_for_children(::eventfd(0, EFD_CLOEXEC));
  const ino_t socket = inode(ends.first.fd());
  EXPECT_TRUE(in_child([&] {
    const std::uint64_t one = 1;
    return inode(ends.first.fd()) == socket && ::write(event.fd(), &one, sizeof one) == sizeof one;
  }));
}

TEST(CloseOnFork, NumbersThatItDoesNotRememberAreNothing) {
  for (const int number : {-1, 65536, 1 << 30}) {
    errno = EMFILE;
    close_on_fork::add(number);
    EXPECT_EQ(errno, EMFILE) << "who could not open one looks at it";
    close_on_fork::remove(number);
  }
}

TEST(CloseOnFork, AlsoWhereNoFileCanBeOpened) {
  std::vector<Ends> ours(4);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{static_cast<rlim_t>(ours.back().second.fd()) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<Descriptor> others;
  do others.emplace_back(::eventfd(0, EFD_CLOEXEC));
  while (others.back().fd() >= 0);
  std::vector<ino_t> inodes;
  for (const Ends& each : ours) inodes.push_back(inode(each.first.fd()));
  EXPECT_TRUE(in_child([&] {
    if (::eventfd(0, EFD_CLOEXEC) >= 0) return false;  // a number would be free
    for (std::size_t i = 0; i < ours.size(); ++i)
      if (inode(ours[i].first.fd()) == inodes[i]) return false;
    return true;
  }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace fabring
