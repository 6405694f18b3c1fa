// Worlds of control planes: exchanges, failures, deaths and leaving.

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <set>

#include "tests/runtime/control/control_world.hpp"
#include "tests/support/tcp_sockets.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

class ControlOf : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { world_.start(); }
  World world_{GetParam()};
};

TEST_P(ControlOf, EveryRankGetsEveryBlob) {
  world_.each([&](Rank self) {
    for (int round = 0; round < 5; ++round) {
      const auto blob = [&](Rank rank) {
        return std::string(static_cast<std::size_t>(rank * 100 + round), static_cast<char>('a' + rank));
      };
      const auto all = world_.plane(self).all_gather(blob(self));
      ASSERT_TRUE(all.has_value()) << all.error().to_string();
      ASSERT_EQ(static_cast<int>(all->size()), GetParam());
      for (Rank rank = 0; rank < GetParam(); ++rank) EXPECT_EQ((*all)[static_cast<std::size_t>(rank)], blob(rank));
    }
    EXPECT_FALSE(world_.plane(self).host_of(GetParam() - 1).empty());
  });
}

TEST_P(ControlOf, AReportOfAnyRankReachesEveryRankOnce) {
  const Rank reporter = GetParam() - 1;
  world_.plane(reporter).report({ErrorCode::mismatch, 0, -1, 7, "rank 0 called something else"});
  world_.plane(reporter).report({ErrorCode::internal, 0, -1, 7, "a second failure of the same communicator"});
  for (Rank rank = 0; rank < GetParam(); ++rank) {
    const auto failure = world_.of(rank).first();
    ASSERT_TRUE(failure.has_value()) << "rank " << rank;
    EXPECT_EQ(failure->code, ErrorCode::mismatch);
    EXPECT_EQ(failure->reporter, reporter);
    EXPECT_EQ(failure->communicator, 7u);
    EXPECT_EQ(failure->text, "rank 0 called something else");
  }
  world_.each(
      [&](Rank rank) { EXPECT_TRUE(world_.plane(rank).all_gather("x").has_value()) << "only communicator 7 failed"; });
  for (Rank rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(world_.of(rank).count(), 1u);
}

TEST_P(ControlOf, ARefusedCallReachesEveryOtherRankAndSoDoesItsWithdrawal) {
  std::vector<std::vector<RefusedCall>> told(static_cast<std::size_t>(GetParam()));
  for (Rank rank = 0; rank < GetParam(); ++rank)
    world_.plane(rank).on_refusal(
        [&mine = told[static_cast<std::size_t>(rank)]](const RefusedCall& refusal) { mine.push_back(refusal); });
  const Rank refuser = GetParam() / 2;
  world_.plane(refuser).tell({-1, 7, 4, "there is no root\n7" + std::string(2000, 'x')});
  world_.plane(refuser).tell({-1, 7, 4, ""});
  world_.each([&](Rank rank) { ASSERT_TRUE(world_.plane(rank).all_gather("").has_value()); });  // they have come by now
  for (Rank rank = 0; rank < GetParam(); ++rank) {
    const auto& mine = told[static_cast<std::size_t>(rank)];
    ASSERT_EQ(mine.size(), rank == refuser ? 0u : 2u) << "rank " << rank;
    if (rank == refuser) continue;
    EXPECT_EQ(mine[0].rank, refuser);
    EXPECT_EQ(mine[0].communicator, 7u);
    EXPECT_EQ(mine[0].sequence, 4u);
    EXPECT_THAT(mine[0].text, testing::StartsWith("there is no root?7xxx"));
    EXPECT_EQ(mine[0].text.size(), 1024u);
    EXPECT_EQ(mine[1].text, "");
  }
}

TEST_P(ControlOf, AGoodbyeBringsItsAccountToEveryOtherRank) {
  std::mutex mutex;
  std::map<std::pair<Rank, Rank>, std::string> heard;  // by who left and who heard it
  for (Rank rank = 0; rank < GetParam(); ++rank) {
    world_.plane(rank).on_goodbye([&, rank](Rank from, const std::string& account) {
      const std::lock_guard lock(mutex);
      heard[{from, rank}] = account;
    });
    world_.plane(rank).set_account(std::string("\0\x1f", 2) + std::to_string(rank));  // any bytes
  }
  world_.each([&](Rank rank) { EXPECT_TRUE(world_.plane(rank).leave(patience).ok()); });
  const std::lock_guard lock(mutex);
  EXPECT_EQ(heard.size(), static_cast<std::size_t>(GetParam() * (GetParam() - 1)));
  for (const auto& [who, account] : heard) EXPECT_EQ(account, std::string("\0\x1f", 2) + std::to_string(who.first));
}

TEST_P(ControlOf, ALetterReachesTheRankItIsForAndNoOther) {
  const int size = GetParam();
  std::mutex mutex;
  std::map<Rank, std::vector<std::string>> heard;
  std::atomic<int> letters{0};
  for (Rank rank = 0; rank < size; ++rank)
    world_.plane(rank).on_letter([&, rank](Rank from, std::string_view letter) {
      const std::lock_guard lock(mutex);
      heard[rank].push_back(std::to_string(from) + ":" + std::string(letter));
      ++letters;
    });
  for (Rank rank = 0; rank < size; ++rank)
    for (const char* text : {"first", "second"}) world_.plane(rank).send_letter((rank + 1) % size, text);
  world_.plane(0).send_letter(size, "to nobody");
  const auto end = steady_clock::now() + patience;
  while (letters < (size > 1 ? 2 * size : 0) && steady_clock::now() < end) std::this_thread::yield();
  const std::lock_guard lock(mutex);
  for (Rank rank = 0; size > 1 && rank < size; ++rank) {
    const std::string from = std::to_string((rank + size - 1) % size);
    EXPECT_EQ(heard[rank], (std::vector<std::string>{from + ":first", from + ":second"}));
  }
}

TEST(ControlPlane, WhatIsToComeLaterComesInTheControlThreadOrNeverOnceTheRankIsGone) {
  World world(2);
  world.start();
  std::promise<std::thread::id> ran;
  world.plane(0).after(1ms, [&] { ran.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  std::atomic<bool> too_late{false};
  world.plane(0).after(1h, [&] { too_late = true; });
  world.each([&](Rank rank) {
    EXPECT_TRUE(world.plane(rank).leave(patience).ok());
    world.kill(rank);
  });
  EXPECT_FALSE(too_late.load());
}

TEST_P(ControlOf, LeavingTogetherSucceedsAndIsNoDeath) {
  world_.each([&](Rank rank) {
    const Status left = world_.plane(rank).leave(patience);
    EXPECT_TRUE(left.ok()) << left.to_string();
    world_.kill(rank);
  });
  for (Rank rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(world_.of(rank).count(), 0u);
}

TEST_P(ControlOf, AQuestionGetsTheAnswerOfEveryOtherRank) {
  for (Rank rank = 0; rank < GetParam(); ++rank)
    world_.plane(rank).on_question([this, rank](std::uint64_t token) {
      world_.plane(rank).give_state(token, "state of " + std::to_string(rank));
    });
  world_.each([&](Rank self) {
    for (int round = 0; round < 3; ++round) {
      const auto all = world_.plane(self).ask_states(patience);
      ASSERT_EQ(static_cast<int>(all.size()), GetParam());
      for (const RankNews& news : all) {
        if (news.rank == self) continue;
        EXPECT_EQ(news.presence, RankNews::Presence::answered) << news.rank;
        EXPECT_EQ(news.state, "state of " + std::to_string(news.rank));
        EXPECT_FALSE(news.host.empty());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, ControlOf, testing::Values(1, 2, 3, 9, 10, 20));

struct Death {
  int world;
  Rank victim;
};
class DeathOf : public testing::TestWithParam<Death> {};

TEST_P(DeathOf, IsNamedOnAllSurvivors) {
  const auto [size, victim] = GetParam();
  World world(size);
  world.start();
  world.kill(victim);
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const auto failure = world.of(rank).first();
    ASSERT_TRUE(failure.has_value()) << "rank " << rank;
    EXPECT_EQ(failure->code, ErrorCode::peer_lost);
    EXPECT_EQ(failure->culprit, victim);
    EXPECT_EQ(failure->communicator, 0u);
    EXPECT_THAT(failure->text, HasSubstr("rank " + std::to_string(victim) + " (host "));
    EXPECT_THAT(failure->text, HasSubstr("died"));  // and was not just silent for long
  }
  world.each([&](Rank rank) {
    if (rank == victim) return;
    const auto gathered = world.plane(rank).all_gather("x");
    ASSERT_FALSE(gathered.has_value());
    EXPECT_EQ(gathered.error().code(), ErrorCode::peer_lost);
    EXPECT_EQ(gathered.error().context().rank, victim);
    EXPECT_EQ(gathered.error().context().host, world.plane(rank).host_of(victim));
    const Status left = world.plane(rank).leave(patience);
    EXPECT_TRUE(left.ok()) << "survivors do not wait for the dead: " << left.to_string();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Of, DeathOf, testing::Values(Death{2, 0}, Death{2, 1}, Death{9, 0}, Death{20, 1}, Death{20, 19}, Death{20, 0}),
    [](const auto& row) { return "Rank" + std::to_string(row.param.victim) + "Of" + std::to_string(row.param.world); });

// A group that has only the last of them waits for that one.
TEST(ControlPlane, TheKernelEndsNoLinkWithinTheSilenceAllowed) {
  World world(2);
  world.config.silence_timeout = 2h;
  world.start();
  const std::vector<int> both = tests::sockets_in(TCP_ESTABLISHED);
  ASSERT_EQ(both.size(), 2u);
  for (const int fd : both) EXPECT_GT(tests::user_timeout_of(fd), 2h);
}

TEST(ControlPlane, OfSeveralDeathsEachIsNamedOnAllSurvivors) {
  World world(20);
  world.start();
  const std::set<Rank> victims{18, 3, 19};
  for (const Rank victim : victims) world.kill(victim);
  for (Rank rank = 0; rank < 20; ++rank) {
    if (victims.contains(rank)) continue;
    std::set<Rank> named;
    for (const Failure& failure : world.of(rank).wait_for(victims.size())) {
      EXPECT_EQ(failure.code, ErrorCode::peer_lost);
      EXPECT_EQ(failure.communicator, 0u);
      EXPECT_TRUE(named.insert(failure.culprit).second) << "rank " << rank << " hears of each once";
    }
    EXPECT_EQ(named, victims) << "rank " << rank;
  }
}

// It was stopped, say, and now finds that everybody has gone.
TEST(ControlPlane, WhoIsGivenUpIsNotBelieved) {
  World world(12);
  world.start();
  std::vector<std::promise<void>> told(12);
  for (Rank rank = 0; rank < 12; ++rank)
    world.plane(rank).on_refusal([&, rank](const RefusedCall&) { told[static_cast<std::size_t>(rank)].set_value(); });
  world.plane(1).report({ErrorCode::peer_lost, 3, -1, 0, "rank 3 is lost"});
  for (Rank rank = 0; rank < 12; ++rank) ASSERT_TRUE(world.of(rank).first().has_value()) << rank;
  world.plane(3).report({ErrorCode::peer_lost, 4, -1, 0, "rank 4 is lost"});
  world.plane(3).tell({-1, 7, 4, "what comes after that"});
  for (Rank rank = 0; rank < 12; ++rank) {
    if (rank == 3) continue;
    ASSERT_EQ(told[static_cast<std::size_t>(rank)].get_future().wait_for(patience), std::future_status::ready) << rank;
    EXPECT_EQ(world.of(rank).count(), 1u) << rank;
  }
}

TEST(ControlPlane, ADeathWakesThoseWhoWaitForAnExchange) {
  World world(4);
  world.start();
  world.each([&](Rank rank) {
    if (rank == 3) return world.kill(3);
    const auto gathered = world.plane(rank).all_gather("x");
    ASSERT_FALSE(gathered.has_value());
    EXPECT_EQ(gathered.error().code(), ErrorCode::peer_lost);
  });
}

TEST(ControlPlane, TheReportOfARankThatClosesRightAfterCountsNotItsDeath) {
  for (int round = 0; round < 20; ++round) {
    World world(3);
    world.start();
    world.plane(2).report({ErrorCode::transport_error, -1, -1, 0, "the network card caught fire"});
    world.kill(2);
    for (Rank rank : {0, 1}) {
      const auto failure = world.of(rank).first();
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->text, "the network card caught fire");
      EXPECT_EQ(failure->reporter, 2);
    }
  }
}

TEST(ControlPlane, AFailureBeforeTheHandlerIsSetIsNotLost) {
  World world(2);
  world.start();
  world.plane(0).on_failure({});
  world.plane(1).report({ErrorCode::aborted, -1, -1, 3, "abort"});
  ASSERT_TRUE(world.of(1).first().has_value());
  world.each([&](Rank rank) { EXPECT_TRUE(world.plane(rank).all_gather("").has_value()); });  // it has arrived by now
  world.plane(0).on_failure([&](const Failure& failure) { world.of(0).add(failure); });
  ASSERT_TRUE(world.of(0).first().has_value());
}

TEST(ControlPlane, WhoeverDoesNotLeaveIsNamedWhenTheLimitPasses) {
  World world(12);
  world.start();
  world.each([&](Rank rank) {
    if (rank == 2 || rank == 10) return;
    const Status left = world.plane(rank).leave(2s);
    EXPECT_EQ(left.code(), ErrorCode::timeout);
    EXPECT_EQ(left.message(), "waited 2 s for ranks 2 and 10 of 12 to leave");
  });
}

TEST(ControlPlane, RanksThatLeaveEarlyAreNoDeathForThoseWhoStay) {
  World world(20);
  world.start();
  // The root and an inner node go; the tree is cut, yet nobody has died.
  for (Rank rank : {0, 1}) {
    EXPECT_EQ(world.plane(rank).leave(50ms).code(), ErrorCode::timeout);
    world.kill(rank);
  }
  world.each([&](Rank rank) {
    if (rank < 2) return;
    const auto gathered = world.plane(rank).all_gather("x");
    ASSERT_FALSE(gathered.has_value()) << "rank 0 is not there";
    EXPECT_EQ(gathered.error().code(), ErrorCode::peer_lost);
    const Status left = world.plane(rank).leave(patience);
    EXPECT_TRUE(left.ok()) << left.to_string();
  });
  for (Rank rank = 2; rank < 20; ++rank) EXPECT_EQ(world.of(rank).count(), 0u);
}

TEST(ControlPlane, TheDeathOfAnotherIsNoErrorOfOneWhoLeaves) {
  World world(3);
  world.start();
  EXPECT_EQ(world.plane(0).leave(1ms).code(), ErrorCode::timeout);
  world.kill(2);
  EXPECT_TRUE(world.of(1).first().has_value()) << "rank 1 does not leave yet and must know";
  std::thread leaver([&] { EXPECT_TRUE(world.plane(0).leave(patience).ok()); });
  EXPECT_TRUE(world.plane(1).leave(patience).ok());
  leaver.join();
  EXPECT_EQ(world.of(0).count(), 0u);
}

TEST(ControlPlane, ActivitiesTravelThroughTheTree) {
  ControlOptions options;
  options.heartbeat = 40ms;
  World world(12, options);
  world.start();
  world.plane(11).set_activity("in allreduce #7\n");
  const auto end = steady_clock::now() + patience;
  for (Rank rank : {0, 1, 5, 11}) {
    while (world.plane(rank).activity_of(11).empty() && steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(world.plane(rank).activity_of(11), "in allreduce #7?");
  }
  EXPECT_EQ(world.plane(0).activity_of(99), "");
  EXPECT_EQ(world.plane(0).activity_of(-1), "");
}

// A rank stands still while its control thread does; who tells of it is a neighbour, who asks is not.
TEST(ControlPlane, EveryRankKnowsWhoIsSilentAndWhoIsBack) {
  ControlOptions options;
  options.heartbeat = 20ms;
  options.note_silence_after = 300ms;
  World world(12, options);
  world.log = Log(LogLevel::error, -1);
  world.start();
  std::promise<void> go_on;
  world.plane(1).after(0ms, [until = go_on.get_future().share()] { until.wait(); });
  const auto heard_by_all = [&](bool silent) {
    const auto end = steady_clock::now() + patience;
    for (Rank rank : {0, 2, 9, 10, 11})
      while ((world.plane(rank).silent_for(1) > 0ms) != silent) {
        if (steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
    return true;
  };
  EXPECT_TRUE(heard_by_all(true));
  EXPECT_GE(world.plane(11).silent_for(1), options.note_silence_after);
  EXPECT_GE(world.plane(11).ask_states(1ms)[1].silent_ms, 300);
  EXPECT_EQ(world.plane(11).silent_for(0), 0ms);
  go_on.set_value();
  EXPECT_TRUE(heard_by_all(false));
  EXPECT_EQ(world.plane(1).silent_for(1), 0ms);
  for (Rank rank = 0; rank < 12; ++rank) EXPECT_EQ(world.of(rank).count(), 0u);
}

// As many messages, and lines of log, as there are ranks, of each rank, are too many.
TEST(ControlPlane, OfALargeWorldOnlyNeighboursHearOfActivitiesAndWarnOfWhoIsSilent) {
  ControlOptions options;
  options.heartbeat = 20ms;
  options.note_silence_after = 300ms;
  options.most_flooded_world = 2;
  std::mutex mutex;
  std::multiset<LogLevel> levels;
  World world(3, options);
  world.log = Log(LogLevel::info, -1, [&](LogLevel level, int, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (line.find("rank 1") != line.npos && line.find("it is given up after") != line.npos) levels.insert(level);
  });
  world.start();
  std::promise<void> letter;
  world.plane(2).on_letter([&](Rank, std::string_view) { letter.set_value(); });
  world.plane(1).set_activity("in allreduce #7");
  const auto end = steady_clock::now() + patience;
  while (world.plane(0).activity_of(1).empty() && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(world.plane(0).activity_of(1), "in allreduce #7");
  world.plane(0).send_letter(2, "comes after what rank 0 passed on");
  ASSERT_EQ(letter.get_future().wait_for(patience), std::future_status::ready);
  EXPECT_EQ(world.plane(2).activity_of(1), "");
  const StandingStill standing(world.plane(1));
  const auto noted = [&] {
    const std::lock_guard lock(mutex);
    return levels.size() >= 2;
  };
  while (!noted() && steady_clock::now() < end) std::this_thread::yield();
  const std::lock_guard lock(mutex);
  EXPECT_EQ(levels, (std::multiset{LogLevel::warning, LogLevel::info})) << "of rank 0, and of rank 2";
  EXPECT_GT(world.plane(2).silent_for(1), 0ms);
}

TEST(ControlPlane, WhoeverDoesNotAnswerAQuestionIsSaidToBeSilentOrToHaveLeft) {
  World world(3);
  world.start();
  world.plane(1).on_question([](std::uint64_t) {});  // and never answers
  (void)world.plane(2).leave(1ms);
  const auto until = std::chrono::steady_clock::now() + patience;
  std::vector<RankNews> all;
  do {  // its leaving is on the way
    all = world.plane(0).ask_states(100ms);
    ASSERT_EQ(all.size(), 3u);
  } while (all[2].presence != RankNews::Presence::left && std::chrono::steady_clock::now() < until);
  EXPECT_EQ(all[1].presence, RankNews::Presence::silent);
  EXPECT_GE(all[1].silent_ms, 0) << "a neighbour knows since when";
  EXPECT_EQ(all[2].presence, RankNews::Presence::left);
}

TEST(ControlPlane, ABlobThatIsTooLongIsRefusedAndTheNextExchangeWorks) {
  World world(2);
  world.start();
  EXPECT_EQ(world.plane(0).all_gather(std::string(64 * 1024 + 1, 'x')).error().code(), ErrorCode::invalid_argument);
  world.each([&](Rank rank) { EXPECT_TRUE(world.plane(rank).all_gather(std::string(64 * 1024, 'x')).has_value()); });
}

TEST(ControlPlane, AnExchangeNobodyJoinsEndsAtTheDeadlineAndNamesThem) {
  World world(4);
  world.config.rendezvous_timeout = 2s;
  world.start();
  const auto begin = steady_clock::now();
  const auto gathered = world.plane(1).all_gather("x");
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().code(), ErrorCode::timeout);
  EXPECT_THAT(gathered.error().message(),
              AllOf(HasSubstr("ranks 0, 2 and 3 of 4"), HasSubstr("FABRING_RENDEZVOUS_TIMEOUT")));
  EXPECT_LT(steady_clock::now() - begin, patience / 2) << "an operation may take longer than the start";
}

TEST(ControlPlane, ARankThatIsLateForAnExchangeIsNamedMeanwhile) {
  std::promise<void> named;
  std::atomic<bool> said = false;
  World world(3);
  world.options.note_silence_after = 50ms;
  world.log = Log(LogLevel::warning, 0, [&](LogLevel, int, std::string_view line) {
    const bool names_it = line.find("still waiting for rank 2 of 3 to take part in an exchange") != line.npos;
    if (names_it && !said.exchange(true)) named.set_value();
  });
  world.start();
  world.each([&](Rank rank) {
    if (rank == 2) {
      EXPECT_EQ(named.get_future().wait_for(patience), std::future_status::ready);
    }
    EXPECT_TRUE(world.plane(rank).all_gather("x").has_value());
  });
}

// Who meets by a store has shown no secret before.
TEST(ControlPlane, WhereParentAndChildHaveDifferentSecretsTheStartEndsAtOnceOnBoth) {
  for (const std::string secret_of_child : {"another secret of some length", ""}) {
    World world(2);
    std::atomic<int> warnings = 0;
    world.log = Log(LogLevel::warning, -1, [&](LogLevel, int, std::string_view) { ++warnings; });
    const auto since = steady_clock::now();
    world.each([&](Rank rank) {
      Config own = world.config;
      own.rank = rank;
      BoardBootstrap bootstrap(world.board);
      const std::string secret = rank == 0 ? "a secret of sufficient length" : secret_of_child;
      const auto plane = start_control_plane(own, secret, bootstrap, world.log, world.options);
      ASSERT_FALSE(plane.has_value());
      EXPECT_EQ(plane.error().code(), ErrorCode::mismatch) << plane.error().to_string();
      EXPECT_THAT(plane.error().message(), HasSubstr("FABRING_SECRET_FILE"));
      if (rank == 1) bootstrap.give_up(plane.error());  // as who starts an engine does
    });
    EXPECT_LT(steady_clock::now() - since, patience / 2);
    EXPECT_LE(warnings, 2) << "one try is enough";
  }
}

}  // namespace
}  // namespace fabring
