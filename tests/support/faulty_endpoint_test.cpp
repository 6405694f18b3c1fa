// The endpoint that breaks other endpoints for the tests.
#include "tests/support/faulty_endpoint.hpp"

#include <map>

#include "tests/transports/conformance/world.hpp"
#include "tests/transports/tcp/tcp_bench.hpp"

namespace fabring {
namespace {

using conformance::Bytes;

TEST(FaultyEndpoint, DiesAfterItsPostsAndItsContextsStillComplete) {
  auto inner = make_tcp_transport()->open(options_of(1));
  ASSERT_TRUE(inner);
  FaultyEndpoint endpoint(std::move(*inner), {.hold_back = 0.5, .reorder = true, .kill_after_posts = 3});
  Bytes into(10);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(endpoint.killed(), i > 3);
    ASSERT_EQ(endpoint.post_recv(0, static_cast<Slot>(i), into, i), Post::accepted);
  }
  std::map<std::uint64_t, int> seen;
  for (int polls = 0; polls < 1000; ++polls) {
    Completion completions[2];
    const std::size_t count = endpoint.poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].outcome, Outcome::aborted);
      ++seen[completions[i].context];
    }
  }
  EXPECT_EQ(seen, (std::map<std::uint64_t, int>{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
}

}  // namespace
}  // namespace fabring
