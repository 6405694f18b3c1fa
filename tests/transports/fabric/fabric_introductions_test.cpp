// Ranks that have an endpoint for each peer: what goes wrong before two know each other.

#include <rdma/fi_errno.h>

#include "tests/transports/fabric/fabric_queue.hpp"
#include "transports/fabric/error_text.hpp"

namespace fabring {
namespace {

// Ranks that have an endpoint for each peer open one where there is something to say.
TEST(FabricIntroductions, WhatThisHostIsShortOfIsNoFaultOfThePeerThatIsNext) {
  const std::pair<int, const char*> shortages[] = {
      {-EMFILE, "ulimit -n"}, {-ENFILE, "fs.file-max"}, {-FI_EADDRINUSE, "net.ipv4.ip_local_port_range"}};
  for (const auto& [answer, advice] : shortages) {
    made_up::begin();
    made_up::control().native = true;
    {
      World world(3, "made_up");
      std::vector<std::byte> into(100);
      ASSERT_TRUE(world.receive(0, 1, 1, into, 1));
      made_up::control().answer_to_opening = answer;
      ASSERT_EQ(world[0].endpoint->post_recv(2, 1, into, 2), Post::accepted);
      const Status why = world[0].endpoint->error();
      EXPECT_EQ(why.code(), ErrorCode::unavailable);
      EXPECT_TRUE(holds(why.message(), "fi_endpoint failed") && holds(why.message(), advice)) << why.message();
      ASSERT_TRUE(world.until([&] { return world[0].has(1) && world[0].has(2); }));
      EXPECT_EQ(world[0].outcome(2), Outcome::lost);
      made_up::control().answer_to_opening = 0;
    }
    made_up::gpu().reset();
  }
}

// An address that a peer gives is refused by its name: that is the peer's.
TEST(FabricIntroductions, APeerWhoseAddressIsRefusedIsNotThisHostsShortage) {
  EXPECT_FALSE(fabric::is_lacking_here(fabric::call_failed("fi_av_insert", FI_EADDRNOTAVAIL)));
}

// Ranks that have an endpoint for each peer are introduced to each other by messages that nobody confirms.
TEST(FabricIntroductions, AnAnswerThatIsLostIsGivenAgain) {
  made_up::begin();
  made_up::control().native = true;
  made_up::control().lost_injection = 2;  // the first is the introduction
  {
    World world(2, "made_up");
    std::vector<std::byte> from = pattern(100, 1), into(100);
    ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
    const auto sent = [&] { return world[0].endpoint->post_send(1, 1, from, 2) == Post::accepted; };
    ASSERT_TRUE(world.until(sent, 10s)) << "rank 0 never learns where to send";
    ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
    EXPECT_EQ(into, from);
    EXPECT_GE(made_up::control().injections, 4) << "the introduction and the answer, twice";
  }
  made_up::gpu().reset();
}

}  // namespace
}  // namespace fabring
