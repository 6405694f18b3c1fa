// What ranks wait for when an operation fails comes back at once from peers that live, though the news of the failure
// is on its way for long: nobody is taken for lost.

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;

void expect_only_aborted(SimWorld& world) {
  for (const Failure& failure : world.control().failures())
    EXPECT_EQ(failure.code, ErrorCode::aborted) << failure.text << world.replay();
  for (const auto& operation : world.operations())
    EXPECT_THAT(operation->status().code(), AnyOf(ErrorCode::ok, ErrorCode::aborted))
        << operation->status().to_string() << world.replay();
}

void expect_fine(SimWorld& world, int group) {
  const SimOperations after = world.everyone_calls({.count = 3000}, group);
  if (!world.run(30s)) return;  // some of these worlds are slow
  for (const auto& operation : after)
    EXPECT_TRUE(operation->status().ok()) << operation->status().to_string() << world.replay();
}

// One rank of the group calls late or never, so that the others are stuck in the middle with what they were granted and
// lent. Who aborted has all of that back, and is through, long before the others hear of it.
void abort_with_slow_news(SimWorldOptions options, Collective collective, std::mt19937_64& chance) {
  const int ranks = options.ranks;
  SimWorld world(std::move(options));
  std::vector<Rank> members;
  for (Rank rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const int group = world.group(members);
  const auto any_rank = [&] { return static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks)); };
  const Rank aborts = any_rank(), absent = any_rank();
  const std::uint64_t count = 500 + chance() % 20000;
  std::vector<std::shared_ptr<SimOperation>> own;
  for (Rank rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < 2 && rank != absent; ++i) {
      const auto called = world.call(rank, {.count = count, .collective = collective}, group);
      if (rank == aborts) own.push_back(called);
    }
  world.linger(Time(static_cast<Time::rep>(chance() % 3'000'000)));
  world.control().hold_news();
  world.engine(aborts).abort(*world.communicator(aborts, group), "test");
  const auto over = [&] {
    return std::all_of(own.begin(), own.end(), [](const auto& operation) { return operation->done(); });
  };
  EXPECT_TRUE(world.run_until(over, 2s)) << [&] {
    std::string left = fmt::format("rank {}, while rank {} is absent, still waits for", aborts, absent);
    for (const auto& operation : own)
      if (!operation->done())
        left += fmt::format(" {} of #{}", operation->execution->peers_outstanding(), operation->execution->sequence());
    return left + "\n" + world.replay();
  }();
  world.linger(5s);  // somebody else might wait, and give up
  world.control().let_news_go();
  if (!world.run(30s)) return;
  expect_only_aborted(world);
  expect_fine(world, 0);
}

TEST(Withdrawn, memory_of_collectives_comes_back_before_the_news) {
  for (const std::uint64_t seed : seeds(100, 10)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(2 + static_cast<int>(chance() % 5), seed);
    const Collective collective = chance() % 2 == 0 ? Collective::allreduce : Collective::all_gather;
    options.algorithm = std::nullopt;
    if (chance() % 2 == 0)
      options.algorithm = collective == Collective::allreduce ? any_algorithm(collective, chance) : Algorithm::ring;
    abort_with_slow_news(options, collective, chance);
    if (::testing::Test::HasFailure()) return;
  }
}

// The grant finds no room for its send to begin, and waits with it.
TEST(Withdrawn, grant_of_a_message_that_has_no_room_to_begin_comes_back_before_the_news) {
  SimWorldOptions options{.ranks = 3};
  options.most_running = 1;
  SimWorld world(options);
  const int group = world.group({1, 2});
  const auto stuck = world.call(2, {.count = 3000});
  world.linger(1ms);
  const auto sends = world.call(2, {.count = 3000, .collective = Collective::send, .root = 0}, group);
  const auto receives = world.call(1, {.count = 3000, .collective = Collective::recv, .root = 1}, group);
  ASSERT_TRUE(world.run_until([&] { return receives->execution->outstanding() > 0; }, 1s));
  world.linger(5ms);
  ASSERT_GT(receives->execution->outstanding(), 0u);
  world.control().hold_news();
  world.engine(1).abort(*world.communicator(1, group), "test");
  EXPECT_TRUE(world.run_until([&] { return receives->done(); }, 100ms));
  EXPECT_FALSE(stuck->done());
  EXPECT_FALSE(sends->done());
  world.call(0, {.count = 3000});
  world.call(1, {.count = 3000});
  world.linger(5s);
  world.control().let_news_go();
  if (!world.run(30s)) return;
  expect_only_aborted(world);
  EXPECT_EQ(sends->status().code(), ErrorCode::aborted);
  expect_fine(world, 0);
}

}  // namespace
}  // namespace fabring::fixture
