// Connections and listeners of a process that forks.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/base/net_fixture.hpp"
#include "tests/support/forked_child.hpp"

namespace fabring::net {
namespace {

bool ended_well(pid_t child) {
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(Stream, ItsEndIsSeenThoughAForkedChildHasACopyOfIt) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  const ForkedChild child;
  ASSERT_TRUE(child.started());
  const SocketAddress door = pair.listener->address();
  pair.server.reset();
  char byte = 0;
  ASSERT_TRUE(reach(loop, [&] { return pair.client->read(&byte, 1).state == Io::closed; }));
  pair.listener.reset();
  Status refused;
  const auto guard = connect(loop, door, patience, [&](Result<std::unique_ptr<Stream>> r) {
    refused = r ? Status(ErrorCode::internal, "somebody still takes callers in") : r.error();
  });
  ASSERT_TRUE(reach(loop, [&] { return !refused.ok(); }));
  EXPECT_TRUE(nobody_listens(refused)) << refused.to_string();
}

// As its destructors do when it returns from main().
TEST(Stream, AForkedChildEndsNothingOfItsParents) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  const pid_t child = fork_unheard();
  if (child == 0) {
    pair.server->close();
    ::_exit(0);
  }
  ASSERT_TRUE(ended_well(child));
  char byte = 1;
  EXPECT_EQ(pair.client->read(&byte, 1).state, Io::again);
  EXPECT_EQ(pair.server->write(&byte, 1).state, Io::done);
}

TEST(Stream, AForkedChildKeepsNoConnectionOfItsParentsAndNoDoor) {
  Loop loop;
  Pair pair(loop);
  ASSERT_TRUE(pair.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool has_none =
        pair.server->local().host.empty() && pair.client->local().host.empty() && pair.listener->address().host.empty();
    pair.server->close();
    pair.client->close();
    ::_exit(has_none ? 0 : 1);
  }
  ASSERT_TRUE(ended_well(child));
  char byte = 1;
  EXPECT_EQ(pair.client->write(&byte, 1).state, Io::done);
  EXPECT_TRUE(reach(loop, [&] { return pair.server->read(&byte, 1).state == Io::done; }));
  EXPECT_FALSE(pair.listener->address().host.empty());
}

}  // namespace
}  // namespace fabring::net
