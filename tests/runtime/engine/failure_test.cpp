// What every survivor gets when ranks die, links fail, ranks disagree or somebody aborts: an error that names the
// culprit, in bounded time, never a wrong result and never a hang. (SimWorld checks results, buffers and the endpoint's
// rules.)

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <functional>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Chaos {
  explicit Chaos(std::uint64_t seed)
      : chance(seed), ranks(2 + static_cast<int>(chance() % 6)), options(any_world(ranks, seed)) {
    options.algorithm = any_algorithm(Collective::allreduce, chance);
  }
  Rank any_rank() { return static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks)); }
  Time any_time(Time most) { return Time(static_cast<Time::rep>(chance() % static_cast<std::uint64_t>(most.count()))); }
  void calls(SimWorld& world, int number) {
    for (int i = 0; i < number; ++i) world.everyone_calls_soon(any_allreduce(chance() % 2000, chance), 100us);
  }

  std::mt19937_64 chance;
  int ranks;
  SimWorldOptions options;
};

TEST(Killed, rank_is_named_by_every_survivor_whenever_it_dies) {
  for (const std::uint64_t seed : seeds(150, 20)) {
    Chaos chaos(seed);
    SimWorld world(chaos.options);
    chaos.calls(world, 4);
    const Rank victim = chaos.any_rank();
    world.kill_at(victim, chaos.any_time(chaos.chance() % 2 == 0 ? Time(200us) : Time(5ms)));
    if (!world.run(3s)) return;
    for (const auto& operation : world.operations()) {
      if (operation->rank == victim || operation->status().ok()) continue;
      EXPECT_EQ(operation->status().code(), ErrorCode::peer_lost) << operation->status().to_string() << world.replay();
      EXPECT_EQ(operation->status().context().rank, victim) << operation->status().to_string() << world.replay();
      EXPECT_THAT(operation->status().message(), HasSubstr("rank " + std::to_string(victim))) << world.replay();
    }
  }
}

TEST(Killed, ranks_one_after_the_other_leave_errors_that_name_one_of_them) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    Chaos chaos(seed);
    SimWorld world(chaos.options);
    chaos.calls(world, 4);
    const Rank first = chaos.any_rank(), second = chaos.any_rank();
    world.kill_at(first, chaos.any_time(2ms));
    world.kill_at(second, chaos.any_time(2ms));
    if (!world.run(3s)) return;
    for (const auto& operation : world.operations()) {
      if (!world.alive(operation->rank) || operation->status().ok()) continue;
      EXPECT_THAT(operation->status().context().rank, AnyOf(first, second)) << world.replay();
    }
  }
}

TEST(Killed, rank_does_not_disturb_communicators_without_it) {
  std::vector<std::uint64_t> chosen = seeds(40, 5);
  if (chosen.size() > 1) chosen.push_back(1252);  // survivors give back memory, but for longer than 100 ms
  for (const std::uint64_t seed : chosen) {
    SimWorldOptions options = any_world(5, seed);
    options.algorithm = Algorithm::ring;
    SimWorld world(options);
    const int with = world.group({0, 1, 4}), without = world.group({2, 0, 3});
    std::mt19937_64 chance(seed);
    for (int i = 0; i < 6; ++i) {
      world.everyone_calls_soon(any_allreduce(500, chance), 100us, with);
      world.everyone_calls_soon(any_allreduce(500, chance), 100us, without);
    }
    world.kill_at(4, Time(chance() % 1'000'000));
    if (!world.run(3s)) return;
    for (const Rank rank : {0, 2, 3}) {
      const Status health = Communicator(world.communicator(rank, without)).health();
      EXPECT_TRUE(health.ok()) << health.to_string() << world.replay();
    }
    for (const auto& operation : world.operations())
      if (operation->rank == 2 || operation->rank == 3) {
        EXPECT_TRUE(operation->status().ok()) << operation->status().to_string() << world.replay();
      }
    world.everyone_calls({.count = 100}, without);
    if (!world.run(3s)) return;
  }
}

TEST(Cut, link_ends_every_operation_with_an_error_that_names_one_of_its_ends) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    Chaos chaos(seed);
    SimWorld world(chaos.options);
    chaos.calls(world, 4);
    const Rank a = chaos.any_rank();
    const Rank b = (a + 1) % chaos.ranks;
    world.at(chaos.any_time(1ms), [&world, a, b] { world.fabric().cut(a, b, false); });
    if (!world.run(5s)) return;
    for (const auto& operation : world.operations())
      if (!operation->status().ok()) {
        EXPECT_EQ(operation->status().code(), ErrorCode::peer_lost) << world.replay();
        EXPECT_THAT(operation->status().context().rank, AnyOf(a, b)) << world.replay();
      }
  }
}

TEST(Cut, silent_link_ends_at_the_deadline_naming_who_was_waited_for) {
  for (const std::uint64_t seed : seeds(20, 5)) {
    SimWorldOptions options = any_world(4, seed);
    options.dealt = false;  // 2 follows 1 in the ring
    options.timeout = 5s;
    SimWorld world(options);
    world.fabric().cut(1, 2, true);
    world.everyone_calls({.count = 3000});
    if (!world.run(20s)) return;
    for (const auto& operation : world.operations()) {
      EXPECT_EQ(operation->status().code(), ErrorCode::timeout) << world.replay();
      EXPECT_THAT(operation->status().message(), HasSubstr("FABRING_TIMEOUT")) << world.replay();
      EXPECT_LT(operation->done_at, Time(8s)) << world.replay();
    }
  }
}

TEST(Timeout, names_the_rank_that_never_calls) {
  SimWorldOptions options{.ranks = 3};
  options.timeout = 20s;
  SimWorld world(options);
  world.call(0, {.count = 10});
  world.call(1, {.count = 10});
  ASSERT_TRUE(world.run(25s));
  for (const auto& operation : world.operations()) {
    EXPECT_EQ(operation->status().code(), ErrorCode::timeout);
    EXPECT_THAT(operation->status().context().rank, AnyOf(2, -1));
    EXPECT_THAT(operation->status().message(), HasSubstr("rank 2"));
  }
  const auto late = world.call(2, {.count = 10});
  ASSERT_TRUE(world.run(1s));
  EXPECT_EQ(late->status().code(), ErrorCode::timeout);
}

struct Disagreement {
  const char* name;
  Request most, one;
};

void PrintTo(const Disagreement& disagreement, std::ostream* out) { *out << disagreement.name; }

class Mismatch : public ::testing::TestWithParam<Disagreement> {};

TEST_P(Mismatch, reaches_every_rank_with_both_sides) {
  for (const std::uint64_t seed : seeds(25, 3)) {
    Chaos chaos(seed);
    SimWorld world(chaos.options);
    const Rank odd = chaos.any_rank();
    Request most = GetParam().most, one = GetParam().one;
    if (!most.algorithm) most.algorithm = chaos.options.algorithm;
    if (!one.algorithm) one.algorithm = most.algorithm;
    for (Rank rank = 0; rank < chaos.ranks; ++rank)
      world.at(chaos.any_time(500us), [&world, rank, odd, most, one] {
        world.call(rank, rank == odd ? one : most);
        world.call(rank, {.count = 3});
      });
    world.linger(600us);
    if (!world.run(3s)) return;
    ASSERT_EQ(world.operations().size(), 2u * static_cast<std::size_t>(chaos.ranks));
    for (const auto& operation : world.operations()) {
      if (operation->execution->sequence() == 2) continue;  // may run beside the first, and be right
      const Status status = operation->status();
      ASSERT_EQ(status.code(), ErrorCode::mismatch) << status.to_string() << "\n" << world.replay();
      for (const Request& side : {most, one}) {
        Call call;
        call.count = side.count;
        call.type = side.type;
        call.op = side.op;
        call.algorithm = *side.algorithm;
        EXPECT_THAT(status.message(), HasSubstr(call.describe())) << world.replay();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Mismatch,
    ::testing::Values(Disagreement{"count", {.count = 5000}, {.count = 5001}},
                      Disagreement{"count_by_far", {.count = 5}, {.count = 50'000}},
                      Disagreement{"nothing_and_something", {.count = 0}, {.count = 5}},
                      Disagreement{"something_and_nothing", {.count = 5}, {.count = 0}},
                      Disagreement{"type_of_equal_size", {.count = 900}, {.count = 900, .type = DataType::int32}},
                      Disagreement{"type", {.count = 900}, {.count = 900, .type = DataType::float64}},
                      Disagreement{"operation", {.count = 900}, {.count = 900, .op = ReduceOp::max}},
                      Disagreement{"algorithm",
                                   {.count = 900, .algorithm = Algorithm::ring},
                                   {.count = 900, .algorithm = Algorithm::direct_one_shot}},
                      Disagreement{"algorithm_with_other_peers",
                                   {.count = 9, .algorithm = Algorithm::recursive_doubling},
                                   {.count = 9, .algorithm = Algorithm::ring}}),
    [](const auto& of) { return of.param.name; });

// The odd rank only has a large message to send, its receiver waits for a small one: neither would grant or send.
TEST(Mismatch, between_a_waiting_large_send_and_a_waiting_small_receive_is_found) {
  for (const int ranks : {3, 5, 6}) {
    for (Rank odd = 0; odd < ranks; ++odd) {
      SimWorldOptions options{.ranks = ranks, .seed = static_cast<std::uint64_t>(odd + 1)};
      options.algorithm = Algorithm::recursive_doubling;
      SimWorld world(options);
      for (Rank rank = 0; rank < ranks; ++rank) world.call(rank, {.count = rank == odd ? 5000u : 5u});
      if (!world.run(3s)) return;
      for (const auto& operation : world.operations())
        EXPECT_EQ(operation->status().code(), ErrorCode::mismatch) << operation->status().to_string() << world.replay();
    }
  }
}

// Where every rank finishes its own part, and where nobody sends anything as each waits for another.
TEST(Mismatch, about_the_root_is_found_though_each_does_its_part_or_all_wait) {
  constexpr Collective rooted[] = {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter};
  for (const std::uint64_t seed : seeds(100, 20)) {
    Chaos chaos(seed);
    chaos.options.algorithm = std::nullopt;
    SimWorld world(chaos.options);
    Request what{.count = chaos.chance() % 2 == 0 ? chaos.chance() % 4 : chaos.chance() % 3000};
    what.collective = rooted[seed % std::size(rooted)];
    std::vector<Rank> roots;
    for (Rank rank = 0; rank < chaos.ranks; ++rank) roots.push_back(chaos.any_rank());
    if (std::count(roots.begin(), roots.end(), roots[0]) == chaos.ranks) roots[0] = (roots[0] + 1) % chaos.ranks;
    for (Rank rank = 0; rank < chaos.ranks; ++rank) {
      what.root = roots[static_cast<std::size_t>(rank)];
      what.rough = true;  // whoever finishes its part may have got it from anyone
      world.call(rank, what);
    }
    const auto known_to_all = [&] {
      for (Rank rank = 0; rank < chaos.ranks; ++rank)
        if (Communicator(world.communicator(rank)).health().code() != ErrorCode::mismatch) return false;
      return true;
    };
    ASSERT_TRUE(world.run_until(known_to_all, 5s)) << fmt::format("roots {}", fmt::join(roots, ", ")) << world.replay();
    if (!world.run(3s)) return;
  }
}

TEST(Mismatch, in_the_order_of_calls_reaches_every_rank) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    Chaos chaos(seed);
    SimWorld world(chaos.options);
    const Rank odd = chaos.any_rank();
    for (Rank rank = 0; rank < chaos.ranks; ++rank) {
      world.call(rank, {.count = 7});
      world.call(rank, {.count = rank == odd ? 2000u : 10u});
      world.call(rank, {.count = rank == odd ? 10u : 2000u});
    }
    if (!world.run(3s)) return;
    for (const auto& operation : world.operations())
      if (operation->execution->sequence() > 1) {
        EXPECT_EQ(operation->status().code(), ErrorCode::mismatch) << operation->status().to_string() << world.replay();
      }
  }
}

TEST(Failed, communicator_refuses_calls_at_once_with_its_first_error) {
  SimWorld world({.ranks = 2});
  world.call(0, {.count = 1});
  world.call(1, {.count = 2});
  ASSERT_TRUE(world.run(3s));
  const auto after = world.call(0, {.count = 1});
  EXPECT_TRUE(after->done());
  EXPECT_EQ(after->status().code(), ErrorCode::mismatch);
}

TEST(Failed, communicator_fails_a_call_that_was_queued_in_the_same_moment) {
  SimWorld world({.ranks = 2});
  world.engine(0).abort(*world.communicator(0), "test");
  world.timeline().pass(50ms);  // rank 1 has been told, and has not looked yet
  const auto operation = world.call(1, {.count = 1});
  ASSERT_TRUE(world.run(1s));
  EXPECT_EQ(operation->status().code(), ErrorCode::aborted);
}

// Ranks 1 and 2 are in an operation of a group of all three, for which they have granted to rank 0, when rank 1 aborts
// it; `of_rank_0` is what rank 0 does about the group before. They must not wait for its memory.
void abort_what_rank_0_never_calls(std::uint64_t seed, std::uint64_t count,
                                   const std::function<void(SimWorld&, int)>& of_rank_0,
                                   const std::function<void(SimWorld&, int)>& later) {
  SimWorldOptions options{.ranks = 3, .seed = seed};
  options.weather = any_world(3, seed).weather;
  SimWorld world(options);
  const int group = world.group({0, 1, 2});
  world.call(1, {.count = count}, group);
  world.call(2, {.count = count}, group);
  of_rank_0(world, group);
  world.engine(1).abort(*world.communicator(1, group), "test");
  if (!world.run(500ms)) return;
  for (const auto& operation : world.operations()) EXPECT_EQ(operation->status().code(), ErrorCode::aborted);
  const SimOperations after = world.everyone_calls({.count = 3000});
  if (!world.run(3s)) return;
  for (const auto& operation : after) EXPECT_TRUE(operation->status().ok()) << operation->status().to_string();
  later(world, group);
}

// It keeps what comes for a communicator that it may still make, and nobody else tells it that this will never be; what
// its peer withdraws may come after it is told so (seed 35).
TEST(Aborted, group_that_a_rank_never_made_has_back_at_once_what_was_granted_to_that_rank) {
  for (const std::uint64_t seed : seeds(40, 5))
    abort_what_rank_0_never_calls(
        seed, 3000, [](SimWorld& world, int) { world.linger(2ms); },
        [](SimWorld& world, int group) {
          const auto late = world.call(0, {.count = 3000}, group);
          if (!world.run(3s)) return;
          EXPECT_EQ(late->status().code(), ErrorCode::aborted);
        });
}

TEST(Aborted, group_that_a_rank_made_and_dropped_has_back_at_once_what_was_granted_to_that_rank) {
  for (const std::uint64_t seed : seeds(40, 5))
    abort_what_rank_0_never_calls(
        seed, 30000,
        [](SimWorld& world, int group) {
          (void)world.communicator(0, group);
          world.linger(2ms);
          world.drop(0, group);
          world.linger(30ms);  // its next look
        },
        [](SimWorld&, int) {});
}

TEST(Memory, too_little_on_one_rank_is_an_error_on_every_rank) {
  SimWorldOptions options{.ranks = 3};
  options.segment_bytes = 1 << 20;
  options.short_of_memory = 1;
  options.timeout = 20s;
  SimWorld world(options);
  world.everyone_calls({.count = 100'000});
  ASSERT_TRUE(world.run(3s));
  for (const auto& operation : world.operations()) {
    EXPECT_EQ(operation->status().code(), ErrorCode::out_of_memory);
    EXPECT_THAT(operation->status().message(), HasSubstr("FABRING_SCRATCH_BYTES"));
  }
}

}  // namespace
}  // namespace fabring::fixture
