// Connections of the control plane that break while both ends live: whatever one rank believes of that, all do.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/runtime/control/control_world.hpp"
#include "tests/support/closed_files.hpp"

namespace fabring {
namespace {

using namespace testing_support;

enum class End { childs, parents };

// This process has both ends of every connection: those that lead to the door of a rank, from its children.
std::vector<int> connections_to(Board& board, Rank parent, End end = End::childs) {
  const auto door = net::SocketAddress::parse(*board.get("control/" + std::to_string(parent), steady_clock::now()));
  std::vector<int> found;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (int fd = 0; fd < static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096)); ++fd) {
    sockaddr_in childs{}, parents{};
    socklen_t length = sizeof childs;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&parents), &length) != 0) continue;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&childs), &length) != 0) continue;
    if (end == End::parents) std::swap(childs, parents);
    if (parents.sin_family == AF_INET && ntohs(parents.sin_port) == door->port) found.push_back(fd);
  }
  return found;
}

// As `ss -K`, or a firewall, does it: both ends find their connection broken.
void reset(int fd) {
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  (void)::syscall(SYS_connect, fd, &nowhere,
                  sizeof nowhere);  // it may be over; a race with its owner, to ThreadSanitizer
}

// A world where each rank says when it has found a parent.
struct BreakingWorld : World {
  explicit BreakingWorld(int size) : World(size) {
    log = Log(LogLevel::info, -1, [this](LogLevel, int, std::string_view line) {
      const std::lock_guard lock(mutex);
      joined += line.find("is this rank's parent on the control plane now") != std::string_view::npos ? 1 : 0;
      changed.notify_all();
    });
  }
  ~BreakingWorld() { planes.clear(); }
  bool has_joined_again(int times = 1) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [&] { return joined >= times; });
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
  // Nothing passes through it any more, and neither end is told. Descriptors to be closed at the end.
  std::vector<int> swallow(Rank parent) {
    const auto ends = connections_to(board, parent);
    EXPECT_EQ(ends.size(), 1u);
    const int copy = static_cast<int>(::syscall(SYS_dup, ends.front()));
    int mute[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, mute), 0);
    EXPECT_EQ(::syscall(SYS_dup3, mute[0], ends.front(), O_CLOEXEC), ends.front());
    ::close(mute[0]);
    return {copy, mute[1]};
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
  StandingStill standing(world.plane(0));
  const auto is_silent = [&](bool silent) {
    const auto end = steady_clock::now() + patience;
    while ((world.plane(1).silent_for(0) > 0ms) != silent && steady_clock::now() < end) std::this_thread::yield();
    return world.plane(1).silent_for(0) > 0ms;
  };
  const int copy = world.break_unnoticed(0);
  EXPECT_TRUE(is_silent(true));
  standing.go_on();
  EXPECT_TRUE(world.has_joined_again());
  EXPECT_FALSE(is_silent(false));
  ::close(copy);
  EXPECT_EQ(world.of(1).count(), 0u);
}

// Both notice, by an end of the stream.
TEST(ControlBreak, WhereBothEndsNoticeNobodyIsLost) {
  BreakingWorld world(10);
  world.start();
  ASSERT_EQ(::shutdown(connections_to(world.board, 1).front(), SHUT_RDWR), 0);
  EXPECT_TRUE(world.has_joined_again());
  world.plane(2).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
  for (Rank rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(1).size(), 1u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>()) << rank;
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

class ResetAt : public testing::TestWithParam<End> {};

// And again and again: each time both are there.
TEST_P(ResetAt, OneEndIsNobodysDeath) {
  BreakingWorld world(10);
  world.start();
  for (int times = 1; times <= 3; ++times) {
    const auto ends = connections_to(world.board, 1, GetParam());
    ASSERT_EQ(ends.size(), 1u);
    reset(ends.front());
    ASSERT_TRUE(world.has_joined_again(times));
  }
  world.plane(9).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
  for (Rank rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(1).size(), 1u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>()) << rank;
  }
  world.kill(9);  // it is watched as before
  for (Rank rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(2).size(), 2u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>{9}) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ResetAt, testing::Values(End::childs, End::parents),
                         [](const auto& row) { return row.param == End::childs ? "TheChild" : "TheParent"; });

// One of them stands still for longer than a visit waits, and is silent to the other until it goes on.
class StandsStill : public testing::TestWithParam<Rank> {};

TEST_P(StandsStill, AndItsConnectionIsResetMeanwhileButItIsNotLost) {
  const Rank still = GetParam();
  BreakingWorld world(2);
  world.options.heartbeat = 20ms;
  world.options.note_silence_after = 1500ms;
  world.config.silence_timeout = patience;
  world.start();
  StandingStill standing(world.plane(still));
  reset(connections_to(world.board, 0).front());
  const auto end = steady_clock::now() + patience;
  const auto is_silent = [&] { return world.plane(1 - still).silent_for(still) > 0ms; };
  while (!is_silent() && world.of(1 - still).count() == 0 && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(is_silent());
  standing.go_on();
  EXPECT_TRUE(world.has_joined_again());
  while (is_silent() && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(is_silent());
  world.each([&](Rank rank) { EXPECT_TRUE(world.plane(rank).leave(patience).ok()) << rank; });
  for (const Rank rank : {0, 1}) EXPECT_EQ(world.of(rank).count(), 0u) << rank;
}

INSTANTIATE_TEST_SUITE_P(Each, StandsStill, testing::Values(0, 1),
                         [](const auto& row) { return row.param == 0 ? "TheParent" : "TheChild"; });

// Some ranks die while connections of others are reset, of those also that the repair makes.
TEST(ControlBreak, AmongResetsThoseWhoStayHearOfTheDeathsAndOfNothingElse) {
  for (const unsigned seed : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, std::random_device{}()}) {
    std::mt19937 random(seed);
    const int size = std::uniform_int_distribution<int>(4, 30)(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(size) + " ranks");
    World world(size);
    world.log = Log(LogLevel::error, -1);
    world.start();
    std::set<Rank> dead;
    for (int turns = 0; turns < 12; ++turns) {
      const Rank rank = std::uniform_int_distribution<Rank>(0, size - 1)(random);
      if (random() % 4 == 0 && dead.size() + 2 < static_cast<std::size_t>(size) && dead.insert(rank).second)
        world.kill(rank);
      for (const Rank parent : {0, 1, 2}) {
        if (parent > (size - 2) / 8) continue;
        const auto ends = connections_to(world.board, parent, random() % 2 == 0 ? End::childs : End::parents);
        if (!ends.empty()) reset(ends[random() % ends.size()]);
      }
    }
    Rank reporter = 0;
    while (dead.contains(reporter)) ++reporter;
    world.plane(reporter).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
    for (Rank rank = 0; rank < size; ++rank) {
      if (dead.contains(rank)) continue;
      std::set<Rank> lost;
      for (const Failure& failure : world.of(rank).wait_for(dead.size() + 1))
        if (failure.communicator == 0) lost.insert(failure.culprit);
      EXPECT_EQ(lost, dead) << "rank " << rank;
    }
  }
}

// Its host has gone with its kernel after the reset, or nothing gets there any more.
TEST(ControlBreak, WhoDoesNotAnswerAfterwardsIsGivenUpAfterTheSilenceThatIsAllowed) {
  BreakingWorld world(2);
  world.log = Log(LogLevel::error, -1);
  world.options.heartbeat = 20ms;
  world.options.note_silence_after = 500ms;
  world.config.silence_timeout = 3s;
  world.start();
  StandingStill standing(world.plane(1));
  const auto since = steady_clock::now();
  reset(connections_to(world.board, 0).front());
  const auto failure = world.of(0).first();
  EXPECT_GE(steady_clock::now() - since, 2s);
  standing.go_on();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->culprit, 1);
  EXPECT_THAT(failure->text, testing::HasSubstr("has been silent for 3 s (FABRING_SILENCE_TIMEOUT)"));
  EXPECT_FALSE(failure->ended);
}

// A container that has ended takes its address along: its kernel closed the connection, and refuses nothing any more.
TEST(ControlBreak, WhoseConnectionWasClosedAndWhoDoesNotAnswerHasEnded) {
  BreakingWorld world(2);
  world.log = Log(LogLevel::error, -1);
  world.config.silence_timeout = patience;
  world.start();
  StandingStill standing(world.plane(1));
  ASSERT_EQ(::shutdown(connections_to(world.board, 0).front(), SHUT_RDWR), 0);
  const auto failure = world.of(0).first();
  standing.go_on();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->culprit, 1);
  EXPECT_THAT(failure->text, testing::HasSubstr("died: its control connection closed without a goodbye"));
}

// The kernel would send again when the pause that it makes is over, which may be after the silence that is allowed.
TEST(ControlBreak, AChildMakesANewConnectionWhereNothingPassesThroughTheOld) {
  BreakingWorld world(10);
  world.options.heartbeat = 100ms;
  world.options.note_silence_after = 500ms;
  world.config.silence_timeout = 10s;
  world.start();
  const auto swallowed = world.swallow(1);
  EXPECT_TRUE(world.has_joined_again());
  world.plane(9).report({ErrorCode::aborted, -1, -1, 7, "heard by all"});
  for (Rank rank = 0; rank < 10; ++rank) {
    EXPECT_EQ(world.of(rank).wait_for(1).size(), 1u) << rank;
    EXPECT_EQ(world.lost_to(rank), std::set<Rank>()) << rank;
  }
  for (const int fd : swallowed) ::close(fd);
}

}  // namespace
}  // namespace fabring
