// Ranks that stop for a while or run ahead, and aborts around them: nobody fails who need not, nothing grows without
// bound, and an abort ends what it must although a stopped rank holds full windows.

#include <gmock/gmock.h>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Paused, rank_is_waited_for_and_the_results_are_right) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    std::mt19937_64 chance(seed);
    const int ranks = 2 + static_cast<int>(chance() % 6);
    SimWorldOptions options = any_world(ranks, seed);
    options.algorithm = any_algorithm(Collective::allreduce, chance);
    SimWorld world(options);
    for (int i = 0; i < 8; ++i) world.everyone_calls_soon(any_allreduce(chance() % 3000, chance), 100us);
    for (int i = 0; i < 3; ++i)
      world.pause_at(static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks)), Time(chance() % 2'000'000),
                     Time(1ms) + Time(chance() % 8'000'000'000));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Paused, rank_is_named_in_a_note_to_those_who_wait) {
  SimWorld world({.ranks = 3});
  world.pause(2, 25s);
  world.everyone_calls({.count = 1000});
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
  EXPECT_THAT(world.warnings(), Contains(AllOf(HasSubstr("has waited"), HasSubstr("rank 2"))));
}

// The error says it all; what ends in time has nothing to warn of.
TEST(Paused, rank_draws_no_warning_from_an_operation_whose_own_limit_is_short) {
  for (const Time timeout : {Time(300ms), Time(15s)}) {
    SimWorld world({.ranks = 2});
    world.pause(1, 25s);
    SimOperations calls;
    for (int i = 0; i < 6; ++i) calls.push_back(world.call(0, {.count = 1000, .timeout = timeout}));
    ASSERT_TRUE(world.run_until([&] { return calls.front()->done(); }, 20s));
    EXPECT_EQ(calls.front()->status().code(), ErrorCode::timeout);
    EXPECT_THAT(world.log(), Contains(HasSubstr("has waited")));
    EXPECT_THAT(world.warnings(), Not(Contains(AnyOf(HasSubstr("has waited"), HasSubstr("wait as well")))));
  }
}

TEST(Paused, the_time_of_a_note_before_a_second_is_over_is_not_0_s) {
  SimWorld world({.ranks = 2});
  world.pause(1, 25s);
  const auto called = world.call(0, {.count = 1000, .timeout = 50ms});
  ASSERT_TRUE(world.run_until([&] { return called->done(); }, 20s));
  EXPECT_THAT(world.log(), Contains(::testing::ContainsRegex("has waited [0-9]+ ms for")));
}

TEST(Paused, rank_is_named_with_what_its_endpoint_knows_of_the_connection) {
  SimWorld world({.ranks = 3});
  world.fabric().say_unconnected(2, "no data connection yet: last error: a dead cable");
  world.pause(2, 25s);
  const auto called = world.call(0, {.count = 1000, .timeout = 15s});
  ASSERT_TRUE(world.run_until([&] { return called->done(); }, 20s));
  const std::string words = "rank 2 (host host2) (no data connection yet: last error: a dead cable)";
  EXPECT_THAT(world.log(), Contains(AllOf(HasSubstr("has waited"), HasSubstr(words))));
  EXPECT_THAT(called->status().message(), AllOf(HasSubstr("gave up after"), HasSubstr(words)));
  ASSERT_TRUE(world.run());
}

// In a ring rank 0 waits for rank 2, which waits for rank 1; of others a rank waits for both.
TEST(Overdue, operation_is_the_fault_of_the_one_that_does_not_wait_itself_on_every_rank) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct_two_shot, Algorithm::recursive_doubling}) {
    SimWorld world({.ranks = 3, .algorithm = algorithm});
    const auto first = world.call(0, {.count = 3000, .timeout = 6s});
    const auto last = world.call(2, {.count = 3000, .timeout = 6s});
    ASSERT_TRUE(world.run_until([&] { return first->done() && last->done(); }, 8s)) << name(algorithm);
    for (const auto& called : {first, last}) {
      EXPECT_EQ(called->status().code(), ErrorCode::timeout);
      EXPECT_EQ(called->status().context().rank, 1) << name(algorithm) << ": " << called->status().message();
      EXPECT_THAT(called->status().message(), HasSubstr("; who does not wait itself has not called it, or is stuck"));
    }
  }
}

// A firewall forgot their connections: nothing that is sent arrives, and nobody hears of it.
TEST(Overdue, operation_that_all_wait_in_for_each_other_is_nobodys_fault) {
  for (const int ranks : {2, 3, 5}) {
    SimWorld world({.ranks = ranks});
    for (Rank rank = 0; rank < ranks; ++rank) world.fabric().cut(rank, (rank + 1) % ranks, true);
    SimOperations calls;
    for (Rank rank = 0; rank < ranks; ++rank) calls.push_back(world.call(rank, {.count = 3000, .timeout = 6s}));
    ASSERT_TRUE(world.run_until([&] { return calls.front()->done(); }, 12s)) << ranks;
    EXPECT_EQ(calls.front()->status().code(), ErrorCode::timeout);
    EXPECT_EQ(calls.front()->status().context().rank, -1);
    EXPECT_THAT(calls.front()->status().message(),
                AllOf(HasSubstr("; they wait for each other: what one of them sent has not arrived"),
                      HasSubstr("fabring doctor net"), Not(HasSubstr("who does not wait itself"))));
  }
}

// The network is whole: the program makes its calls in another order on one of the ranks.
TEST(Overdue, operations_in_opposite_order_are_not_blamed_on_the_network) {
  SimWorld world({.ranks = 2});
  const int other = world.group({0, 1});
  const SimOperations calls{world.call(0, {.count = 3000, .timeout = 6s}),
                            world.call(1, {.count = 3000, .timeout = 6s}, other)};
  ASSERT_TRUE(world.run_until([&] { return calls.front()->done(); }, 12s));
  EXPECT_EQ(calls.front()->status().code(), ErrorCode::timeout);
  EXPECT_EQ(calls.front()->status().context().rank, -1);
  EXPECT_THAT(calls.front()->status().message(),
              AllOf(HasSubstr("; they wait for each other in different calls: all ranks have to make calls on several "
                              "communicators"),
                    Not(HasSubstr("look at the network"))));
}

TEST(Overdue, sends_to_each_other_are_told_to_let_one_receive_first) {
  SimWorld world({.ranks = 2});
  SimOperations calls;
  for (const Rank rank : {0, 1})
    calls.push_back(world.call(
        rank, {.count = 3000000, .collective = Collective::send, .root = 1 - rank, .tag = 0, .timeout = 6s}));
  ASSERT_TRUE(world.run_until([&] { return calls.front()->done(); }, 12s));
  EXPECT_THAT(calls.front()->status().message(),
              AllOf(HasSubstr("; they wait for each other: each sends before any of them receives"),
                    Not(HasSubstr("has not arrived"))));
}

// It waits for nobody's message any more, only for one who has not taken all that was sent.
TEST(Overdue, operation_whose_message_is_not_taken_names_whom_it_is_for) {
  SimWorld world({.ranks = 2});
  const Request broadcast{.count = 3000, .collective = Collective::broadcast, .root = 0, .timeout = 6s};
  const SimOperations calls{world.call(0, broadcast), world.call(1, broadcast)};
  ASSERT_TRUE(world.run_until(
      [&] {
        const auto& root = calls.front()->execution;
        return root->started() && root->outstanding() > 0 && root->waiting_for().empty();
      },
      1s));
  world.fabric().cut(0, 1, true);
  ASSERT_TRUE(world.run_until([&] { return calls.front()->done(); }, 12s));
  EXPECT_EQ(calls.front()->status().code(), ErrorCode::timeout);
  EXPECT_THAT(calls.front()->status().message(), HasSubstr(", waiting for rank 1 (host host1)"));
}

// As start-up does, where the setting is another.
TEST(Overdue, operation_names_the_setting_that_ended_it) {
  SimWorld world({.ranks = 2});
  world.engine(0).take_time_for_any(6s, "FABRING_RENDEZVOUS_TIMEOUT");
  const auto called = world.call(0, {.count = 3000});
  EXPECT_FALSE(world.run_until([&] { return called->done(); }, 5900ms));
  ASSERT_TRUE(world.run_until([&] { return called->done(); }, 200ms));
  EXPECT_THAT(called->status().message(), HasSubstr("gave up after 6 s (FABRING_RENDEZVOUS_TIMEOUT) in allreduce #1"));
  world.engine(0).take_time_for_any(1800s, "FABRING_TIMEOUT");
  ASSERT_TRUE(world.run());
}

// An endpoint belongs to whoever drives, and a shrink waits in its caller's thread.
TEST(Paused, rank_that_a_shrink_waits_for_is_named_without_a_word_of_the_endpoint) {
  SimWorld world({.ranks = 3, .timeout = 20ms});  // of the clock on the wall
  world.fabric().say_unconnected(2, "only the driver may ask");
  const auto left = world.engine(0).agree_who_is_left(*world.communicator(0));
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code(), ErrorCode::timeout);
  EXPECT_THAT(left.error().message(), AllOf(HasSubstr("rank 2 (host host2)"), Not(HasSubstr("only the driver"))));
}

// It kept what was granted to it until it was disconnected: a communicator with it would fail at once.
TEST(Paused, rank_that_was_disconnected_meanwhile_is_not_left_in_a_shrink) {
  SimWorld world({.ranks = 2, .timeout = 20ms});
  world.pause(1, 25s);
  const auto called = world.call(0, {.count = 1'000'000});
  ASSERT_TRUE(world.run_until([&] { return called->done(); }, 10s));
  EXPECT_EQ(called->status().code(), ErrorCode::timeout) << called->status().message();
  const auto left = world.engine(0).agree_who_is_left(*world.communicator(0));
  ASSERT_TRUE(left) << left.error().message();
  EXPECT_EQ(left->gone, (std::vector<bool>{false, true}));
}

// Its own timeout counts from the call, not from when those before it are over.
TEST(Queued, operation_ends_when_its_own_timeout_is_over) {
  for (const bool begins_in_time : {false, true}) {
    SimWorld world({.ranks = 2});
    const int group = world.group({0, 1});
    for (int i = 0; i < 6; ++i) world.call(0, {.count = 1000}, group);
    const auto queued = world.call(0, {.count = 10, .timeout = 3s}, group);
    if (begins_in_time) {
      world.linger(2s);
      for (int i = 0; i < 6; ++i) world.call(1, {.count = 1000}, group);
    }
    EXPECT_FALSE(world.run_until([&] { return queued->done(); }, begins_in_time ? Time(900ms) : Time(2900ms)));
    ASSERT_TRUE(world.run_until([&] { return queued->done(); }, 200ms)) << "it was called 3 s before";
    EXPECT_EQ(queued->status().code(), ErrorCode::timeout);
    EXPECT_EQ(queued->status().context().rank, 1);
    EXPECT_THAT(queued->status().message(),
                HasSubstr("rank 0 (host host0) gave up after 3 s (the timeout of this operation) in allreduce #7 on"));
    if (!begins_in_time) {
      EXPECT_THAT(queued->status().message(), HasSubstr("which has not begun: it is queued behind allreduce #1, "
                                                        "waiting for rank 1 (host host1)"));
    }
    ASSERT_TRUE(world.run());
  }
}

TEST(Paused, rank_that_stays_silent_is_given_up) {
  SimWorld world({.ranks = 3});
  world.pause(2, 300s);
  world.everyone_calls({.count = 1000});
  ASSERT_TRUE(world.run_until([&] { return world.operations()[0]->done() && world.operations()[1]->done(); }, 40s));
  EXPECT_EQ(world.operations()[0]->status().code(), ErrorCode::peer_lost);
  EXPECT_EQ(world.operations()[0]->status().context().rank, 2);
}

// Full windows: so many operations that neither eager slots nor grants are left with the stopped rank.
TEST(Abort, of_one_communicator_leaves_the_others_alone_while_a_member_is_stopped) {
  for (const std::uint64_t seed : seeds(40, 5)) {
    SimWorldOptions options = any_world(4, seed);
    options.algorithm = seed % 2 == 0 ? Algorithm::ring : Algorithm::direct_two_shot;
    SimWorld world(options);
    const int doomed = world.group({0, 1, 2}), other = world.group({3, 1, 0});
    std::mt19937_64 chance(seed);
    world.pause_at(2, Time(chance() % 100'000), 25s);
    for (int i = 0; i < 30; ++i) world.everyone_calls({.count = chance() % 2000}, doomed);
    world.linger(20ms);
    const Time before = world.timeline().now();
    world.engine(0).abort(*world.communicator(0, doomed), "enough");
    EXPECT_EQ(world.timeline().now(), before);
    EXPECT_EQ(Communicator(world.communicator(0, doomed)).health().code(), ErrorCode::aborted);
    const auto fine = world.everyone_calls({.count = 1000}, other);
    const bool fine_done = world.run_until(
        [&] { return std::ranges::all_of(fine, [](const auto& operation) { return operation->done(); }); }, 1s);
    ASSERT_TRUE(fine_done) << world.replay();
    const auto ended = [&] {
      return std::ranges::all_of(world.operations(),
                                 [](const auto& operation) { return operation->rank == 2 || operation->done(); });
    };
    ASSERT_TRUE(world.run_until(ended, 4s)) << "aborted operations are not over while a member is stopped\n"
                                            << world.replay();
    for (const auto& operation : fine) EXPECT_TRUE(operation->status().ok()) << world.replay();
    if (!world.run(60s)) return;  // the stopped rank comes back, late
    for (const auto& operation : world.operations())
      if (operation->rank == 2 && !operation->status().ok()) {
        EXPECT_THAT(operation->status().code(), AnyOf(ErrorCode::aborted, ErrorCode::peer_lost)) << world.replay();
      }
    const auto again = world.everyone_calls({.count = 10}, other);
    if (!world.run(1s)) return;
    for (const auto& operation : again)
      EXPECT_TRUE(operation->status().ok()) << operation->status().to_string() << world.replay();
  }
}

TEST(Abort, at_any_moment_reaches_every_member_and_nobody_else) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(5, seed);
    options.algorithm = any_algorithm(Collective::allreduce, chance);
    SimWorld world(options);
    const int doomed = world.group({4, 1, 2}), other = world.group({1, 3, 0, 4});
    for (int i = 0; i < 5; ++i) {
      world.everyone_calls_soon(any_allreduce(chance() % 2000, chance), 200us, doomed);
      world.everyone_calls_soon(any_allreduce(chance() % 2000, chance), 200us, other);
    }
    world.at(Time(chance() % 1'000'000), [&] { world.engine(1).abort(*world.communicator(1, doomed), "enough"); });
    if (!world.run()) return;  // the other one may have far to go in bad weather
    for (const auto& operation : world.operations())
      if (!operation->status().ok()) {
        EXPECT_LT(operation->done_at, Time(3s)) << operation->status().to_string() << world.replay();
      }
    world.linger(50ms);
    for (const Rank rank : {0, 1, 3, 4})
      EXPECT_TRUE(Communicator(world.communicator(rank, other)).health().ok()) << world.replay();
    for (const Rank rank : {1, 2, 4})
      EXPECT_EQ(Communicator(world.communicator(rank, doomed)).health().code(), ErrorCode::aborted) << world.replay();
  }
}

TEST(Abort, reaches_a_rank_that_makes_the_communicator_only_later) {
  SimWorld world({.ranks = 3});
  const int group = world.group({0, 1, 2});
  world.call(0, {.count = 3000}, group);
  world.call(1, {.count = 3000}, group);
  world.linger(5ms);
  world.engine(0).abort(*world.communicator(0, group), "enough");
  world.linger(50ms);
  const auto late = world.call(2, {.count = 3000}, group);
  ASSERT_TRUE(world.run(3s));
  for (const auto& operation : world.operations()) EXPECT_EQ(operation->status().code(), ErrorCode::aborted);
  EXPECT_EQ(late->status().code(), ErrorCode::aborted);
}

TEST(Ahead, rank_fills_bounded_windows_and_waits) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(4, seed);
    options.algorithm = any_algorithm(Collective::allreduce, chance);
    SimWorld world(options);
    for (int i = 0; i < 50; ++i) world.call(1, {.count = 20 + static_cast<std::size_t>(i) * 8, .salt = seed});
    for (const Rank rank : {0, 2, 3})
      for (int i = 0; i < 50; ++i)
        world.at(10ms + rank * 5ms + i * 1ms, [&world, rank, i, seed] {
          world.call(rank, {.count = 20 + static_cast<std::size_t>(i) * 8, .salt = seed});
        });
    std::size_t most_kept = 0;
    const auto look = [&] {
      for (Rank rank = 0; rank < 4; ++rank) {
        const CommunicatorCore& core = *world.communicator(rank);
        std::vector<std::size_t> kept(4);
        for (const auto& [key, early] : core.early)
          if (key.kind == RecordKind::data && !early.taken)
            most_kept = std::max(most_kept, ++kept[static_cast<std::size_t>(key.peer)]);
      }
      return world.operations().size() == 200u &&
             std::ranges::all_of(world.operations(), [](const auto& operation) { return operation->done(); });
    };
    ASSERT_TRUE(world.run_until(look, 10s)) << world.replay();
    EXPECT_LE(most_kept, CommunicatorCore::window);
    world.expect_all_ok();
  }
}

TEST(Interleaved, communicators_in_another_order_on_every_rank_never_wait_for_each_other) {
  for (const std::uint64_t seed : seeds(40, 5)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(4, seed);
    options.algorithm = any_algorithm(Collective::allreduce, chance);
    options.segment_bytes = 512;
    options.eager_bytes = 64;
    options.scratch_bytes = seed % 2 == 0 ? 4096 : 3 * 4096;
    SimWorld world(options);
    std::vector<int> groups{0};
    for (const std::vector<Rank>& members : {std::vector<Rank>{0, 1}, {2, 3}, {2, 0}, {1, 3}, {3, 2, 1}, {0, 3}})
      groups.push_back(world.group(members));
    const std::vector<std::vector<Rank>> members{{0, 1, 2, 3}, {0, 1}, {2, 3}, {2, 0}, {1, 3}, {3, 2, 1}, {0, 3}};
    for (Rank rank = 0; rank < 4; ++rank) {
      std::vector<std::pair<int, int>> calls;  // group, and which of its calls
      for (std::size_t group = 0; group < groups.size(); ++group)
        if (std::ranges::count(members[group], rank) > 0)
          for (int nth = 0; nth < 5; ++nth) calls.emplace_back(static_cast<int>(group), nth);
      std::shuffle(calls.begin(), calls.end(), chance);
      for (std::size_t i = 0; i < calls.size(); ++i)
        for (std::size_t j = i + 1; j < calls.size(); ++j)  // each group's own calls in order
          if (calls[i].first == calls[j].first && calls[i].second > calls[j].second) std::swap(calls[i], calls[j]);
      for (const auto& [group, nth] : calls)
        world.call(rank,
                   {.count = 100 + 700 * static_cast<std::size_t>(nth % 3),
                    .salt = static_cast<std::uint64_t>(group * 10 + nth)},
                   groups[static_cast<std::size_t>(group)]);
    }
    if (!world.run(20s)) return;
    world.expect_all_ok();
  }
}

}  // namespace
}  // namespace fabring::fixture
