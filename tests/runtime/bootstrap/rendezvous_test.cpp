// Ranks that find each other: what they learn, how fast, and over strangers' heads.

#include "runtime/bootstrap/rendezvous.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <set>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/hello.hpp"
#include "tests/runtime/bootstrap/meeting_world.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using std::chrono::steady_clock;

class RendezvousOf : public testing::TestWithParam<int> {};

TEST_P(RendezvousOf, AllRanksMeetAndReadEachOthersValues) {
  const int world = GetParam();
  Meeting meeting(world);
  std::mutex mutex;
  std::set<std::uint64_t> nonces;
  std::atomic<int> used = 0;
  meeting.use = [&](int process, Bootstrap& bootstrap) {
    ++used;
    EXPECT_TRUE(bootstrap.all_on_this_host());
    // The kernel gives a connection to any loopback address the source 127.0.0.1.
    EXPECT_EQ(bootstrap.local_address(), world > 1 && process == 0 ? own_loopback_address() : "127.0.0.1");
    EXPECT_TRUE(bootstrap.put("control/" + std::to_string(process), "value " + std::to_string(process)).ok());
    for (int other : {0, (process + 1) % world, (process + world / 2) % world}) {
      const auto value = bootstrap.get("control/" + std::to_string(other), steady_clock::now() + patience);
      ASSERT_TRUE(value.has_value()) << value.error().to_string();
      EXPECT_EQ(*value, "value " + std::to_string(other));
    }
    const std::lock_guard lock(mutex);
    nonces.insert(bootstrap.job_nonce());
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_EQ(used, world);
  EXPECT_EQ(nonces.size(), 1u);
  EXPECT_FALSE(nonces.contains(0));
}

INSTANTIATE_TEST_SUITE_P(Sizes, RendezvousOf, testing::Values(1, 2, 3, 8, 32));

// What `fabring doctor net` finds on one rank of a large job.
TEST(Rendezvous, ARankMayPublishHundredsOfValues) {
  constexpr int values = 600;
  Meeting meeting(2);
  meeting.use = [&](int process, Bootstrap& bootstrap) {
    const std::string part(1000, 'x');
    for (int i = 0; process == 1 && i < values; ++i)
      ASSERT_TRUE(bootstrap.put("found/" + std::to_string(i), part).ok());
    const auto last = bootstrap.get("found/" + std::to_string(values - 1), steady_clock::now() + patience);
    ASSERT_TRUE(last.has_value()) << last.error().to_string();
    EXPECT_EQ(*last, part);
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST(Rendezvous, WithASecretAllRanksMeet) {
  Meeting meeting(4);
  meeting.secret = "a secret of sufficient length";
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST(Rendezvous, RanksOfOtherHostsAreNoticed) {
  // Without a secret that is worth a note, but no warning: it is how most jobs run.
  for (const LogLevel level : {LogLevel::info, LogLevel::warning}) {
    Meeting meeting(3);
    meeting.options.fingerprint = "host a";
    std::atomic<int> together = 0;
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Config config = meeting.base;
        config.rank = rank;
        RendezvousOptions options = meeting.options;
        if (rank == 2) options.fingerprint = "host b";
        auto met = rendezvous(config, "", meeting.notes.log(rank, level), options);
        ASSERT_TRUE(met.has_value());
        together += (*met)->all_on_this_host();
        (*met)->finish();
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(together, 0);
    EXPECT_EQ(meeting.notes.count("no FABRING_SECRET_FILE"), level == LogLevel::info ? 1 : 0);
  }
}

// The first to come may be beside rank 0, by an address that leads nowhere else: what the others came by counts for
// all on that host.
TEST(Rendezvous, TheRanksOfRankZerosHostAreWhereAnotherHostsRankReachedIt) {
  Meeting meeting(3);
  meeting.options.note_interval = 20ms;
  meeting.hosts = {"host a", "host b"};
  meeting.change = [&](int process, Config& config, std::string&) {
    config.master_addr = own_loopback_address(static_cast<unsigned>(process));
    if (process == 0) return;
    EXPECT_TRUE(meeting.notes.wait("(2 came)"));
  };
  meeting.use = [](int process, Bootstrap& bootstrap) {
    EXPECT_EQ(bootstrap.local_address(), process == 0 ? own_loopback_address(1) : "127.0.0.1");
  };
  auto server = meeting.serve({own_loopback_address(0), own_loopback_address(1)}, "host a");
  ASSERT_TRUE(server.has_value()) << server.error().to_string();
  for (const Status& end : meeting.run({1, 2})) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_TRUE((*server)->wait_for_all().ok());
  EXPECT_EQ((*server)->local_address(), own_loopback_address(1));
}

TEST(Rendezvous, LateRanksAreWaitedForAndNamedMeanwhileOnAllRanks) {
  Meeting meeting(3);
  meeting.options.note_interval = 50ms;
  meeting.change = [&](int process, Config&, std::string&) {
    if (process != 2) return;
    const auto end = steady_clock::now() + patience;
    while (meeting.notes.count("still waiting for rank 2 of 3") < 2 && steady_clock::now() < end)
      std::this_thread::yield();
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_GE(meeting.notes.count("r0 warning: still waiting for rank 2 of 3"), 1);
  EXPECT_GE(meeting.notes.count("r1 warning: rank 0 is still waiting for rank 2 of 3"), 1);
  EXPECT_GE(meeting.notes.count("(2 came), for "), 1) << "how long comes before what to do";
  EXPECT_EQ(meeting.notes.count_patient("r0 warning: still waiting"), 0) << "the meeting waits for who writes them";
}

TEST(Rendezvous, EachIncarnationHasItsOwnNonce) {
  std::set<std::uint64_t> nonces;
  for (int round = 0; round < 3; ++round) {
    Meeting meeting(2);
    std::mutex mutex;
    meeting.use = [&](int, Bootstrap& bootstrap) {
      const std::lock_guard lock(mutex);
      nonces.insert(bootstrap.job_nonce());
    };
    for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok());
  }
  EXPECT_EQ(nonces.size(), 3u);
}

// A listener that holds the shared port, as torchrun's agent does; it answers every visitor with `answer`.
class ForeignService {
 public:
  ForeignService(std::uint16_t port, std::string answer) {
    auto listener =
        net::Listener::open(loop_, {own_loopback_address(), port}, [this, answer](std::unique_ptr<net::Stream> stream) {
          if (!answer.empty()) stream->write(answer.data(), answer.size());
          visitors_.push_back(std::move(stream));
          ++visits_;
        });
    EXPECT_TRUE(listener.has_value());
    listener_ = std::move(*listener);
    thread_ = std::thread([this] {
      while (!stop_) loop_.run_for(10ms);
    });
  }
  ~ForeignService() {
    stop_ = true;
    loop_.wake();
    thread_.join();
  }
  const std::atomic<int>& visits() const { return visits_; }

 private:
  net::Loop loop_;
  std::unique_ptr<net::Listener> listener_;
  std::vector<std::unique_ptr<net::Stream>> visitors_;
  std::atomic<int> visits_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// Rank 0 comes only once rank 1 has been there, been refused, and come again.
void wait_until_visited_again(Meeting& meeting, const std::atomic<int>& visits) {
  meeting.change = [&visits](int process, Config&, std::string&) {
    const auto end = steady_clock::now() + patience / 4;
    while (process == 0 && visits < 2 && steady_clock::now() < end) std::this_thread::yield();
  };
}

class SharedPort : public testing::TestWithParam<const char*> {};

TEST_P(SharedPort, ThatSomebodyElseHoldsIsSteppedOver) {
  Meeting meeting(4);
  meeting.base.master_port_shared = true;
  ForeignService agent(static_cast<std::uint16_t>(meeting.base.master_port), GetParam());
  const auto begin = steady_clock::now();
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_LT(steady_clock::now() - begin, patience / 2);
  EXPECT_GE(agent.visits(), 1);
}

// The kernel chooses the ports of the doors of a job among all that are free.
TEST(Rendezvous, ADoorOfAnotherJobAtOneOfTheSharedPortsIsSteppedOver) {
  Meeting meeting(2);
  meeting.base.master_port_shared = true;
  HandshakeOptions greeting;
  greeting.purpose = Purpose::control;
  greeting.job_id = "another job";
  greeting.job_nonce = 77;
  std::atomic<int> visits = 0;
  std::atomic<bool> over = false;
  net::Loop loop;
  const net::SocketAddress beside{meeting.base.master_addr, static_cast<std::uint16_t>(meeting.base.master_port + 1)};
  const auto door = Doorkeeper::open(
      loop, beside, greeting, [&](const HandshakeResult&) { ++visits; },
      std::make_shared<std::atomic<std::uint64_t>>(0));
  ASSERT_TRUE(door.has_value()) << door.error().to_string();
  std::thread neighbour([&] {
    while (!over) loop.run_for(10ms);
  });
  wait_until_visited_again(meeting, visits);
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  over = true;
  neighbour.join();
}

std::string hello_of_another_version() {
  Hello other;
  other.version = wire_version + 1;
  return encode(other);
}

TEST(Rendezvous, ADoorOfAnotherVersionAtOneOfTheSharedPortsIsSteppedOver) {
  Meeting meeting(2);
  meeting.base.master_port_shared = true;
  ForeignService door(static_cast<std::uint16_t>(meeting.base.master_port + 1), hello_of_another_version());
  wait_until_visited_again(meeting, door.visits());
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST(Rendezvous, WhereOnlyAnotherVersionAnswersAtTheSharedPortsThatIsSaid) {
  Meeting meeting(2);
  meeting.base.master_port_shared = true;
  meeting.base.rendezvous_timeout = 2s;
  ForeignService door(static_cast<std::uint16_t>(meeting.base.master_port + 1), hello_of_another_version());
  const auto ends = meeting.run({1});
  EXPECT_EQ(ends[0].code(), ErrorCode::mismatch);
  EXPECT_THAT(ends[0].message(), testing::AllOf(testing::HasSubstr("rank 1 did not find rank 0"),
                                                testing::HasSubstr("install the same version of Fabring")));
}

INSTANTIATE_TEST_SUITE_P(By, SharedPort, testing::Values("", "HTTP/1.1 400 Bad Request\r\n\r\n"));

TEST(Rendezvous, TwoJobsThatTryTheSamePortsDoNotDisturbEachOther) {
  Meeting first(2), second(2);
  first.base.master_port_shared = second.base.master_port_shared = true;
  second.base.master_port = first.base.master_port + 1;
  ForeignService agent(static_cast<std::uint16_t>(first.base.master_port), "");
  // Until a rank of the first has been at the second's rank 0, neither job is complete.
  second.level = LogLevel::debug;
  first.change = [&](int process, Config&, std::string&) {
    if (process == 0) second.notes.wait("r0 debug: turned a visitor of the rendezvous away");
  };
  second.change = [&](int process, Config&, std::string&) {
    if (process == 1) second.notes.wait("r0 debug: turned a visitor of the rendezvous away");
  };
  std::vector<Status> ends;
  std::thread other([&] { ends = second.run_all(); });
  for (const Status& end : first.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  other.join();
  for (const Status& end : ends) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_EQ(first.notes.count("warning: turned a visitor"), 0);
  EXPECT_EQ(second.notes.count("warning: turned a visitor"), 0) << "it is normal there, and nobody can change it";
}

// Engines made one after the other: the first to be done with a meeting is at the next one's door long before rank 0.
TEST(Rendezvous, WhoComesForTheNextMeetingBeforeThisOneIsOverWaitsForIt) {
  Meeting meeting(4);
  meeting.options.note_interval = 50ms;
  meeting.options.closing_limit = patience;  // rank 0 stays as long as rank 2
  std::atomic<bool> comes_again = false;
  const std::string searches = "r1 warning: rank 1 is waiting for rank 0";
  const auto meet = [&](Rank rank, int round) -> Status {
    Config config = meeting.base;
    config.rank = rank;
    if (rank == 1 && round == 1) comes_again = true;
    auto met = rendezvous(config, "", meeting.notes.log(rank), meeting.options);
    if (!met) return met.error();
    if (rank == 2 && round == 0) {
      while (!comes_again) std::this_thread::yield();
      EXPECT_TRUE(meeting.notes.wait(searches, meeting.notes.count(searches) + 1));
    }
    (*met)->finish();
    return {};
  };
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      for (const int round : {0, 1}) {
        const Status end = meet(rank, round);
        EXPECT_TRUE(end.ok()) << "rank " << rank << ", round " << round << ": " << end.to_string();
      }
    });
  for (auto& rank : ranks) rank.join();
}

// Rank 0 stays for one who has not come yet, to tell that one too.
TEST(Rendezvous, WhoWasToldThatAMeetingFailedIsNotToldAgainWhenItComesForTheNext) {
  Meeting meeting(4);
  meeting.options.note_interval = 50ms;
  std::promise<void> over;
  const auto meet = [&](Rank rank, std::chrono::milliseconds limit) {
    Config config = meeting.base;
    config.rank = rank;
    config.rendezvous_timeout = limit;
    auto met = rendezvous(config, "", meeting.notes.log(rank), meeting.options);
    if (met) (*met)->finish();
    return met ? Status() : met.error();
  };
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      if (rank == 2) meeting.notes.wait("still waiting for ranks 2 and 3 of 4");
      if (rank == 3) over.get_future().wait();
      if (rank != 3) {
        EXPECT_FALSE(meet(rank, rank == 2 ? 1500ms : patience).ok()) << "as rank 2 gave up";
      }
      if (rank == 0) over.set_value();
      const Status end = meet(rank, patience);
      EXPECT_TRUE(end.ok()) << "rank " << rank << ": " << end.to_string();
    });
  for (auto& rank : ranks) rank.join();
}

TEST(Rendezvous, ASilentVisitorAndAScannerDisturbNobody) {
  Meeting meeting(2);
  net::Loop loop;
  std::vector<std::unique_ptr<net::Stream>> visitors;
  std::uint64_t strangers = 0;
  meeting.change = [&](int process, Config& config, std::string&) {
    if (process != 1) return;
    const net::SocketAddress address{config.master_addr, static_cast<std::uint16_t>(config.master_port)};
    const auto end = steady_clock::now() + patience;
    while (visitors.size() < 2 && steady_clock::now() < end) {
      bool answered = false;
      auto guard = net::connect(loop, address, patience, [&](auto result) {
        answered = true;
        if (result) visitors.push_back(std::move(*result));
      });
      while (!answered) loop.run_for(100ms);
    }
    visitors.back()->write("GET / HTTP/1.1\r\n\r\n", 18);
    char byte = 0;
    while (visitors.back()->read(&byte, 1).state == net::Io::again && steady_clock::now() < end)
      std::this_thread::yield();
  };
  meeting.use = [&](int process, Bootstrap& bootstrap) {
    if (process == 0) strangers = bootstrap.strangers();
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_GE(strangers, 1u) << "the scanner counts; the silent one too if it has run out of time";
}

}  // namespace
}  // namespace fabring
