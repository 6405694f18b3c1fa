// Who may come to a meeting: each wrong setting ends with one clear error on every rank, in bounded time.

#include "runtime/bootstrap/rendezvous.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/hello.hpp"
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

TEST_F(RendezvousError, MissingRanksAreNamedOnEveryRankThatCame) {
  Meeting meeting(8);
  meeting.base.rendezvous_timeout = 2s;
  for (const Status& end : meeting.run({0, 1, 2, 4, 6, 7})) {
    EXPECT_EQ(end.code(), ErrorCode::timeout);
    EXPECT_THAT(end.message(), AllOf(HasSubstr("waited 2 s for ranks 3 and 5 of 8 (6 came)"),
                                     HasSubstr("has ended, also with status 0, does not come"),
                                     HasSubstr("which ranks on other hosts cannot reach")));
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

TEST_F(RendezvousError, ASecondRankZeroOfThisProcessIsToldWhatTwoEnginesNeed) {
  Meeting meeting(2);
  meeting.base.rendezvous_timeout = 1s;
  std::vector<std::string> taken;
  for (const Status& end : meeting.run({0, 0}))  // the other waits for its rank 1
    if (end.code() == ErrorCode::unavailable) taken.push_back(end.message());
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_THAT(taken[0], AllOf(HasSubstr("cannot listen on"), HasSubstr("another engine of this process listens there"),
                              HasSubstr("one after the other, in the same order on all ranks, or give each its own "
                                        "port"),
                              Not(HasSubstr("two processes"))));
}

// A program's own listener stands for that of another process: neither is an engine's of this one.
TEST_F(RendezvousError, ARankZeroWhosePortIsTakenIsToldWhatTwoJobsNeed) {
  Meeting meeting(2);
  const int holder = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(meeting.base.master_port));
  ASSERT_EQ(::inet_pton(AF_INET, meeting.base.master_addr.c_str(), &address.sin_addr), 1);
  ASSERT_EQ(::bind(holder, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(holder, 1), 0);
  const Status end = meeting.run({0})[0];
  ::close(holder);
  EXPECT_THAT(end.message(), AllOf(HasSubstr("cannot listen on"), HasSubstr("two processes have FABRING_RANK=0"),
                                   HasSubstr("another job's, give each job its own FABRING_MASTER_PORT, on all its "
                                             "ranks"),
                                   Not(HasSubstr("engine of this process"))));
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

// Whoever reaches the port can come as often as it likes.
TEST_F(RendezvousError, ManyVisitorsOfAnotherJobAreOneWarning) {
  Meeting meeting(2);
  meeting.change = [&](int process, Config& config, std::string&) {
    if (process != 1) return;
    for (int visit = 0; visit < 5; ++visit) {
      MasterSearch search = search_of(config, 1);
      search.greeting.job_id = "b";
      const auto met = MeetingClient::meet(search, meeting::Join{"f", "host x", 4711}, Log(LogLevel::none, 1));
      EXPECT_EQ(met ? ErrorCode::internal : met.error().code(), ErrorCode::mismatch);
    }
  };
  for (const Status& end : meeting.run({0, 1})) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_EQ(meeting.notes.count("warning: turned a visitor"), 1);
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

}  // namespace
}  // namespace fabring
