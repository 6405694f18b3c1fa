// Worlds of control planes whose tree is cut: those who stay join again and hear all.

#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <map>
#include <random>
#include <set>

#include "tests/runtime/control/puppet.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using testing::HasSubstr;

constexpr std::uint64_t group = 7;

// What a rank was told of lost ranks; `group` counts as -7.
std::set<Rank> told(World& world, Rank rank, std::size_t count) {
  std::set<Rank> named;
  for (const Failure& failure : world.of(rank).wait_for(count))
    named.insert(failure.communicator == group ? -static_cast<Rank>(group) : failure.culprit);
  return named;
}

void expect_all_told(World& world, const std::set<Rank>& absent, std::set<Rank> lost) {
  lost.insert(-static_cast<Rank>(group));
  for (Rank rank = 0; rank < world.config.world_size; ++rank) {
    if (absent.contains(rank)) continue;
    EXPECT_EQ(told(world, rank, lost.size()), lost) << "rank " << rank;
    EXPECT_EQ(world.of(rank).count(), lost.size()) << "rank " << rank << " hears of each once";
  }
}

Failure abort_of_group() { return {ErrorCode::aborted, -1, -1, group, "the group is aborted"}; }

struct Cut {
  const char* name;
  int world;
  std::set<Rank> victims;
};
class CutBy : public testing::TestWithParam<Cut> {};

TEST_P(CutBy, DeathsAllWhoStayHearOfThemAndOfWhatComesAfter) {
  const auto& [name, size, victims] = GetParam();
  World world(size);
  world.start();
  for (const Rank victim : victims) world.kill(victim);
  Rank reporter = size - 1;
  while (victims.contains(reporter)) --reporter;
  world.plane(reporter).report(abort_of_group());
  expect_all_told(world, victims, victims);
  world.each([&](Rank rank) {
    if (victims.contains(rank)) return;
    const Status left = world.plane(rank).leave(patience);
    EXPECT_TRUE(left.ok()) << "rank " << rank << ": " << left.to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(Each, CutBy,
                         testing::Values(Cut{"TheRoot", 4, {0}}, Cut{"TheRootOfMany", 20, {0}},
                                         Cut{"AnInnerRank", 20, {1}}, Cut{"AParentAndItsChildren", 20, {1, 9, 10}},
                                         Cut{"TheRootAndTheNext", 9, {0, 1}},
                                         Cut{"AHost", 24, {0, 1, 2, 3, 4, 5, 6, 7}},
                                         Cut{"AllButTwo", 8, {0, 2, 3, 4, 6, 7}}, Cut{"OneBranch", 90, {0, 1, 9, 10}}),
                         [](const auto& row) { return row.param.name; });

TEST(ControlRepair, WhoStaysAfterEarlyLeaversHearsAllAndOfNoDeath) {
  World world(20);
  world.start();
  for (const Rank rank : {0, 1}) {
    EXPECT_EQ(world.plane(rank).leave(1ms).code(), ErrorCode::timeout);
    world.kill(rank);
  }
  world.plane(19).report(abort_of_group());
  expect_all_told(world, {0, 1}, {});
  world.each([&](Rank rank) {
    if (rank < 2) return;
    const Status left = world.plane(rank).leave(patience);
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
  for (Rank rank = 2; rank < 20; ++rank) EXPECT_EQ(world.of(rank).count(), 1u);
}

// A goodbye is no failure and costs no time: not all of them leave at once, and each of their parents first.
TEST(ControlRepair, RanksThatLeaveOneAfterTheOtherAreNoDeath) {
  World world(20);
  world.start();
  std::atomic<int> said{0};
  for (Rank rank = 0; rank < 20; ++rank) world.plane(rank).on_goodbye([&](Rank, const std::string&) { ++said; });
  world.each([&](Rank rank) {
    EXPECT_TRUE(world.plane(rank).leave(patience).ok()) << rank;
    world.kill(rank);
  });
  EXPECT_EQ(said.load(), 20 * 19);
  for (Rank rank = 0; rank < 20; ++rank) EXPECT_EQ(world.of(rank).count(), 0u);
}

TEST(ControlRepair, QuestionsAndLettersGoTheNewWay) {
  World world(20);
  world.start();
  for (Rank rank = 0; rank < 20; ++rank)
    world.plane(rank).on_question([&world, rank](std::uint64_t token) {
      world.plane(rank).give_state(token, "state of " + std::to_string(rank));
    });
  std::promise<std::string> letter;
  world.plane(2).on_letter(
      [&](Rank from, std::string_view text) { letter.set_value(std::to_string(from) + ":" + std::string(text)); });
  world.kill(0);
  world.kill(1);
  const auto end = steady_clock::now() + patience;
  const auto hears_of_all = [&](Rank self) {
    for (Rank rank = 2; rank < 20; ++rank)
      if (!world.plane(self).hears_of(rank)) return false;
    return true;
  };
  for (Rank rank = 2; rank < 20; ++rank)
    while (!hears_of_all(rank) && steady_clock::now() < end) std::this_thread::yield();
  const auto all = world.plane(19).ask_states(patience);
  for (const RankNews& news : all) {
    if (news.rank == 19) continue;
    EXPECT_EQ(news.presence, news.rank < 2 ? RankNews::Presence::unreachable : RankNews::Presence::answered)
        << news.rank;
  }
  world.plane(19).send_letter(2, "hello");
  auto came = letter.get_future();
  ASSERT_EQ(came.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(came.get(), "19:hello");
}

// The rank that all should ask stands still for a while: they go on without it, and it is lost to nobody.
TEST(ControlRepair, AParentThatIsStoppedAndComesBackIsNotLost) {
  World world(12);
  world.start();
  // Before rank 0 is killed, else some have rank 1 as their parent already, and hear nothing until they give it up.
  StandingStill standing(world.plane(1));
  world.kill(0);
  world.plane(5).report(abort_of_group());
  const std::set<Rank> all{0, -static_cast<Rank>(group)};
  for (Rank rank = 2; rank < 9; ++rank) EXPECT_EQ(told(world, rank, 2), all) << rank;
  standing.go_on();
  expect_all_told(world, {0}, {0});
  world.each([&](Rank rank) {
    if (rank == 0) return;
    EXPECT_TRUE(world.plane(rank).leave(patience).ok()) << rank;
  });
}

// Rank 2 stands still while its parent dies and then its child, so that it hears of both at once, in this order. While
// it looks whether its parent takes it back it accuses its child.
TEST(ControlRepair, WhoLosesItsParentAndAChildAtOnceIsBackWithAllBelowIt) {
  World world(25);
  world.start();
  StandingStill standing(world.plane(2));
  world.kill(0);
  world.kill(17);
  standing.go_on();
  world.plane(1).report(abort_of_group());
  expect_all_told(world, {0, 17}, {0, 17});
}

// It was silent for too long, and finds its connections closed when it goes on.
TEST(ControlRepair, WhoIsGivenUpIsToldSoAndThoseBelowItGoOnWithoutIt) {
  ControlOptions options;
  options.heartbeat = 50ms;
  options.note_silence_after = 500ms;
  World world(90, options);
  world.log = Log(LogLevel::error, -1);
  world.config.silence_timeout = 5s;  // far more than any other rank may be kept from its processor
  world.start();
  std::promise<void> go_on;
  world.plane(9).after(0ms, [until = go_on.get_future().share()] { until.wait(); });  // below 1, above 73 to 80
  for (Rank rank = 0; rank < 90; ++rank) {
    if (rank == 9) continue;
    EXPECT_EQ(told(world, rank, 1), std::set<Rank>{9}) << rank;
  }
  go_on.set_value();
  const auto end = steady_clock::now() + patience;
  const auto told_itself = [&] {
    const auto failures = world.of(9).wait_for(1);
    return std::ranges::any_of(failures, [](const Failure& failure) { return failure.culprit == 9; });
  };
  while (!told_itself() && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(told_itself());
  world.plane(80).report(abort_of_group());
  expect_all_told(world, {9}, {9});
}

TEST(ControlRepair, ADeathIsHeardAfterMoreFailuresOfCommunicatorsThanAreKept) {
  constexpr std::uint64_t many = 65536 + 10;
  World world(3);
  world.start();
  for (std::uint64_t communicator = 1; communicator <= many; ++communicator)
    world.plane(0).report({ErrorCode::aborted, -1, -1, communicator, ""});
  const std::map<Rank, std::size_t> heard{{0, many}, {1, 65536}};  // one's own end here all the same
  for (const auto& [rank, failures] : heard) EXPECT_EQ(world.of(rank).wait_for(failures).size(), failures);
  world.kill(2);
  for (const auto& [rank, failures] : heard) {
    const auto all = world.of(rank).wait_for(failures + 1);
    ASSERT_EQ(all.size(), failures + 1);
    EXPECT_EQ(all.back().culprit, 2);
  }
}

// Six ranks that are up and mute, and then end; and one below the first of them that has ended, of which nobody hears.
TEST(ControlRepair, WhereMoreRanksAreToBeLookedAtThanThereIsRoomForEachIsAndOrphansToo) {
  ControlOptions options;
  options.heartbeat = 100ms;
  options.most_looks = 2;
  World world(10, options);
  world.config.silence_timeout = 2 * patience;
  world.planes.resize(world.heard.size());
  std::vector<std::thread> others;
  for (const Rank rank : {0, 7, 8}) others.emplace_back([&world, rank] { world.begin(rank); });
  std::vector<std::unique_ptr<Puppet>> mute;
  for (Rank rank = 1; rank <= 6; ++rank) mute.push_back(std::make_unique<Puppet>(world.board, world, rank));
  mute.front()->say_identity(9, "127.0.0.1:1");
  mute.front()->run_until([&] { return mute.front()->queued_bytes() == 0; });
  for (auto& thread : others) thread.join();

  std::mutex mutex;
  std::set<Rank> ended;
  world.plane(0).on_ended([&](Rank rank) {
    const std::lock_guard lock(mutex);
    ended.insert(rank);
  });
  const auto look_at_all = [&] {
    for (Rank rank = 1; rank <= 6; ++rank) world.plane(0).look_whether_ended(rank);
  };
  look_at_all();
  for (auto& puppet : mute) puppet->shut_door();
  look_at_all();
  EXPECT_EQ(told(world, 0, 6), (std::set<Rank>{1, 2, 3, 4, 5, 6}));
  mute.clear();
  EXPECT_EQ(told(world, 0, 7), (std::set<Rank>{1, 2, 3, 4, 5, 6, 9}));
  world.kill(0);  // no more is said of who has ended
  EXPECT_EQ(ended, (std::set<Rank>{1, 2, 3, 4, 5, 6, 9}));
}

// Deaths and goodbyes in any order, at any moment of the repair before.
TEST(ControlRepair, WhateverHappensToRanksThoseWhoStayHearOfEach) {
  for (const unsigned seed : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, std::random_device{}()}) {
    std::mt19937 random(seed);
    const int size = std::uniform_int_distribution<int>(3, 40)(random);
    World world(size);
    world.start();
    std::set<Rank> absent, dead;
    const auto count = std::uniform_int_distribution<std::size_t>(1, static_cast<std::size_t>(size) - 2)(random);
    while (absent.size() < count) {
      const Rank rank = random() % 2 == 0 ? std::uniform_int_distribution<Rank>(0, size - 1)(random)
                                          : std::uniform_int_distribution<Rank>(0, std::min(size - 1, 9))(random);
      if (!absent.insert(rank).second) continue;
      dead.insert(rank);
      world.kill(rank);
      if (random() % 3 == 0) std::this_thread::yield();
    }
    Rank reporter = std::uniform_int_distribution<Rank>(0, size - 1)(random);
    while (absent.contains(reporter)) reporter = (reporter + 1) % size;
    world.plane(reporter).report(abort_of_group());
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(size) + " ranks");
    expect_all_told(world, absent, dead);
  }
}

}  // namespace
}  // namespace fabring
