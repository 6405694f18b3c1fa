// Rails in use: ways that open, that never open, fall silent or break. Ranks share the test's thread and a clock that
// the test turns.

#include "transports/rails/rails.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <set>

#include "tests/support/turned_clock.hpp"
#include "tests/transports/rails/rail_cards.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/inproc/inproc_transport.hpp"
#include "transports/ledger.hpp"

namespace fabring::rails {
namespace {

using namespace std::chrono_literals;
using fixture::TurnedClock;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Swallows what is sent once it is cut, as a dead cable does.
class Cable final : public ForwardingEndpoint {
 public:
  Cable(std::unique_ptr<Endpoint> inner, const bool& cut, const bool& late, const bool& gone, const Status& failed)
      : ForwardingEndpoint(std::move(inner)), cut_(cut), late_(late), gone_(gone), failed_(failed) {}
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    if (!cut_) return inner().post_send(peer, slot, from, context);
    swallowed_.complete(context, Outcome::done);
    return Post::accepted;
  }
  std::size_t poll(std::span<Completion> out) override {
    if (gone_ || !failed_.ok()) inner().close();
    const std::size_t swallowed = swallowed_.hand_out(out);
    const std::size_t count = late_ ? swallowed : swallowed + inner().poll(out.subspan(swallowed));
    for (Completion& one : out.first(failed_.ok() ? 0 : count)) one.outcome = Outcome::lost;
    return count;
  }
  Status error() const override { return failed_; }

 private:
  const bool& cut_;
  const bool& late_;  // what comes is not there yet
  const bool& gone_;  // its end is closed
  const Status& failed_;
  Ledger swallowed_;
};

/// Notes its naps, and takes none while nothing wakes it.
class Napping final : public ForwardingEndpoint {
 public:
  struct Nap {
    std::size_t card;
    std::chrono::microseconds limit;
  };
  Napping(std::unique_ptr<Endpoint> inner, std::size_t card, const bool& looks, std::vector<Nap>& naps)
      : ForwardingEndpoint(std::move(inner)), card_(card), looks_(looks), naps_(naps) {}
  bool wait_looks() const override { return looks_; }
  void wait(std::chrono::microseconds limit) override { naps_.push_back({card_, limit}); }

 private:
  const std::size_t card_;
  const bool& looks_;
  std::vector<Nap>& naps_;
};

/// Rank 0, and one or two others, which have as many rails as each other. Rail i of all lies on network i.
struct Ranks {
  explicit Ranks(std::size_t cards_of_0 = 2, std::size_t cards_of_others = 2, Rank ranks_of_world = 2)
      : size(ranks_of_world) {
    const std::size_t counts[3] = {cards_of_0, cards_of_others, cards_of_others};
    for (std::size_t i = 0; i < 4; ++i) transports.push_back(make_inproc_transport(make_inproc_fabric(size)));
    for (Rank rank = 0; rank < size; ++rank) {
      EndpointOptions options;
      options.self = rank;
      options.world_size = size;
      std::vector<Rail> rails;
      for (std::size_t i = 0; i < counts[rank]; ++i) {
        const std::string number = std::to_string(i);
        auto inner = *transports[i]->open(options);
        rails.push_back(
            {{"eth" + number, "net" + number, "10.0." + number + "." + std::to_string(rank + 1), 1000, true},
             std::make_unique<Napping>(
                 std::make_unique<Cable>(std::move(inner), cut[i], late[i], gone[rank][i], failed[rank][i]), i, looks,
                 naps)});
      }
      RailsOptions how;
      how.self = rank;
      how.world_size = size;
      how.host = rank == 0 ? "alpha" : rank == 1 ? "beta" : "gamma";
      how.patience = 6s;
      how.clock = clock;
      how.note = [this](const std::string& text, bool again) { notes.push_back(text), repeated.push_back(again); };
      ranks[rank] = *make_rails_endpoint(std::move(rails), how);
    }
    const auto each_pair = [&](const std::function<void(Rank, Rank)>& body) {
      for (Rank other = 1; other < size; ++other) body(0, other), body(other, 0);
    };
    each_pair([&](Rank one, Rank other) { EXPECT_TRUE(ranks[one]->add_peer(other, ranks[other]->address()).ok()); });
    // As the engine: each posts a receive before anybody sends, then all send.
    each_pair([&](Rank one, Rank other) { EXPECT_EQ(ranks[one]->post_recv(other, 1, eager, 100), Post::accepted); });
    each_pair([&](Rank one, Rank other) { EXPECT_EQ(ranks[one]->post_send(other, 1, eager, 101), Post::accepted); });
    turn(100);
  }
  void turn(int polls) {
    for (int i = 0; i < polls; ++i) {
      for (Rank rank = 0; rank < size; ++rank) {
        std::array<Completion, 8> out;
        const std::size_t count = ranks[rank]->poll(out);
        for (std::size_t c = 0; c < count; ++c) endings[rank][out[c].context] = out[c].outcome;
      }
    }
  }
  /// All poll while this much time passes.
  void pass(std::chrono::milliseconds time) {
    for (const Time until = clock->time + time; clock->time < until; clock->time += 20ms) turn(20);
  }
  const Rank size;
  std::vector<std::unique_ptr<Transport>> transports;
  std::shared_ptr<TurnedClock> clock = std::make_shared<TurnedClock>();
  bool cut[4] = {};
  bool late[4] = {};
  bool gone[3][4] = {};
  Status failed[3][4] = {};
  bool looks = false;  // no card has anything that wakes who waits
  std::vector<Napping::Nap> naps;
  std::vector<std::string> notes;
  std::vector<bool> repeated;  // each of them
  std::array<std::byte, 8> eager{};
  std::unique_ptr<Endpoint> ranks[3];
  std::map<std::uint64_t, Outcome> endings[3];
};

constexpr std::size_t large = 1 << 20;

TEST(RailsInUse, LargeMessagesTakeAllWaysOnceTheyAreOpenAndSmallOnesTheFirst) {
  Ranks world(3, 3);
  EXPECT_EQ(world.ranks[0]->way_from(1, large), 0u) << "nothing is known of the others yet";
  world.turn(100);
  EXPECT_EQ(world.ranks[0]->way_from(1, 8192), 0u);
  std::vector<std::byte> into(large);
  std::set<unsigned> ways;
  for (Slot number = 10; number < 13; ++number) {
    const unsigned way = world.ranks[0]->way_from(1, large);
    ways.insert(way);
    ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(number, way), into, number), Post::accepted);
    ASSERT_EQ(world.ranks[1]->post_send(0, slot_on_way(number, way), into, number), Post::accepted);
  }
  EXPECT_EQ(ways, (std::set<unsigned>{0, 1, 2}));
  world.turn(50);
  for (std::uint64_t context : {10, 11, 12}) EXPECT_EQ(world.endings[0].at(context), Outcome::done);
}

TEST(RailsInUse, CardsThatMoveOnlyWhileSomebodyLooksAreNotSleptOverForLong) {
  for (const bool looks : {false, true}) {
    Ranks world(3, 3);
    (void)world.ranks[0]->way_from(1, large);
    world.turn(100);
    std::vector<std::byte> into(large);
    for (const unsigned way : {1u, 2u})
      ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(10 + way, way), into, way), Post::accepted);
    world.looks = looks;
    world.naps.clear();
    for (int i = 0; i < 20; ++i) {
      world.ranks[0]->wait(100ms);
      world.turn(1);
    }
    ASSERT_EQ(world.naps.size(), 20u);
    std::chrono::microseconds longest{0};
    std::set<std::size_t> cards;
    for (const Napping::Nap& nap : world.naps) longest = std::max(longest, nap.limit), cards.insert(nap.card);
    EXPECT_EQ(longest, looks ? 1ms : 5ms);
    EXPECT_EQ(cards, looks ? (std::set<std::size_t>{0}) : (std::set<std::size_t>{0, 1, 2}))
        << "wake() is for the first";
  }
}

TEST(RailsInUse, UnequalNumbersOfCardsWork) {
  for (const auto& [one, other] : {std::pair<std::size_t, std::size_t>{3, 1}, {1, 4}, {2, 3}}) {
    Ranks world(one, other);
    (void)world.ranks[1]->way_from(0, large);
    world.turn(100);
    std::vector<std::byte> into(large);
    std::set<unsigned> ways;
    for (Slot number = 10; number < 20; ++number) {
      const unsigned way = world.ranks[1]->way_from(0, large);
      ways.insert(way);
      ASSERT_EQ(world.ranks[1]->post_recv(0, slot_on_way(number, way), into, number), Post::accepted);
    }
    EXPECT_EQ(ways.size(), std::min(one, other));
  }
}

TEST(RailsInUse, AWayThatNeverOpensIsLeftOutAndNotedOnce) {
  Ranks world;
  world.cut[1] = true;
  (void)world.ranks[0]->way_from(1, large);
  world.pass(20s);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.ranks[0]->way_from(1, large), 0u);
  EXPECT_TRUE(world.ranks[0]->peer_error(1).ok());
  ASSERT_EQ(world.notes.size(), 1u);
  EXPECT_THAT(world.notes[0], AllOf(HasSubstr("eth1"), HasSubstr("rank 1"), HasSubstr("beta"), HasSubstr("not used")));
  world.gone[1][1] = true;
  world.pass(1s);
  EXPECT_TRUE(world.ranks[0]->peer_error(1).ok());
  EXPECT_EQ(world.notes.size(), 1u) << "that its end closes later is no news: " << world.notes.back();
}

TEST(RailsInUse, ACutWayEndsThePeerAndNamesCardRankAndHost) {
  for (const std::size_t broken : {0u, 1u}) {
    Ranks world;
    (void)world.ranks[0]->way_from(1, large);
    world.turn(100);
    std::vector<std::byte> into(large);
    for (unsigned way : {0u, 1u})
      ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(10, way), into, 10 + way), Post::accepted);
    world.pass(10s);
    ASSERT_TRUE(world.ranks[0]->peer_error(1).ok()) << "waiting is no failure";
    world.cut[broken] = true;
    world.pass(5s);
    EXPECT_TRUE(world.ranks[0]->peer_error(1).ok()) << "not before the setting";
    world.pass(5s);
    const Status why = world.ranks[0]->peer_error(1);
    EXPECT_EQ(why.code(), ErrorCode::peer_lost);
    EXPECT_EQ(why.context().rank, 1);
    const std::string name = "card eth" + std::to_string(broken);
    EXPECT_THAT(why.message(),
                AllOf(HasSubstr(name), HasSubstr("rank 1"), HasSubstr("host beta"), HasSubstr("host alpha")));
    EXPECT_EQ(world.endings[0].at(10 + broken), Outcome::lost);
    EXPECT_FALSE(world.endings[0].contains(11 - broken)) << "closed at once, the other card would be blamed";
    EXPECT_TRUE(world.ranks[1]->peer_error(0).ok()) << world.ranks[1]->peer_error(0).message();
    ASSERT_EQ(world.ranks[0]->post_recv(1, 20, into, 20), Post::accepted);
    world.ranks[0]->disconnect(1);
    world.turn(10);
    for (std::uint64_t context : {std::uint64_t{20}, 11 - broken})
      EXPECT_NE(world.endings[0].at(context), Outcome::done);
  }
}

TEST(RailsInUse, AWayThatGoesSilentWithNothingUnderWayIsLeftOutAndNoted) {
  Ranks world;
  (void)world.ranks[0]->way_from(1, large);
  world.turn(100);
  std::vector<std::byte> into(large);
  ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(10, 1), into, 10), Post::accepted);
  ASSERT_EQ(world.ranks[1]->post_send(0, slot_on_way(10, 1), into, 10), Post::accepted);
  world.turn(50);
  ASSERT_EQ(world.endings[0].at(10), Outcome::done) << "it was in use";
  ASSERT_TRUE(world.notes.empty()) << world.notes[0];
  world.cut[1] = true;
  world.pass(20s);
  EXPECT_TRUE(world.ranks[0]->peer_error(1).ok()) << world.ranks[0]->peer_error(1).message();
  ASSERT_EQ(world.notes.size(), 1u);
  EXPECT_THAT(world.notes[0], AllOf(HasSubstr("eth1"), HasSubstr("rank 1"), HasSubstr("beta"),
                                    HasSubstr("is not used any more: nothing came through for")));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.ranks[0]->way_from(1, large), 0u);
  ASSERT_EQ(world.ranks[0]->post_recv(1, 11, into, 11), Post::accepted);
  ASSERT_EQ(world.ranks[1]->post_send(0, 11, into, 11), Post::accepted);
  world.turn(50);
  EXPECT_EQ(world.endings[0].at(11), Outcome::done);
}

TEST(RailsInUse, ANoteIsARepetitionOnlyOfTheSameCardAndKind) {
  Ranks world(3, 3, 3);
  world.cut[1] = true;
  for (const Rank peer : {1, 2}) (void)world.ranks[0]->way_from(peer, large);
  world.pass(20s);
  EXPECT_THAT(world.notes, ElementsAre(HasSubstr("card eth1"), HasSubstr("card eth1"))) << "of peers 1 and 2";
  EXPECT_THAT(world.repeated, ElementsAre(false, true));
  world.cut[2] = true;
  world.pass(20s);
  EXPECT_THAT(world.repeated, ElementsAre(false, true, false, true));
  EXPECT_THAT(world.notes.at(2), AllOf(HasSubstr("card eth2"), HasSubstr("is not used any more")));
}

TEST(RailsInUse, ACardThatFailsWithDataUnderWayIsThisRanksFaultAndNoPeers) {
  for (const bool data : {true, false}) {
    Ranks world;
    (void)world.ranks[0]->way_from(1, large);
    world.turn(100);
    std::vector<std::byte> into(large);
    if (data) {
      ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(10, 1), into, 10), Post::accepted);
    }
    world.failed[0][1] = Status(ErrorCode::transport_error, "its queue has overrun");
    world.turn(50);
    const Status why = world.ranks[0]->error();
    EXPECT_EQ(world.endings[0].contains(10), data);
    EXPECT_EQ(why.ok(), !data) << "without data on it the rank goes on";
    if (!data) continue;
    EXPECT_EQ(why.code(), ErrorCode::transport_error);
    EXPECT_THAT(why.message(), HasSubstr("card eth1: its queue has overrun"));
    EXPECT_EQ(why.context().rank, -1);
  }
}

TEST(RailsInUse, APeerThatIsSilentOnAllWaysIsNotBlamedOnACard) {
  Ranks world;
  (void)world.ranks[0]->way_from(1, large);
  world.turn(100);
  for (int i = 0; i < 5000; ++i) {  // rank 1 does not poll, for 100 s
    world.clock->time += 20ms;
    std::array<Completion, 8> out;
    for (int polls = 0; polls < 20; ++polls) (void)world.ranks[0]->poll(out);
  }
  EXPECT_TRUE(world.ranks[0]->peer_error(1).ok());
  world.clock->time += 1000s;  // now rank 0 was away as well
  world.pass(20s);
  EXPECT_TRUE(world.ranks[0]->peer_error(1).ok()) << world.ranks[0]->peer_error(1).message();
}

TEST(RailsInUse, APeerThatWasAwayAndAnswersOnOneWayFirstIsNotBlamedOnTheOther) {
  for (const std::size_t last : {0u, 1u}) {
    Ranks world;
    (void)world.ranks[0]->way_from(1, large);
    world.turn(100);
    std::array<Completion, 8> out;
    const auto listen = [&] {
      for (int polls = 0; polls < 20; ++polls) (void)world.ranks[0]->poll(out);
    };
    for (int i = 0; i < 5000; ++i) {  // rank 1 does not poll, for 100 s
      world.clock->time += 20ms;
      listen();
    }
    for (int polls = 0; polls < 40; ++polls) (void)world.ranks[1]->poll(out);
    world.late[last] = true;
    listen();
    world.late[last] = false;
    world.pass(20s);
    EXPECT_TRUE(world.ranks[0]->peer_error(1).ok()) << world.ranks[0]->peer_error(1).message();
    EXPECT_TRUE(world.notes.empty()) << world.notes.front();
  }
}

TEST(RailsInUse, TheEndOfAPeerOnOneWayIsItsEnd) {
  Ranks world;
  std::vector<std::byte> into(large);
  for (unsigned way : {0u, 1u})
    ASSERT_EQ(world.ranks[0]->post_recv(1, slot_on_way(10, way), into, 10 + way), Post::accepted);
  world.ranks[1].reset();
  std::array<Completion, 8> out;
  for (int i = 0; i < 50; ++i) {
    const std::size_t count = world.ranks[0]->poll(out);
    for (std::size_t c = 0; c < count; ++c) world.endings[0][out[c].context] = out[c].outcome;
  }
  for (std::uint64_t context : {10, 11}) EXPECT_EQ(world.endings[0].at(context), Outcome::lost);
  EXPECT_THAT(world.ranks[0]->peer_error(1).message(), AllOf(HasSubstr("card eth"), HasSubstr("rank 1")));
}

TEST(RailsInUse, AGrantOnAWayThatIsNotThereLosesThePeer) {
  Ranks world;
  RailsOptions how;
  how.world_size = 2;
  how.leaves = [](const Card&, const std::string&) { return Leaves::by_another; };
  EndpointOptions options;
  options.world_size = 2;
  std::vector<Rail> rails;
  for (std::size_t i = 0; i < 2; ++i)
    rails.push_back({{"eth" + std::to_string(i), "net" + std::to_string(i), "10.0.0.1", 0, true},
                     *world.transports[i]->open(options)});
  auto endpoint = *make_rails_endpoint(std::move(rails), how);
  ASSERT_TRUE(endpoint->add_peer(1, world.ranks[1]->address()).ok());
  std::array<std::byte, 8> bytes{};
  ASSERT_EQ(endpoint->post_send(1, slot_on_way(3, 1), bytes, 7), Post::accepted);
  std::array<Completion, 8> out;
  ASSERT_EQ(endpoint->poll(out), 1u);
  EXPECT_EQ(out[0].outcome, Outcome::lost);
  EXPECT_THAT(endpoint->peer_error(1).message(), HasSubstr("not open"));
}

// The second card of a network is of no use where the kernel sends by the first: that is half of the speed.
TEST(RailsInUse, ACardByWhichNothingWouldLeaveIsToldOnceWithWhatToDo) {
  for (const bool one_network : {true, false}) {
    std::vector<std::string> notes;
    std::unique_ptr<Endpoint> ranks[3];
    std::vector<std::shared_ptr<Transport>> fabrics;
    for (int i = 0; i < 2; ++i) fabrics.push_back(make_inproc_transport(make_inproc_fabric(3)));
    for (Rank rank = 0; rank < 3; ++rank) {
      std::vector<Rail> rails;
      for (std::size_t i = 0; i < 2; ++i) {
        EndpointOptions options;
        options.self = rank;
        options.world_size = 3;
        const std::string network = one_network || i == 0 ? "10.0.0.0/24" : "10.0." + std::to_string(rank) + ".0/30";
        rails.push_back({{"eth" + std::to_string(i), network, fmt::format("10.0.0.{}", 1 + rank + 32 * i), 0, true},
                         *fabrics[i]->open(options)});
      }
      RailsOptions how;
      how.self = rank;
      how.world_size = 3;
      how.host = "host" + std::to_string(rank);
      how.leaves = [](const Card&, const std::string&) { return Leaves::by_another; };
      if (rank == 0) how.note = [&](const std::string& text, bool) { notes.push_back(text); };
      ranks[rank] = *make_rails_endpoint(std::move(rails), std::move(how));
    }
    for (const Rank peer : {1, 2}) ASSERT_TRUE(ranks[0]->add_peer(peer, ranks[peer]->address()).ok());
    if (!one_network) {
      EXPECT_TRUE(notes.empty()) << notes[0];
      continue;
    }
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0], AllOf(HasSubstr("card eth1 carries nothing to rank 1 on host host1"),
                                HasSubstr("ip rule add from 10.0.0.33 table"), HasSubstr("10.0.0.0/24 dev eth1")));
  }
}

// What goes to an address of this host leaves by no card, which is no fault of its routes.
TEST(RailsInUse, RanksOfOneHostTakeTheFirstCardWithoutAWord) {
  std::vector<std::string> notes;
  std::unique_ptr<Endpoint> ranks[3];
  std::vector<std::shared_ptr<Transport>> fabrics;
  for (int i = 0; i < 2; ++i) fabrics.push_back(make_inproc_transport(make_inproc_fabric(3)));
  for (Rank rank = 0; rank < 3; ++rank) {
    const std::string here = rank == 2 ? "2" : "1";  // ranks 0 and 1 are on one host
    std::vector<Rail> rails;
    for (std::size_t i = 0; i < 2; ++i) {
      EndpointOptions options;
      options.self = rank;
      options.world_size = 3;
      rails.push_back({{"eth" + std::to_string(i), "10.0.0.0/24", fmt::format("10.0.0.{}{}", i + 1, here), 0, true},
                       *fabrics[i]->open(options)});
    }
    RailsOptions how;
    how.self = rank;
    how.world_size = 3;
    how.host = "host" + here;
    how.leaves = [here](const Card&, const std::string& to) {
      return to.ends_with(here) ? Leaves::by_none : Leaves::by_another;
    };
    if (rank == 0) how.note = [&](const std::string& text, bool) { notes.push_back(text); };
    ranks[rank] = *make_rails_endpoint(std::move(rails), std::move(how));
  }
  ASSERT_TRUE(ranks[0]->add_peer(1, ranks[1]->address()).ok());
  EXPECT_TRUE(notes.empty()) << notes[0];
  EXPECT_EQ(ranks[0]->way_from(1, large), 0u);
  ASSERT_TRUE(ranks[0]->add_peer(2, ranks[2]->address()).ok());
  ASSERT_EQ(notes.size(), 1u) << "the true one is still told";
  EXPECT_THAT(notes[0], HasSubstr("carries nothing to rank 2 on host host2"));
}

TEST(RailsInUse, OfNoCardsOrTooManyThereIsNoEndpoint) {
  EXPECT_EQ(make_rails_endpoint({}, {}).error().code(), ErrorCode::invalid_argument);
  std::vector<Rail> many(most_rails + 1);
  EXPECT_THAT(make_rails_endpoint(std::move(many), {}).error().message(), HasSubstr("17 network cards"));
}

// ---- memory of GPUs ------------------------------------------------------------------------------------------------

// Reaches memory of GPUs, or does not.
class Reaching final : public ForwardingEndpoint {
 public:
  Reaching(std::unique_ptr<Endpoint> inner, std::string refusal, int* held)
      : ForwardingEndpoint(std::move(inner)), refusal_(std::move(refusal)), held_(held) {}
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank>, std::span<const std::byte>) override {
    if (!refusal_.empty()) return Status(ErrorCode::unavailable, refusal_);
    ++*held_;
    return std::shared_ptr<const void>(held_, [](const void* held) { --*static_cast<int*>(const_cast<void*>(held)); });
  }
  bool reaches_devices() const override { return refusal_.empty(); }
  std::string device_path() const override { return refusal_.empty() ? "direct" : "staged: " + refusal_; }

 private:
  const std::string refusal_;
  int* const held_;
};

TEST(RailsOfGpus, EveryCardMustReachTheMemoryAndTheOneThatDoesNotIsNamed) {
  const std::byte memory[16] = {};
  const Rank peer = 1;
  for (const auto& [first, second] : {std::pair("", ""), std::pair("", "no module"), std::pair("no module", "")}) {
    int held = 0;
    std::vector<Rail> rails;
    for (const char* refusal : {first, second}) {
      EndpointOptions options;
      options.world_size = 2;
      auto inner = make_inproc_transport(make_inproc_fabric(2))->open(options);
      ASSERT_TRUE(inner);
      rails.push_back(
          {card(rails.empty() ? "eth0" : "eth1", "n"), std::make_unique<Reaching>(std::move(*inner), refusal, &held)});
    }
    RailsOptions options;
    options.world_size = 2;
    const auto all = make_rails_endpoint(std::move(rails), std::move(options));
    ASSERT_TRUE(all) << all.error().message();
    const bool both = *first == '\0' && *second == '\0';
    EXPECT_EQ((*all)->reaches_devices(), both);
    {
      const auto admitted = (*all)->admit_device_memory({&peer, 1}, memory);
      EXPECT_EQ(admitted.has_value(), both);
      EXPECT_EQ(held, both ? 2 : 0);
      if (!both) {
        EXPECT_EQ(admitted.error().message(), *first != '\0' ? "card eth0: no module" : "card eth1: no module");
      }
    }
    EXPECT_EQ(held, 0);
    EXPECT_THAT((*all)->device_path(), AllOf(HasSubstr("card eth0: "), HasSubstr("card eth1: ")));
  }
}

}  // namespace
}  // namespace fabring::rails
