// A call that one rank refuses for its arguments: who waits in it gets an error that names that rank and its reason,
// unless the rank makes the call after all; and nothing else ends.

#include <gmock/gmock.h>

#include "runtime/engine/call/make_call.hpp"
#include "runtime/engine/members/membership.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* reason = "there is no root 7; ranks are 0 to 2";

struct Refusing {
  explicit Refusing(std::uint64_t seed)
      : chance(seed), ranks(2 + static_cast<int>(chance() % 6)), options(any_world(ranks, seed)), odd(any_rank()) {
    options.algorithm = std::nullopt;
  }
  Rank any_rank() { return static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks)); }
  Time any_time(Time most) { return Time(static_cast<Time::rep>(chance() % static_cast<std::uint64_t>(most.count()))); }
  Request any_call() {
    constexpr Collective all[] = {Collective::allreduce,  Collective::broadcast, Collective::reduce,
                                  Collective::all_gather, Collective::barrier,   Collective::alltoall};
    return any_request(all[chance() % std::size(all)], ranks, chance() % 3000, chance);
  }

  std::mt19937_64 chance;
  int ranks;
  SimWorldOptions options;
  Rank odd;
};

// All calls end well, and so does one long after them.
bool goes_on(SimWorld& world) {
  world.linger(1s);
  if (!world.run(3s)) return false;
  world.linger(3s);
  world.everyone_calls({.count = 10});
  if (!world.run(3s)) return false;
  world.expect_all_ok();
  return true;
}

// Only the calls of some collectives wait for every rank; in the barrier after them somebody does.
TEST(Refused, call_of_one_rank_ends_it_on_every_rank_and_says_why) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    Refusing world_of(seed);
    SimWorld world(world_of.options);
    world.everyone_calls(world_of.any_call());
    const Request what = world_of.any_call();
    for (Rank rank = 0; rank < world_of.ranks; ++rank)
      world.at(world_of.any_time(3s), [&, rank] {
        if (rank == world_of.odd) return world.refuse(rank, reason);
        world.call(rank, what);
        world.call(rank, {.collective = Collective::barrier});
      });
    world.linger(3s);
    if (!world.run(3s)) return;
    int ended = 0;
    for (const auto& operation : world.operations()) {
      if (operation->status().ok()) {
        EXPECT_LT(operation->execution->sequence(), 3u) << world.replay();
        continue;
      }
      ++ended;
      const Status& status = operation->status();
      EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string() << world.replay();
      EXPECT_EQ(status.context().rank, world_of.odd) << status.to_string() << world.replay();
      EXPECT_EQ(status.context().host, "host" + std::to_string(world_of.odd)) << world.replay();
      EXPECT_THAT(status.message(), HasSubstr(reason)) << world.replay();
      EXPECT_THAT(status.message(), HasSubstr("operation #2")) << world.replay();
    }
    EXPECT_GE(ended, world_of.ranks - 1) << world.replay();
    world.linger(50ms);  // it hears of it too
    const auto after = world.call(world_of.odd, what);
    EXPECT_EQ(after->status().code(), ErrorCode::mismatch) << world.replay();
  }
}

TEST(Refused, call_that_is_repeated_at_once_is_told_to_nobody) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    Refusing world_of(seed);
    SimWorld world(world_of.options);
    const Request what = world_of.any_call();
    for (Rank rank = 0; rank < world_of.ranks; ++rank) {
      if (rank != world_of.odd) {
        world.call(rank, what);
        continue;
      }
      for (int i = 0; i < 3; ++i) world.refuse(rank, reason);
      world.at(world_of.any_time(900ms), [&, rank] { world.call(rank, what); });
    }
    if (!goes_on(world)) return;
    EXPECT_TRUE(world.control().refusals().empty()) << world.replay();
  }
}

TEST(Refused, call_may_be_repeated_late_if_nobody_waits_for_it_before) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    Refusing world_of(seed);
    SimWorld world(world_of.options);
    const Request what = world_of.any_call();
    world.refuse(world_of.odd, reason);
    world.linger(5s);
    ASSERT_EQ(world.control().refusals().size(), 1u) << world.replay();
    for (Rank rank = 0; rank < world_of.ranks; ++rank)
      world.at(world_of.any_time(900ms), [&, rank] { world.call(rank, what); });
    if (!goes_on(world)) return;
    ASSERT_EQ(world.control().refusals().size(), 2u) << world.replay();
    EXPECT_EQ(world.control().refusals()[1].text, "") << "it is taken back";
  }
}

TEST(Refused, call_of_every_rank_leaves_them_all_the_time_to_repeat_it) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    Refusing world_of(seed);
    SimWorld world(world_of.options);
    const Request what = world_of.any_call();
    for (Rank rank = 0; rank < world_of.ranks; ++rank) world.refuse(rank, reason);
    for (Rank rank = 0; rank < world_of.ranks; ++rank)
      world.at(rank == world_of.odd ? Time(20s) : world_of.any_time(1s), [&, rank] { world.call(rank, what); });
    world.linger(21s);
    if (!world.run(3s)) return;
    world.expect_all_ok();
  }
}

TEST(Refused, call_on_one_communicator_disturbs_no_other) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    SimWorldOptions options = any_world(5, seed);
    SimWorld world(options);
    const int with = world.group({0, 1, 4}), without = world.group({2, 0, 1, 4});
    std::mt19937_64 chance(seed);
    world.refuse(4, reason, with);
    world.call(0, {.count = 300}, with);
    world.call(1, {.count = 300}, with);
    for (int i = 0; i < 20; ++i) world.everyone_calls_soon(any_allreduce(500, chance), 1s, without);
    world.everyone_calls({.count = 700});
    if (!world.run(30s)) return;
    for (const auto& operation : world.operations())
      EXPECT_EQ(operation->status().ok(),
                operation->execution->communicator() != world.communicator(operation->rank, with))
          << operation->status().to_string() << world.replay();
    world.everyone_calls({.count = 100}, without);
    if (!world.run(3s)) return;
    EXPECT_TRUE(world.operations().back()->status().ok()) << world.replay();
  }
}

// The refused call has no number: what is under way before it may take its time.
TEST(Refused, call_ends_none_before_it) {
  SimWorldOptions options{.ranks = 3};
  options.timeout = 60s;
  SimWorld world(options);
  world.call(0, {.count = 10});
  world.call(1, {.count = 10});
  world.call(1, {.count = 10});
  world.refuse(1, reason);
  world.linger(20s);
  EXPECT_FALSE(world.operations().front()->done());
  world.call(2, {.count = 10});
  world.call(2, {.count = 10});
  world.call(0, {.count = 10});
  if (!world.run(3s)) return;
  world.expect_all_ok();
}

// Who has forgotten what it made of a number may have made the very group that others still use.
TEST(Refused, number_of_a_forgotten_subgroup_ends_no_group_in_which_something_was_done) {
  for (const bool used : {false, true}) {
    SimWorld world({.ranks = 2, .seed = 6});
    const auto make = [&](Rank rank, std::uint32_t number, std::vector<Rank> members) {
      return world.engine(rank).make_subgroup(CommunicatorCore::subgroup_ids | number, "some", std::move(members));
    };
    std::array<std::int32_t, 2> data{1, 1};
    const auto call = [&](Rank rank, const std::shared_ptr<CommunicatorCore>& on) {
      auto& at = data[static_cast<std::size_t>(rank)];
      auto made = make_call(Operation::allreduce(&at, &at, 1, DataType::int32, ReduceOp::sum), *on,
                            choices_for(on->shape()), world.engine(rank).config());
      EXPECT_TRUE(made);
      return world.engine(rank).submit(on, std::move(*made), false);
    };
    auto forgotten = make(0, 5, {0, 1});
    const auto group = make(1, 5, {0, 1});
    if (used) {
      const auto first = call(0, forgotten), second = call(1, group);
      ASSERT_TRUE(world.run_until([&] { return first->done() && second->done(); }, 10s));
      ASSERT_TRUE(second->status().ok()) << second->status().to_string();
    }
    forgotten.reset();
    world.linger(100ms);
    for (std::uint32_t i = 0; i < SubgroupLists::most_gone + 2; ++i) (void)make(0, 100 + i, {0});
    world.engine(0).refused_subgroup(CommunicatorCore::subgroup_ids | 5, Status(ErrorCode::invalid_argument, reason));
    const auto waits = call(1, group);
    world.linger(4s);
    EXPECT_EQ(world.control().refusals().size(), 1u);
    ASSERT_TRUE(waits->done());
    EXPECT_EQ(waits->status().code(), ErrorCode::mismatch);
    EXPECT_THAT(waits->status().message(), HasSubstr(used ? "rank 0 (host host0) has dropped communicator" : reason));
  }
}

// A broadcast waits for nobody but its root: it says nothing of the rank that refused.
TEST(Refused, number_of_a_forgotten_subgroup_is_told_also_where_others_have_done_something) {
  SimWorld world({.ranks = 3, .seed = 6});
  const std::uint32_t number = CommunicatorCore::subgroup_ids | 5;
  const auto make = [&](Rank rank, std::uint32_t id, std::vector<Rank> members) {
    return world.engine(rank).make_subgroup(id, "some", std::move(members));
  };
  (void)make(0, number, {0});
  world.linger(100ms);
  for (std::uint32_t i = 1; i <= SubgroupLists::most_gone + 2; ++i) (void)make(0, number + i, {0});
  world.engine(0).refused_subgroup(number, Status(ErrorCode::invalid_argument, reason));
  std::array<std::int32_t, 3> data{1, 1, 1};
  std::array<std::shared_ptr<CommunicatorCore>, 3> groups{nullptr, make(1, number, {0, 1, 2}),
                                                          make(2, number, {0, 1, 2})};
  const auto call = [&](std::size_t rank, Operation operation) {
    const auto& on = groups[rank];
    auto made = make_call(operation, *on, choices_for(on->shape()), world.engine(static_cast<Rank>(rank)).config());
    EXPECT_TRUE(made);
    return world.engine(static_cast<Rank>(rank)).submit(on, std::move(*made), false);
  };
  std::vector<std::shared_ptr<Execution>> waits;
  for (const std::size_t rank : {1u, 2u}) {
    const auto done = call(rank, Operation::broadcast(&data[rank], &data[rank], 1, DataType::int32, 1));
    ASSERT_TRUE(world.run_until([&] { return done->done(); }, 10s));
    ASSERT_TRUE(done->status().ok()) << done->status().to_string();
    waits.push_back(call(rank, Operation::allreduce(&data[rank], &data[rank], 1, DataType::int32, ReduceOp::sum)));
  }
  ASSERT_TRUE(world.run_until([&] { return waits[0]->done() && waits[1]->done(); }, 10s));
  for (const auto& waited : waits) {
    EXPECT_EQ(waited->status().code(), ErrorCode::mismatch) << waited->status().to_string();
    EXPECT_EQ(waited->status().context().rank, 0) << waited->status().to_string();
    EXPECT_THAT(waited->status().message(), HasSubstr(reason));
  }
}

// Zero says that there is none: a rank that is told of it takes that for nonsense, and its link for broken.
TEST(Refused, call_has_a_number_also_where_numbers_begin_again) {
  SimWorld world({.ranks = 3, .seed = 9});
  for (Rank rank = 0; rank < 3; ++rank) world.engine(rank).world()->last_sequence.store(~std::uint32_t{0});
  world.refuse(0, reason);
  world.linger(1500ms);
  ASSERT_EQ(world.control().refusals().size(), 1u);
  EXPECT_EQ(world.control().refusals()[0].sequence, 1u);
}

// One thread has the number and is making a group of it while another is refused it.
TEST(Refused, number_that_another_thread_is_making_is_told) {
  SimWorld world({.ranks = 3, .seed = 7});
  const std::uint32_t number = CommunicatorCore::subgroup_ids | 5;
  ASSERT_TRUE(world.engine(0).claim_communicator_id(0, number));
  world.engine(0).refused_subgroup(number, Status(ErrorCode::invalid_argument, reason));
  EXPECT_TRUE(world.control().refusals().empty());
  world.linger(1500ms);
  ASSERT_EQ(world.control().refusals().size(), 1u);
  EXPECT_EQ(world.control().refusals()[0].text, reason);
}

TEST(Refused, number_is_told_with_what_was_made_of_it_by_then) {
  Timeline timeline(8);
  SimControl control(timeline, 2);
  const auto plane = control.open(0);
  Refusals refusals(0, plane.get(), [](Rank) { return std::string("somebody"); });
  std::uint64_t made = 0;
  refusals.refused_subgroup(5, Status(ErrorCode::invalid_argument, reason), [&] { return made; });
  made = members_digest({0, 1});
  timeline.pass(1500ms);
  ASSERT_EQ(control.refusals().size(), 1u);
  EXPECT_EQ(control.refusals()[0].made, made);
}

}  // namespace
}  // namespace fabring::fixture
