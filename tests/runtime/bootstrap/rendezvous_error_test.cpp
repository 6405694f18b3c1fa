// Ranks that cannot meet: each wrong setting ends with one clear error on every rank, in bounded time.

#include "runtime/bootstrap/rendezvous.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>

#include "runtime/base/frame_stream.hpp"
#include "runtime/base/hello.hpp"
#include "runtime/bootstrap/launch_environment.hpp"
#include "runtime/bootstrap/master_search.hpp"
#include "runtime/bootstrap/meeting_client.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"
#include "tests/runtime/bootstrap/meeting_world.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Where the rank `self` finds rank 0.
MasterSearch search_of(const Config& config, Rank self) {
  HandshakeOptions greeting;
  greeting.purpose = Purpose::rendezvous;
  greeting.job_id = config.job_id;
  greeting.self = self;
  greeting.world_size = config.world_size;
  const auto now = steady_clock::now();
  return {
      config.master_addr, config.master_named_by, static_cast<std::uint16_t>(config.master_port), false, greeting, now,
      now + patience};
}

class RendezvousError : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_LT(steady_clock::now() - begin_, patience / 2) << "an error took until the deadline";
  }
  const steady_clock::time_point begin_ = steady_clock::now();
};

TEST_F(RendezvousError, MissingRanksAreNamedOnEveryRankThatCame) {
  Meeting meeting(8);
  meeting.base.rendezvous_timeout = 2s;
  for (const Status& end : meeting.run({0, 1, 2, 4, 6, 7})) {
    EXPECT_EQ(end.code(), ErrorCode::timeout);
    EXPECT_THAT(end.message(), AllOf(HasSubstr("waited 2 s for ranks 3 and 5 of 8 (6 came)"),
                                     HasSubstr("which ranks on other hosts cannot reach")));
  }
}

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

TEST_F(RendezvousError, ARankThatComesTwiceIsNamedWithBothProcesses) {
  Meeting meeting(4);
  for (const Status& end : meeting.run({0, 1, 2, 2})) {
    EXPECT_EQ(end.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(end.message(),
                testing::ContainsRegex("rank 2 came twice: rank 2 .host .*, pid [0-9]+, 127[.0-9:]+. and "
                                       "rank 2 .host .*, pid [0-9]+, 127[.0-9:]+.; .*FABRING_RANK"));
    EXPECT_THAT(end.message(), HasSubstr("of two jobs, give each job its own FABRING_MASTER_PORT or FABRING_JOB_ID"));
  }
}

// As pods of one template. Rank 0 stays for those who have not heard: here for rank 2.
TEST_F(RendezvousError, AThirdProcessOfARankHearsThatItCameTwiceToo) {
  Meeting meeting(3);
  meeting.options.farewell_limit = patience;
  std::thread serving([&] { EXPECT_EQ(meeting.run({0})[0].code(), ErrorCode::invalid_argument); });
  for (const Status& end : meeting.run({1, 1})) EXPECT_THAT(end.message(), HasSubstr("rank 1 came twice"));
  MasterSearch search = search_of(meeting.base, 1);
  search.deadline = search.started + 5s;
  const auto third = MeetingClient::meet(search, meeting::Join{"f", "host x", 4711}, Log());
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(third.error().message(), HasSubstr("rank 1 came twice"));
  EXPECT_FALSE(meeting.run({2})[0].ok());
  serving.join();
}

TEST_F(RendezvousError, ASecondRankZeroAtAnOwnPortIsToldWhatTwoJobsNeed) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 1s;
  std::vector<std::string> taken;
  for (const Status& end : meeting.run({0, 0}))  // the other waits for its rank 1
    if (end.code() == ErrorCode::unavailable) taken.push_back(end.message());
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_THAT(taken[0], AllOf(HasSubstr("cannot listen on"), HasSubstr("two processes have FABRING_RANK=0"),
                              HasSubstr("another job's, give each job its own FABRING_MASTER_PORT, on all its ranks")));
}

// On ports that are somebody else's the second rank 0 would take the next one, and both would wait for ever.
TEST_F(RendezvousError, TwoRanksZeroOnASharedPortFindEachOther) {
  Meeting meeting(3);
  meeting.base.master_port_shared = true;
  for (const Status& end : meeting.run({0, 0, 1})) {
    EXPECT_EQ(end.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(end.message(), AllOf(HasSubstr("rank 0 came twice"), HasSubstr("FABRING_RANK")));
    EXPECT_EQ(end.context().rank, 0);
    EXPECT_NE(end.context().host, "");
  }
}

TEST_F(RendezvousError, AnotherWorldSizeEndsItForAll) {
  Meeting meeting(3);
  meeting.change = [](int process, Config& config, std::string&) {
    if (process == 2) config.world_size = 4;
  };
  const auto ends = meeting.run_all();
  for (const Status& end : ends) {
    EXPECT_EQ(end.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(end.message(), AllOf(HasSubstr("set the same FABRING_WORLD_SIZE on all ranks"),
                                     HasSubstr("of two jobs, give each job its own FABRING_MASTER_PORT")));
  }
  EXPECT_EQ(ends[0].message(), ends[1].message());
  EXPECT_THAT(ends[1].message(), AllOf(HasSubstr("rank 2 at 127."), HasSubstr("there are 4 ranks")));
  for (int rank : {0, 1}) {
    EXPECT_EQ(ends[rank].context().rank, 2);
    EXPECT_THAT(ends[rank].context().host, testing::StartsWith("127."));
  }
  EXPECT_EQ(ends[2].context().rank, 0);
}

TEST_F(RendezvousError, ARankBeyondTheWorldEndsItForAll) {
  Meeting meeting(3);
  meeting.change = [](int process, Config& config, std::string&) {
    if (process == 2) config.world_size = 9, config.rank = 8;
  };
  for (const Status& end : meeting.run_all()) EXPECT_EQ(end.code(), ErrorCode::invalid_argument) << end.to_string();
}

TEST_F(RendezvousError, ARankOfAnotherJobIsNamedWhenTimeIsUp) {
  Meeting meeting(3);
  meeting.base.rendezvous_timeout = 2s;
  meeting.change = [](int process, Config& config, std::string&) {
    if (process == 1) config.job_id = "b";
  };
  const auto ends = meeting.run_all();
  for (const Status& end : ends) EXPECT_THAT(end.message(), HasSubstr("FABRING_JOB_ID differs")) << end.to_string();
  EXPECT_EQ(ends[1].code(), ErrorCode::mismatch) << "it need not wait";
  for (int rank : {0, 2}) {
    EXPECT_EQ(ends[rank].code(), ErrorCode::timeout);
    EXPECT_THAT(ends[rank].message(), HasSubstr("waited 2 s for rank 1 of 3"));
  }
}

// However long that one takes: here until both ranks have been told twice, of which the second time is after any
// verdict.
TEST_F(RendezvousError, AVisitorOfAnotherJobIsNotTakenForTheRankThatIsLate) {
  Meeting meeting(3);
  meeting.options.verdict_delay = 1ms;
  meeting.options.note_interval = 50ms;
  meeting.change = [&](int process, Config& config, std::string&) {
    if (process == 2) config.job_id = "b";
    if (process == 2) meeting.notes.wait("for rank 2 of 3 (2 came)");
    if (process == 3) meeting.notes.wait("now; turned away: rank 2 at", 3);
  };
  const auto ends = meeting.run({0, 1, 2, 2});
  EXPECT_EQ(ends[2].code(), ErrorCode::mismatch) << ends[2].to_string();
  for (int process : {0, 1, 3}) EXPECT_TRUE(ends[process].ok()) << ends[process].to_string();
}

// A visitor of another version comes, and our rank 1 long after it.
void expect_another_version_to_end_nothing(Meeting& meeting) {
  meeting.options.verdict_delay = 1ms;
  meeting.options.note_interval = 50ms;
  net::Loop loop;
  std::unique_ptr<net::Stream> visitor;
  meeting.change = [&](int process, Config& config, std::string&) {
    if (process == 0) return;
    const auto end = steady_clock::now() + patience;
    while (!visitor && steady_clock::now() < end) {
      bool answered = false;
      auto guard = net::connect(loop, {config.master_addr, static_cast<std::uint16_t>(config.master_port)}, patience,
                                [&](auto result) {
                                  answered = true;
                                  if (result) visitor = std::move(*result);
                                });
      while (!answered) loop.run_for(100ms);
    }
    Hello other;
    other.version = wire_version + 1;
    const std::string bytes = encode(other);
    visitor->write(bytes.data(), bytes.size());
    EXPECT_TRUE(meeting.notes.wait("now; turned away: the peer at", 2)) << "the second is after any verdict";
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

// Nothing is proven of it, and any job's ranks may knock at the wrong door.
TEST_F(RendezvousError, WithASecretAVisitorOfAnotherVersionDoesNotEndOurs) {
  Meeting meeting(2);
  meeting.secret = "a secret of sufficient length";
  expect_another_version_to_end_nothing(meeting);
}

// Its ranks try our ports again and again.
TEST_F(RendezvousError, OnSharedPortsAVisitorOfAnotherVersionDoesNotEndOurs) {
  Meeting meeting(2);
  meeting.base.master_port_shared = true;
  expect_another_version_to_end_nothing(meeting);
  EXPECT_EQ(meeting.notes.count("warning: turned a visitor"), 0);
}

TEST_F(RendezvousError, AVisitorOfAnotherJobDoesNotEndOurs) {
  Meeting meeting(2);
  meeting.change = [&](int process, Config& config, std::string&) {
    if (process == 2) config.job_id = "b";
    if (process != 1) return;
    const auto end = steady_clock::now() + patience;
    while (meeting.notes.count("turned a visitor") == 0 && steady_clock::now() < end) std::this_thread::yield();
  };
  const auto ends = meeting.run({0, 1, 1});
  EXPECT_TRUE(ends[0].ok()) << ends[0].to_string();
  EXPECT_TRUE(ends[1].ok()) << ends[1].to_string();
  EXPECT_EQ(ends[2].code(), ErrorCode::mismatch);
}

// Nothing is proven of it, so it ends at once, and the others name it when time is up.
TEST_F(RendezvousError, ARankWithAnotherSecretOrNoneIsNamedWhenTimeIsUp) {
  for (const std::string wrong : {"", "another secret of some length"}) {
    const std::string what = wrong.empty() ? "set FABRING_SECRET_FILE on all ranks or on none"
                                           : "FABRING_SECRET_FILE must hold the same bytes";
    Meeting meeting(3);
    meeting.base.rendezvous_timeout = 2s;
    meeting.secret = "a secret of sufficient length";
    meeting.change = [&](int process, Config& config, std::string& secret) {
      if (process == 2) secret = wrong, config.rendezvous_timeout = patience;
    };
    const auto ends = meeting.run_all();
    EXPECT_EQ(ends[2].code(), ErrorCode::mismatch) << "it need not wait";
    EXPECT_THAT(ends[2].message(), HasSubstr(what));
    for (int rank : {0, 1}) {
      EXPECT_EQ(ends[rank].code(), ErrorCode::mismatch) << ends[rank].to_string();
      EXPECT_THAT(ends[rank].message(), AllOf(HasSubstr("waited 2 s for rank 2 of 3"), HasSubstr(what)));
    }
  }
}

// A stranger, or a rank of another job at the same port.
TEST_F(RendezvousError, AVisitorWithoutTheSecretIsNotTakenForTheRankThatIsLate) {
  Meeting meeting(3);
  meeting.secret = "a secret of sufficient length";
  meeting.options.verdict_delay = 1ms;
  meeting.options.note_interval = 50ms;
  meeting.change = [&](int process, Config&, std::string& secret) {
    if (process == 2) secret.clear();
    if (process == 2) meeting.notes.wait("for rank 2 of 3 (2 came)");
    if (process == 3) meeting.notes.wait("now; turned away: rank 2 at", 3);
  };
  const auto ends = meeting.run({0, 1, 2, 2});
  EXPECT_EQ(ends[2].code(), ErrorCode::mismatch) << ends[2].to_string();
  for (int process : {0, 1, 3}) EXPECT_TRUE(ends[process].ok()) << ends[process].to_string();
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

// Rank `self` up to a point, then its connection closes as the kernel closes that of a killed process.
void come_and_die(const Config& config, Rank self, bool after_welcome) {
  net::Loop loop;
  const MasterSearch search = search_of(config, self);
  auto found = find_master(loop, search, Log());
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  bool welcome = false;
  auto link = FrameStream::open(loop, std::move(found->stream), meeting::most_payload_bytes,
                                {[&](std::uint8_t type, std::string_view) {
                                   welcome = welcome || type == static_cast<std::uint8_t>(meeting::Message::welcome);
                                   return true;
                                 },
                                 [](const std::string&) {}});
  link->send(static_cast<std::uint8_t>(meeting::Message::join), meeting::encode(meeting::Join{"f", "host x", 4711}));
  while ((link->queued_bytes() > 0 || (after_welcome && !welcome)) && steady_clock::now() < search.deadline)
    loop.run_for(50ms);
}

TEST_F(RendezvousError, ARankThatDiesWhileTheOthersMeetIsNamed) {
  Meeting meeting(4);
  std::thread dying([&] { come_and_die(meeting.base, 2, false); });
  for (const Status& end : meeting.run({0, 1})) {
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    EXPECT_THAT(end.message(),
                AllOf(HasSubstr("rank 2 (host host x, pid 4711, 127."), HasSubstr("died"), HasSubstr("still meeting")));
    EXPECT_EQ(end.context().rank, 2);
  }
  dying.join();
}

TEST_F(RendezvousError, ARankThatDiesWhileTheOthersSetUpIsNamed) {
  Meeting meeting(3);
  std::thread dying([&] { come_and_die(meeting.base, 2, true); });
  const auto names_it = [](const Status& end) {
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    EXPECT_THAT(end.message(), AllOf(HasSubstr("rank 2 (host host x, pid 4711, 127."), HasSubstr("setting up")));
  };
  meeting.use = [&](int, Bootstrap& bootstrap) {
    const auto value = bootstrap.get("control/2", steady_clock::now() + patience);
    ASSERT_FALSE(value.has_value());
    names_it(value.error());
  };
  for (const Status& end : meeting.run({0, 1}))
    if (!end.ok()) names_it(end);  // it died before this rank was told that all had come
  dying.join();
}

TEST_F(RendezvousError, ARankThatGivesUpEndsItForAll) {
  Meeting meeting(3);
  meeting.change = [](int process, Config& config, std::string&) {
    if (process == 1) config.rendezvous_timeout = 1500ms;
  };
  for (const Status& end : meeting.run({0, 1})) {
    EXPECT_EQ(end.code(), ErrorCode::timeout) << end.to_string();
    EXPECT_THAT(end.message(), HasSubstr("waited 1.5 s for the other ranks"));
  }
}

// Who says so is the messenger.
TEST_F(RendezvousError, ARankThatGivesUpForAnotherBlamesThatOne) {
  for (const Rank failing : {0, 2}) {
    Meeting meeting(3);
    meeting.failing = failing;
    meeting.use = [&](int process, Bootstrap& bootstrap) {
      if (process == failing) return bootstrap.give_up(Status(ErrorCode::peer_lost, "it died", meeting::about(1, "h")));
      const auto value = bootstrap.get("control/" + std::to_string(failing), steady_clock::now() + patience);
      ASSERT_FALSE(value.has_value());
      EXPECT_EQ(value.error().context().rank, 1);
      EXPECT_EQ(value.error().context().host, "h");
      EXPECT_THAT(value.error().message(), HasSubstr(fmt::format("rank {} (host", failing)));
    };
    (void)meeting.run_all();
  }
}

// As its control plane could not start: no thread, no descriptor. Its connection ends in good order.
TEST_F(RendezvousError, ARankWhoseStartFailsAfterTheMeetingIsNamedAtOnce) {
  for (const Rank failing : {0, 2}) {
    for (const bool says_why : {false, true}) {
      Meeting meeting(3);
      meeting.failing = failing;
      meeting.use = [&](int process, Bootstrap& bootstrap) {
        if (process == failing) {
          if (says_why) bootstrap.give_up(Status(ErrorCode::unavailable, "no thread can be started"));
          return;
        }
        const auto since = steady_clock::now();
        const auto value = bootstrap.get("control/" + std::to_string(failing), steady_clock::now() + patience);
        ASSERT_FALSE(value.has_value());
        EXPECT_LT(steady_clock::now() - since, 5s);
        EXPECT_EQ(value.error().context().rank, failing);
        EXPECT_EQ(value.error().code(), says_why ? ErrorCode::unavailable : ErrorCode::peer_lost);
        EXPECT_THAT(value.error().message(),
                    AllOf(HasSubstr(fmt::format("rank {} (host", failing)),
                          HasSubstr(says_why ? "gave up: no thread can be started" : "gave up: its start has failed")));
        EXPECT_EQ(bootstrap.failure().message(), value.error().message());
      };
      for (const Status& end : meeting.run_all())  // of those that had not heard yet that all are here
        EXPECT_TRUE(end.ok() || end.context().rank == failing) << end.to_string();
    }
  }
}

TEST_F(RendezvousError, ARankThatPublishesWithoutEndIsNamedAndNotTakenForDead) {
  Meeting meeting(3);
  meeting.use = [&](int process, Bootstrap& bootstrap) {
    // Who has not come out of the meeting when it fails hears of that there.
    if (process != 1) {
      (void)bootstrap.put("met/" + std::to_string(process), "yes");  // its answer may come after the failure
    } else {
      for (const char* met : {"met/0", "met/2"})
        ASSERT_TRUE(bootstrap.get(met, steady_clock::now() + patience).has_value());
    }
    for (int i = 0; process == 1 && i < 3000 && bootstrap.failure().ok(); ++i)
      (void)bootstrap.put("much/" + std::to_string(i), std::string(1000, 'x'));
    const auto never = bootstrap.get("never", steady_clock::now() + patience);
    ASSERT_FALSE(never.has_value());
    EXPECT_EQ(never.error().code(), ErrorCode::out_of_memory) << never.error().to_string();
    EXPECT_EQ(never.error().context().rank, 1);
    EXPECT_THAT(never.error().message(), AllOf(HasSubstr("rank 1 (host"), HasSubstr("published more than")));
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST_F(RendezvousError, AValueThatNobodyPublishesEndsAtTheDeadline) {
  Meeting meeting(2);
  meeting.use = [&](int, Bootstrap& bootstrap) {
    const auto value = bootstrap.get("control/1", steady_clock::now() + 100ms);
    ASSERT_FALSE(value.has_value());
    EXPECT_EQ(value.error().code(), ErrorCode::timeout);
    EXPECT_THAT(value.error().message(), HasSubstr("'control/1'"));
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST_F(RendezvousError, NonsenseInTheConfigurationIsRefusedAtOnce) {
  const auto check = [](const std::function<void(Config&)>& spoil, const char* text) {
    Meeting meeting(2);
    meeting.change = [&](int, Config& config, std::string&) { spoil(config); };
    const auto ends = meeting.run({1});
    EXPECT_EQ(ends[0].code(), ErrorCode::invalid_argument);
    EXPECT_THAT(ends[0].message(), HasSubstr(text));
  };
  check([](Config& config) { config.rank = 2; }, "FABRING_RANK");
  check([](Config& config) { config.rank = -1; }, "FABRING_RANK");
  check([](Config& config) { config.world_size = 0; }, "FABRING_WORLD_SIZE");
  check([](Config& config) { config.master_addr.clear(); }, "FABRING_MASTER_ADDR");
  check([](Config& config) { config.master_addr = "fe80::1"; }, "fe80::1%eth0");
  check([](Config& config) { config.master_port = -1; }, "FABRING_MASTER_PORT");
  check([](Config& config) { config.master_port = 65536; }, "FABRING_MASTER_PORT");
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
