// Ranks that meet in a store: which address rank 0 publishes for itself. In a network namespace of the test's own
// thread, with two interfaces, neither of which its name says.

#include <gmock/gmock.h>
#include <sched.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/log_line.hpp"
#include "runtime/bootstrap/host_beacon.hpp"
#include "runtime/bootstrap/master_address.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"
#include "runtime/bootstrap/store_bootstrap.hpp"
#include "topology/host_identity.hpp"
#include "topology/interfaces.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class MapStore : public Store {
 public:
  Status put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex);
    values[key] = value;
    changed.notify_all();
    return {};
  }
  Result<std::string> get(const std::string& key, std::chrono::nanoseconds limit) override {
    std::unique_lock lock(mutex);
    ++looks[key];
    if (changed.wait_for(lock, limit, [&] { return values.contains(key); })) return values[key];
    waits_in_vain += limit > 0ns ? 1 : 0;
    return Status(ErrorCode::timeout, "nobody has published " + key);
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::map<std::string, int> looks;
  int waits_in_vain = 0;  // c10d warns of each
};

Config one_of(int ranks, Rank rank, std::chrono::milliseconds timeout) {
  Config config;
  config.world_size = ranks;
  config.rank = rank;
  config.rendezvous_timeout = timeout;
  return config;
}

/// Runs it in a thread with a network of its own; false where none can be made.
bool with_two_interfaces(const std::function<void()>& test) {
  bool possible = false;
  std::thread thread([&] {
    constexpr const char* commands =
        "ip link set lo up && ip link add a0 type veth peer name a1 && ip addr add 10.9.0.1/24 dev a0 && "
        "ip addr add 10.9.1.1/24 dev a1 && ip link set a0 up && ip link set a1 up";
    possible = ::unshare(CLONE_NEWNET) == 0 && std::system(commands) == 0;  // NOLINT(concurrency-mt-unsafe)
    if (possible) test();
  });
  thread.join();
  return possible;
}

std::string v4_of_last_interface() {
  std::string last;
  const auto all = interface_addresses();
  for (const InterfaceAddress& one : *all)
    if (!one.v6 && !one.loopback) last = one.address;
  return last;
}

TEST(StoreMeeting, RankZeroTakesTheAddressThatRanksElsewhereResolveItsNameTo) {
  const bool possible = with_two_interfaces([] {
    const std::string meant = v4_of_last_interface();
    Config config;
    config.rank = 0;
    config.world_size = 2;
    config.rendezvous_timeout = std::chrono::seconds(5);
    for (const char* own_view : {"127.0.1.1", "10.200.0.9", ""}) {  // a Debian host's, one behind a NAT, no name
      config.master_addr = own_view;
      MapStore store;
      store.values["join/1"] = meeting::encode(meeting::StoreJoin{{"another host", "b", 1, {"10.200.0.9", meant}}, ""});
      auto met = meet_by_store(config, store, Log());
      ASSERT_TRUE(met) << met.error().message();
      (*met)->finish();
      EXPECT_EQ((*met)->local_address(), meant) << own_view;
      EXPECT_TRUE((*met)->outlives_ranks());
      const auto published = meeting::decode_store_meeting(store.values["meeting"]);
      ASSERT_TRUE(published);
      EXPECT_EQ(published->master, meant);
    }
  });
  if (!possible) GTEST_SKIP() << "no network namespace can be made here";
}

// Virtual machines that go on from one image of memory have one fingerprint; their sockets' names are their own.
TEST(StoreMeeting, HostsThatLookAlikeAreToldApart) {
  const bool possible = with_two_interfaces([] {
    const HostBeacon here(1);
    for (const auto& [beacon, one_host] :
         std::map<std::string, bool>{{"fabring-host-of-another-1", false}, {here.name(), true}, {"", true}}) {
      MapStore store;
      store.values["join/1"] = meeting::encode(meeting::StoreJoin{{host_fingerprint(), "b", 1, {}}, beacon});
      const auto met = meet_by_store(one_of(2, 0, 5s), store, Log());
      ASSERT_TRUE(met) << met.error().message();
      (*met)->finish();
      EXPECT_EQ((*met)->all_on_this_host(), one_host) << beacon;
      EXPECT_EQ((*met)->local_address() == "127.0.0.1", one_host) << beacon;
    }
  });
  if (!possible) GTEST_SKIP() << "no network namespace can be made here";
}

TEST(StoreMeeting, RanksOfOneHostFindThatOut) {
  MapStore store;
  const auto meet = [&store](Rank rank) { return meet_by_store(one_of(3, rank, 20s), store, Log()); };
  auto first = std::async(std::launch::async, meet, 0), second = std::async(std::launch::async, meet, 1);
  const auto third = meet(2);
  ASSERT_TRUE(third) << third.error().message();
  EXPECT_TRUE((*third)->all_on_this_host());
  for (auto* other : {&first, &second}) EXPECT_TRUE((*other->get())->all_on_this_host());
  EXPECT_TRUE(is_beacon_elsewhere(meeting::decode_store_join(store.values["join/1"])->beacon)) << "gone after it";
}

TEST(StoreMeeting, OfTwoProcessesOfOneRankTheLaterOneSaysSoToAll) {
  const std::string other = meeting::encode(meeting::StoreJoin{{"another host", "b", 7, {}}, ""});
  class AtOnce final : public MapStore {
   public:
    explicit AtOnce(std::string value) : value_(std::move(value)) {}
    Status put(const std::string& key, const std::string& value) override {
      return MapStore::put(key, key == "join/1" ? value_ : value);
    }

   private:
    const std::string value_;  // of one that comes at the same time, and says it last
  } at_once(other);
  MapStore before;
  before.values["join/1"] = other;
  for (MapStore* store : {&before, static_cast<MapStore*>(&at_once)})
    for (const Rank rank : {1, 0}) {
      const auto met = meet_by_store(one_of(3, rank, 20s), *store, Log());
      ASSERT_FALSE(met);
      EXPECT_EQ(met.error().code(), ErrorCode::invalid_argument);
      EXPECT_EQ(met.error().context().rank, 1);
      EXPECT_THAT(met.error().message(), HasSubstr("rank 1 came twice: (host b, pid 7) and (host "));
    }
}

TEST(StoreMeeting, OfTwoRanksZeroTheLaterOneSaysSoToAll) {
  MapStore store;
  const auto meet = [&store](Rank rank) {
    const auto met = meet_by_store(one_of(2, rank, 20s), store, Log());
    return met ? Status() : met.error();
  };
  auto first = std::async(std::launch::async, meet, 0);
  ASSERT_TRUE(store.get("join/0", 20s));
  for (const Status& ended : {meet(0), first.get(), meet(1)}) {
    EXPECT_EQ(ended.code(), ErrorCode::invalid_argument) << ended.to_string();
    EXPECT_EQ(ended.context().rank, 0);
    EXPECT_THAT(ended.message(), HasSubstr("rank 0 came twice: (host "));
  }
}

TEST(StoreMeeting, WhoDoesNotComeIsNamedMeanwhileAndAtTheDeadline) {
  Config config;
  config.rank = 0;
  config.world_size = 4;
  config.rendezvous_timeout = 300ms;
  MapStore store;
  store.values["join/2"] = meeting::encode(meeting::StoreJoin{{"another host", "b", 1, {}}, ""});
  std::string lines;
  const Log log(LogLevel::warning, 0, [&](LogLevel level, int rank, std::string_view text) {
    lines.append(log_line(level, rank, text)).append("\n");
  });
  const auto met = meet_by_store(config, store, log, 50ms);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code(), ErrorCode::timeout);
  EXPECT_THAT(met.error().message(), HasSubstr("ranks 1 and 3 of 4 did not come"));
  EXPECT_THAT(lines, HasSubstr("warning: still waiting for ranks 1 and 3 of 4"));
  EXPECT_EQ(store.waits_in_vain, 0);
}

TEST(StoreMeeting, ThatRankZeroDoesNotComeIsSaidMeanwhile) {
  const Config config = one_of(2, 1, 300ms);
  MapStore store;
  std::string lines;
  const Log log(LogLevel::warning, 1, [&](LogLevel level, int rank, std::string_view text) {
    lines.append(log_line(level, rank, text)).append("\n");
  });
  const auto met = meet_by_store(config, store, log, 50ms);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().context().rank, -1) << "another may be missing";
  EXPECT_THAT(met.error().message(), HasSubstr("rank 0 of 2 did not say"));
  EXPECT_THAT(lines, HasSubstr("warning: still waiting for rank 0 of 2"));
  EXPECT_EQ(store.waits_in_vain, 0);
}

// Its word that it is there still stands in the store, but so does that it has gone; the last one need not have come.
TEST(StoreMeeting, ARankThatGaveUpBeforeAllHadComeEndsTheMeetingOfTheOthersAtOnce) {
  MapStore store;
  const auto meet = [&](Rank rank, std::chrono::milliseconds timeout) {
    const auto met = meet_by_store(one_of(3, rank, timeout), store, Log());
    return met ? Status() : met.error();
  };
  auto first = std::async(std::launch::async, meet, 0, 10s);
  const Status impatient = meet(1, 300ms);
  EXPECT_EQ(impatient.code(), ErrorCode::timeout);
  EXPECT_EQ(impatient.context().rank, -1) << impatient.to_string();
  EXPECT_THAT(impatient.message(), HasSubstr("its log says who has not, or it has not come itself"));
  const auto gone = std::chrono::steady_clock::now();
  const Status at_rank_0 = first.get();
  for (const Status& ended : {at_rank_0, meet(2, 10s)}) {
    EXPECT_EQ(ended.code(), ErrorCode::timeout) << ended.to_string();
    EXPECT_EQ(ended.context().rank, 1) << ended.to_string();
    EXPECT_THAT(ended.message(), HasSubstr("rank 1 (host"));
    EXPECT_THAT(ended.message(), HasSubstr("gave up"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - gone, 2s);
}

TEST(StoreMeeting, ARankThatDoesNotComeAsItCannotEndsTheMeetingOfTheOthersAtOnce) {
  for (const Rank unable : {0, 1}) {
    MapStore store;
    const auto meet = [&](Rank rank) {
      const auto met = meet_by_store(one_of(3, rank, 60s), store, Log());
      return met ? Status() : met.error();
    };
    auto waits = std::async(std::launch::async, meet, unable == 0 ? 1 : 0);
    EXPECT_TRUE(decline_meeting(store, unable, Status(ErrorCode::invalid_argument, "no such setting")).ok());
    for (const Status& ended : {waits.get(), meet(2)}) {
      EXPECT_EQ(ended.code(), ErrorCode::invalid_argument) << ended.to_string();
      EXPECT_EQ(ended.context().rank, unable) << ended.to_string();
      EXPECT_THAT(ended.message(), HasSubstr("rank " + std::to_string(unable) + " (host"));
      EXPECT_THAT(ended.message(), HasSubstr("no such setting"));
    }
  }
}

/// What a rank sees of a store that answers it so often, and then no more, but still takes what it says.
class Unreadable final : public Store {
 public:
  Unreadable(Store& inner, int answers) : answers_left(answers), inner_(inner) {}
  Status put(const std::string& key, const std::string& value) override { return inner_.put(key, value); }
  Result<std::string> get(const std::string& key, std::chrono::nanoseconds limit) override {
    if (answers_left-- > 0) return inner_.get(key, limit);
    return Status(ErrorCode::unavailable, "the store went away");
  }
  int answers_left;

 private:
  Store& inner_;
};

TEST(StoreMeeting, ARankThatCannotReadTheStoreAnyMoreSaysSoInItToTheOthers) {
  for (const int answers : {0, 1, 2, 5}) {  // before it says that it is there, and while it waits
    MapStore store;
    Unreadable half(store, answers);
    const auto meet = [](Rank rank, Store& by) {
      const auto met = meet_by_store(one_of(3, rank, 20s), by, Log());
      return met ? Status() : met.error();
    };
    auto waits = std::async(std::launch::async, meet, 0, std::ref(store));
    EXPECT_EQ(meet(1, half).message(), "the store went away");
    const auto since = std::chrono::steady_clock::now();
    const Status heard = waits.get();
    EXPECT_LT(std::chrono::steady_clock::now() - since, 5s);
    EXPECT_EQ(heard.code(), ErrorCode::unavailable) << heard.to_string();
    EXPECT_EQ(heard.context().rank, 1);
    EXPECT_THAT(heard.message(), AllOf(HasSubstr("rank 1 (host"), HasSubstr("gave up: the store went away")));
  }
}

TEST(StoreMeeting, ARankThatCannotReadWhatRankZeroHasPutThereSaysSoButDoesNotRepeatRankZero) {
  for (const bool legible : {false, true}) {
    MapStore store;
    store.values["meeting"] =
        legible ? meeting::encode_failed_meeting(Status(ErrorCode::unavailable, "no interface")) : "of another program";
    const auto met = meet_by_store(one_of(2, 1, 10s), store, Log());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), legible ? ErrorCode::unavailable : ErrorCode::mismatch);
    EXPECT_EQ(store.values.contains("failed"), !legible);
  }
}

struct StoreWorld {
  explicit StoreWorld(int size) { config.world_size = size, config.rendezvous_timeout = 60s; }
  /// All ranks meet, each in a thread of its own, and then do this.
  void each(const std::function<void(Rank, Bootstrap&)>& body) {
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < config.world_size; ++rank)
      ranks.emplace_back([&, rank] {
        Config own = config;
        own.rank = rank;
        auto met = meet_by_store(own, store, Log());
        ASSERT_TRUE(met) << met.error().message();
        body(rank, **met);
      });
    for (auto& rank : ranks) rank.join();
  }
  Config config;
  MapStore store;
};

TEST(StoreMeeting, ARankWhoseStartFailsAfterTheMeetingIsNamedAtOnce) {
  for (const bool says_why : {false, true}) {
    StoreWorld world(3);
    world.each([&](Rank rank, Bootstrap& bootstrap) {
      if (rank == 2) {
        if (says_why) bootstrap.give_up(Status(ErrorCode::unavailable, "no thread can be started"));
        return;
      }
      const auto end = std::chrono::steady_clock::now() + 60s;
      Status heard;
      while (heard.ok() && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
        heard = bootstrap.failure();
      }
      EXPECT_EQ(heard.context().rank, 2);
      EXPECT_EQ(heard.code(), says_why ? ErrorCode::unavailable : ErrorCode::peer_lost);
      EXPECT_THAT(heard.message(), HasSubstr("rank 2 (host"));
      EXPECT_THAT(heard.message(), HasSubstr(says_why ? "no thread can be started" : "its start has failed"));
    });
  }
}

TEST(StoreMeeting, ARankThatCannotReadTheStoreAfterTheMeetingSaysSoInItToTheOthers) {
  StoreWorld world(2);
  world.config.rank = 1;
  std::thread rank_0([config = world.config, &store = world.store]() mutable {
    config.rank = 0;
    auto met = meet_by_store(config, store, Log());
    ASSERT_TRUE(met) << met.error().message();
    const auto heard = (*met)->get("control/1", std::chrono::steady_clock::now() + 60s);
    ASSERT_FALSE(heard);
    EXPECT_EQ(heard.error().context().rank, 1) << heard.error().to_string();
    EXPECT_THAT(heard.error().message(), HasSubstr("gave up: the store went away"));
  });
  Unreadable half(world.store, std::numeric_limits<int>::max());
  auto met = meet_by_store(world.config, half, Log());
  ASSERT_TRUE(met) << met.error().message();
  half.answers_left = 0;
  const Status why = (*met)->failure();
  EXPECT_EQ(why.message(), "the store went away");
  (*met)->give_up(why);
  rank_0.join();
}

// Who says so is the messenger.
TEST(StoreMeeting, ARankThatGivesUpForAnotherBlamesThatOne) {
  StoreWorld world(3);
  world.each([&](Rank rank, Bootstrap& bootstrap) {
    if (rank == 2) return bootstrap.give_up(Status(ErrorCode::peer_lost, "it died", meeting::about(1, "h")));
    const auto heard = bootstrap.get("control/2", std::chrono::steady_clock::now() + 60s);
    ASSERT_FALSE(heard) << "and who waits for a value hears of it meanwhile";
    EXPECT_EQ(heard.error().context().rank, 1);
    EXPECT_EQ(heard.error().context().host, "h");
    EXPECT_THAT(heard.error().message(), HasSubstr("rank 2 (host"));
    bootstrap.finish();
  });
}

TEST(StoreMeeting, NoWaitInTheStoreIsInVainWhileSomethingIsLate) {
  StoreWorld world(2);
  world.each([&](Rank rank, Bootstrap& bootstrap) {
    if (rank == 1) {
      const auto early = bootstrap.get("control/0", std::chrono::steady_clock::now() + 20ms);
      EXPECT_EQ(early.error().code(), ErrorCode::timeout);
      EXPECT_TRUE(bootstrap.put("asked", "yes").ok());
    } else {
      EXPECT_TRUE(bootstrap.get("asked", std::chrono::steady_clock::now() + 60s));
      EXPECT_TRUE(bootstrap.put("control/0", "here").ok());
    }
    EXPECT_EQ(*bootstrap.get("control/0", std::chrono::steady_clock::now() + 60s), "here");
    bootstrap.finish();
  });
  EXPECT_EQ(world.store.waits_in_vain, 0);
  EXPECT_LT(world.store.looks["control/0"], 500) << "a store serves all ranks";
}

TEST(StoreMeeting, WhoseStartSucceedsIsNoFailure) {
  StoreWorld world(2);
  world.each([](Rank, Bootstrap& bootstrap) { bootstrap.finish(); });
  EXPECT_FALSE(world.store.values.contains("failed"));
}

// A store serves all ranks of a job.
TEST(StoreMeeting, TheStoreIsNotAskedAgainAndAgainWhetherARankHasFailed) {
  StoreWorld world(2);
  const auto looks_so_far = [&] {
    const std::lock_guard lock(world.store.mutex);
    return world.store.looks["failed"];
  };
  int looks = 0;
  world.each([&](Rank rank, Bootstrap& bootstrap) {
    const int to_meet = looks_so_far();
    const auto end = std::chrono::steady_clock::now() + 2s;
    while (rank == 1 && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE(bootstrap.failure().ok());
      std::this_thread::yield();
    }
    if (rank == 1) looks = looks_so_far() - to_meet;
    bootstrap.finish();
  });
  EXPECT_GE(looks, 1);
  EXPECT_LE(looks, 8) << "in 2 s";
}

// Each of the ranks looks, all at about the same time.
TEST(StoreMeeting, ARankOfManyLooksIntoTheStoreTheMoreSeldomTheMoreThereAre) {
  constexpr auto most_looks = [](std::chrono::nanoseconds time, int ranks) {
    return static_cast<int>(time / (ranks * 50us)) + 2;
  };
  for (const int ranks : {1024, 4096}) {
    MapStore store;
    auto start = std::chrono::steady_clock::now();
    const auto time = [&] { return std::chrono::steady_clock::now() - start; };
    const auto none = meet_by_store(one_of(ranks, 1, 100ms), store, Log());
    ASSERT_FALSE(none);
    EXPECT_LE(store.looks["meeting"], most_looks(time(), ranks));
    EXPECT_GE(store.looks["meeting"], 4);
    store.values = {{"meeting", meeting::encode(meeting::StoreMeeting{7, true, "127.0.0.1"})}};
    store.looks.clear();
    const auto met = meet_by_store(one_of(ranks, 1, 100ms), store, Log());
    ASSERT_TRUE(met) << met.error().message();
    start = std::chrono::steady_clock::now();
    while (time() < 1s) EXPECT_FALSE((*met)->get("control/0", std::chrono::steady_clock::now() + 20ms));
    const auto over = time();
    EXPECT_LE(store.looks["control/0"], most_looks(over, ranks));
    EXPECT_LE(store.looks["failed"], most_looks(over, ranks));
    (*met)->finish();
  }
}

TEST(StoreMeeting, OnlyAddressesThatMayLeadElsewhereAreTold) {
  const bool possible = with_two_interfaces([] {
    std::vector<net::SocketAddress> named;
    for (const char* host :
         {"127.0.1.1", "::1", "fe80::1", "10.9.1.7", "10.9.1.7", "10.200.0.9", "fd00::1", "10.9.0.1"})
      named.push_back({host, 0});
    EXPECT_THAT(reachable_elsewhere(named), ElementsAre("10.9.1.7", "10.9.0.1"));
  });
  if (!possible) GTEST_SKIP() << "no network namespace can be made here";
}

}  // namespace
}  // namespace fabring
