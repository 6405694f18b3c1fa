// Connections of the control plane that break while both ends live: whatever one rank believes of that, all do.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <future>
#include <set>

#include "tests/runtime/control/control_world.hpp"
#include "tests/support/closed_files.hpp"

namespace fabring {
namespace {

using namespace testing_support;

// This process has both ends of every connection: those that lead to the door of a rank, from its children.
std::vector<int> connections_to(Board& board, Rank parent) {
  const auto door = net::SocketAddress::parse(*board.get("control/" + std::to_string(parent), steady_clock::now()));
  std::vector<int> found;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (int fd = 0; fd < static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096)); ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_family == AF_INET &&
        ntohs(peer.sin_port) == door->port)
      found.push_back(fd);
  }
  return found;
}

// A world where each rank says when it has found a parent.
struct BreakingWorld : World {
  explicit BreakingWorld(int size) : World(size) {
    log = Log(LogLevel::info, -1, [this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex);
      joined += line.find("is this rank's parent on the control plane now") != std::string_view::npos ? 1 : 0;
      changed.notify_all();
    });
  }
  ~BreakingWorld() { planes.clear(); }
  bool has_joined_again() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [&] { return joined > 0; });
  }
  // The child finds a socket that has ended in place of its own; its parent hears nothing as long as the copy is open.
  int break_unnoticed(Rank parent) {
    const auto ends = connections_to(board, parent);
    EXPECT_EQ(ends.size(), 1u);
    // Not dup(): to ThreadSanitizer this would be a race with the thread that has the descriptor and closes it later.
    const int copy = static_cast<int>(::syscall(SYS_dup, ends.front()));
    int ended[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ended), 0);
    ::close(ended[1]);
    EXPECT_EQ(::syscall(SYS_dup3, ended[0], ends.front(), O_CLOEXEC), ends.front());
    ::close(ended[0]);
    // It is woken to look there.
    EXPECT_EQ(::syscall(SYS_shutdown, copy, SHUT_RD), 0);
    return copy;
  }
  std::set<Rank> lost_to(Rank rank) {
    std::set<Rank> lost;
    for (const Failure& failure : of(rank).wait_for(0))
      if (failure.communicator == 0) lost.insert(failure.culprit);
    return lost;
  }
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
};

TEST(ControlBreak, AParentThatDidNotNoticeTakesItsChildBackAndNobodyIsLost) {
  BreakingWorld world(10);
  world.start();
  const int copy = world.break_unnoticed(1);
  EXPECT_TRUE(world.has_joined_again());
  world.plane(2).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
  world.plane(9).report({ErrorCode::aborted, -1, -1, 8, "heard by all"});
  for (Rank rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(2).size(), 2u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>()) << rank;
  }
  ::close(copy);
  // It is a link like any other: who says goodbye over it has left, and who dies is lost.
  world.kill(9);
  for (Rank rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(3).size(), 3u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>{9}) << rank;
  }
}

// Rank 1 has nobody but rank 0 to ask.
TEST(ControlBreak, OfThePairOfWhichOneHasNoOtherParentNeitherIsLost) {
  BreakingWorld world(2);
  world.start();
  const int copy = world.break_unnoticed(0);
  EXPECT_TRUE(world.has_joined_again());
  ::close(copy);
  world.each([&](Rank rank) { EXPECT_TRUE(world.plane(rank).leave(patience).ok()) << rank; });
  for (const Rank rank : {0, 1}) EXPECT_EQ(world.of(rank).count(), 0u);
}

// It stands still, and the connection breaks meanwhile.
TEST(ControlBreak, AParentThatWasSilentIsNotAnyMoreWhenItTakesItsChildBack) {
  BreakingWorld world(2);
  world.options.heartbeat = 20ms;
  world.options.note_silence_after = 200ms;
  world.start();
  std::promise<void> go_on;
  world.plane(0).after(0ms, [until = go_on.get_future().share()] { until.wait(); });
  const auto is_silent = [&](bool silent) {
    const auto end = steady_clock::now() + patience;
    while ((world.plane(1).silent_for(0) > 0ms) != silent && steady_clock::now() < end) std::this_thread::yield();
    return world.plane(1).silent_for(0) > 0ms;
  };
  EXPECT_TRUE(is_silent(true));
  const int copy = world.break_unnoticed(0);
  go_on.set_value();
  EXPECT_TRUE(world.has_joined_again());
  EXPECT_FALSE(is_silent(false));
  ::close(copy);
  EXPECT_EQ(world.of(1).count(), 0u);
}

// Both notice: the child is given up unless it is back before that, and never the parent.
TEST(ControlBreak, WhereBothNoticeTheParentDecidesAndTheChildBelievesIt) {
  BreakingWorld world(10);
  world.start();
  ASSERT_EQ(::shutdown(connections_to(world.board, 1).front(), SHUT_RDWR), 0);
  const auto end = steady_clock::now() + patience;
  while (world.of(9).count() == 0 && steady_clock::now() < end) {
    const std::lock_guard lock(world.mutex);
    if (world.joined > 0) break;
  }
  const std::set<Rank> lost = world.lost_to(9);
  EXPECT_TRUE(lost.empty() || lost == std::set<Rank>{9}) << "of rank 1 it is not said that it is dead";
  world.plane(2).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
  for (Rank rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(lost.size() + 1).size(), lost.size() + 1) << rank;
    EXPECT_EQ(world.lost_to(rank), lost) << rank;
  }
}

// Nothing is heard of that by the loop: it waits for nothing and runs no timer any more.
void close_under_the_planes() {
  World world(2);
  world.start();
  tests::close_all_files();
  for (const Rank rank : {0, 1}) {
    auto failure = world.of(rank).first();  // it may have seen the other one's end while it still had its own
    if (failure && failure->culprit != rank) failure = world.of(rank).wait_for(2).back();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->culprit, rank) << failure->text;
    EXPECT_THAT(failure->text, testing::HasSubstr("has closed the descriptors"));
  }
  world.planes.clear();
}

TEST(ControlBreak, WhoseProgramClosesItsDescriptorsIsAtFaultAndItsThreadEnds) {
  EXPECT_EXIT((close_under_the_planes(), ::_exit(testing::Test::HasFailure() ? 1 : 0)), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fabring
