// How rank 0 is found, and its port: each wrong setting ends with one clear error on every rank, in bounded time.

#include "runtime/bootstrap/rendezvous.hpp"

#include <gmock/gmock.h>
#include <sched.h>

#include "runtime/bootstrap/launch_environment.hpp"
#include "runtime/bootstrap/master_search.hpp"
#include "tests/runtime/bootstrap/meeting_world.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The resolver would be asked for such a name until the deadline.
TEST_F(RendezvousError, AMasterAddressWithAPortOrASchemeIsRefusedAtOnce) {
  for (const char* address : {"127.0.0.1:3000", "http://127.0.0.1", "[::1]", "node1:29500", "node1 node2"}) {
    Meeting meeting(2);
    meeting.base.master_addr = address;
    for (const Status& end : meeting.run_all()) {
      EXPECT_EQ(end.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(end.message(), AllOf(HasSubstr(address), HasSubstr("the port goes into FABRING_MASTER_PORT")));
    }
  }
}

TEST_F(RendezvousError, APortInUseIsNamed) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 300ms;
  net::Loop loop;
  auto holder = net::Listener::open(
      loop, {meeting.base.master_addr, static_cast<std::uint16_t>(meeting.base.master_port)}, [](auto) {});
  ASSERT_TRUE(holder.has_value());
  const auto ends = meeting.run({0});
  EXPECT_EQ(ends[0].code(), ErrorCode::unavailable);
  EXPECT_THAT(ends[0].message(), HasSubstr((*holder)->address().to_string()));
}

// Ranks that go there by the same name would meet whoever holds it.
TEST_F(RendezvousError, APortInUseAtOneOfTheMastersAddressesIsNamed) {
  Meeting meeting(2);
  net::Loop loop;
  auto holder = net::Listener::open(
      loop, {own_loopback_address(1), static_cast<std::uint16_t>(meeting.base.master_port)}, [](auto) {});
  ASSERT_TRUE(holder.has_value());
  for (const unsigned first : {0U, 1U}) {
    const auto server = meeting.serve({own_loopback_address(first), own_loopback_address(1 - first)});
    ASSERT_FALSE(server.has_value());
    EXPECT_EQ(server.error().code(), ErrorCode::unavailable);
    EXPECT_THAT(server.error().message(), HasSubstr((*holder)->address().to_string()));
  }
}

TEST_F(RendezvousError, AnAddressThatThisHostHasNoMoreIsPassedOver) {
  Meeting meeting(2);
  auto server = meeting.serve({"192.0.2.1", meeting.base.master_addr});
  ASSERT_TRUE(server.has_value()) << server.error().to_string();
  EXPECT_EQ(meeting.notes.count("192.0.2.1"), 1);
  EXPECT_TRUE(meeting.run({1})[0].ok());
  EXPECT_TRUE((*server)->wait_for_all().ok());
  EXPECT_FALSE(meeting.serve({"192.0.2.1"}).has_value());
}

TEST_F(RendezvousError, AMasterAddressThatIsNotOursIsRefusedOnRank0) {
  Meeting meeting(2);
  meeting.base.master_addr = "192.0.2.1";  // reserved for documentation
  const auto ends = meeting.run({0});
  EXPECT_EQ(ends[0].code(), ErrorCode::unavailable);
  EXPECT_THAT(ends[0].message(), AllOf(HasSubstr("192.0.2.1 is no address of this host"), HasSubstr("rank 0")));
}

TEST_F(RendezvousError, ANameThatDoesNotResolveIsNamed) {
  Meeting meeting(2);
  meeting.base.master_addr = "no-such-host.invalid";
  meeting.base.rendezvous_timeout = 300ms;
  for (const Status& end : meeting.run_all()) {
    EXPECT_EQ(end.code(), ErrorCode::unavailable) << end.to_string();
    EXPECT_THAT(end.message(), HasSubstr("FABRING_MASTER_ADDR 'no-such-host.invalid' did not resolve for"));
  }
}

TEST_F(RendezvousError, WhatNamedTheMasterIsNamed) {
  Meeting meeting(2);
  meeting.base.master_addr = "no-such-host.invalid";
  meeting.base.master_named_by = "MASTER_ADDR";
  meeting.base.rendezvous_timeout = 300ms;
  for (const Status& end : meeting.run_all())
    EXPECT_THAT(end.message(), AllOf(HasSubstr("MASTER_ADDR 'no-such-host.invalid' did not"),
                                     Not(HasSubstr("FABRING_MASTER_ADDR '"))));
}

TEST_F(RendezvousError, WithoutLoopbackBothRanksSaySoAtOnce) {
  const auto in_a_namespace_of_its_own = [](const Config& config, Status& end) {
    if (::unshare(CLONE_NEWNET) != 0) return;  // nobody but root may; its loopback interface is down
    auto meeting = rendezvous(config, "", Log());
    end = meeting ? Status() : meeting.error();
  };
  for (int rank : {0, 1}) {
    Meeting meeting(2);
    meeting.base.rank = rank;
    Status end(ErrorCode::unsupported, "no namespace");
    std::thread(in_a_namespace_of_its_own, meeting.base, std::ref(end)).join();
    if (end.code() == ErrorCode::unsupported) GTEST_SKIP() << "may not make a network namespace";
    EXPECT_EQ(end.code(), ErrorCode::unavailable) << end.to_string();
    EXPECT_THAT(end.message(), HasSubstr("loopback interface is down"));
  }
}

TEST_F(RendezvousError, AnAbsentRank0IsNamedWithAddressAndReason) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 1s;
  const auto ends = meeting.run({1});
  EXPECT_EQ(ends[0].code(), ErrorCode::timeout);
  EXPECT_THAT(ends[0].message(), AllOf(HasSubstr("rank 1 did not find rank 0"), HasSubstr(meeting.base.master_addr),
                                       HasSubstr("refused"), HasSubstr("means this rank's own host")));
}

// As one that dies between the handshake and the meeting, again and again.
TEST_F(RendezvousError, ARankZeroThatLetsGoWhoComesIsNotTakenForANameThatDoesNotResolve) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 1s;
  meeting.options.note_interval = 1ms;
  net::Loop loop;
  std::vector<std::shared_ptr<void>> shakes;
  int visits = 0;
  const net::SocketAddress address{meeting.base.master_addr, static_cast<std::uint16_t>(meeting.base.master_port)};
  auto door = net::Listener::open(loop, address, [&](std::unique_ptr<net::Stream> visitor) {
    ++visits;
    shakes.push_back(handshake(loop, std::move(visitor), search_of(meeting.base, 0).greeting, [](HandshakeResult) {}));
  });
  ASSERT_TRUE(door.has_value()) << door.error().to_string();
  std::atomic<bool> over = false;
  std::thread thread([&] {
    while (!over) loop.run_for(10ms);
  });
  const Status end = meeting.run({1})[0];
  over = true;
  thread.join();
  EXPECT_GT(visits, 1);
  EXPECT_EQ(end.code(), ErrorCode::timeout);
  EXPECT_THAT(end.message(), AllOf(HasSubstr(address.to_string() + " answers, and has let rank 1 go"),
                                   Not(HasSubstr("did not resolve"))));
  EXPECT_GT(meeting.notes.count("warning: rank 0 at " + address.to_string() + " answers"), 0);
  EXPECT_EQ(meeting.notes.count("did not resolve"), 0);
}

TEST_F(RendezvousError, WhereNoPortWasGivenItIsTheOneThatTheEnvironmentWouldHave) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 300ms;
  meeting.base.master_port = 0;
  const auto ends = meeting.run({1});
  EXPECT_THAT(ends[0].message(), HasSubstr(std::to_string(default_master_port)));
}

}  // namespace
}  // namespace fabring
