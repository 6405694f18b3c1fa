// A communicator that one rank has dropped: who waits there for what that rank will never call gets an error that names
// it, and nobody else does.

#include <gmock/gmock.h>

#include "runtime/engine/members/dropped.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Dropping {
  explicit Dropping(std::uint64_t seed)
      : chance(seed), ranks(3 + static_cast<int>(chance() % 5)), options(any_world(ranks, seed)) {
    options.algorithm = std::nullopt;
    for (Rank rank = 0; rank < ranks; ++rank)
      if (rank == 0 || chance() % 3 != 0) members.push_back(rank);
    if (members.size() < 2) members.push_back(ranks - 1);
    odd = members[chance() % members.size()];
  }
  std::mt19937_64 chance;
  int ranks;
  SimWorldOptions options;
  std::vector<Rank> members;
  Rank odd = 0;
};

void expect_named(const SimOperation& operation, Rank odd, const SimWorld& world) {
  const Status& status = operation.status();
  EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string() << world.replay();
  EXPECT_EQ(status.context().rank, odd) << status.to_string() << world.replay();
  EXPECT_THAT(status.message(), HasSubstr("has dropped communicator")) << world.replay();
}

// The barrier after them waits for every rank.
TEST(Dropped, communicator_ends_the_next_call_of_the_others_and_says_who_dropped_it) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    Dropping dropping(seed);
    SimWorld world(dropping.options);
    const int group = world.group(dropping.members);
    for (const Rank rank : dropping.members) (void)world.communicator(rank, group);
    const std::size_t before = dropping.chance() % 4;
    for (std::size_t i = 0; i < before; ++i) world.everyone_calls(any_allreduce(3000, dropping.chance), group);
    if (!world.run(10s)) return;
    world.expect_all_ok();
    world.drop_with_operations(dropping.odd, group);
    std::size_t ended = 0;
    for (const Rank rank : dropping.members)
      if (rank != dropping.odd) world.call(rank, {.collective = Collective::barrier}, group);
    world.linger(4s);
    if (!world.run(1s)) return;
    for (const auto& operation : world.operations()) {
      if (operation->status().ok()) continue;
      ++ended;
      expect_named(*operation, dropping.odd, world);
    }
    EXPECT_EQ(ended, dropping.members.size() - 1) << world.replay();
    world.everyone_calls({.count = 10});
    if (!world.run(3s)) return;
    EXPECT_TRUE(world.operations().back()->status().ok()) << world.replay();
  }
}

// A rank may be done with its part and drop what others still work on, or wait for a late one in.
TEST(Dropped, communicator_ends_nothing_that_was_called_there_before) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    Dropping dropping(seed);
    dropping.options.timeout = 60s;
    SimWorld world(dropping.options);
    const int group = world.group(dropping.members);
    const Rank late = dropping.odd;
    const Rank root = late == dropping.members[0] ? 1 : 0;
    const auto broadcast = [&](Rank rank) {
      world.call(rank, {.count = 10, .collective = Collective::broadcast, .root = root}, group);
    };
    for (const Rank rank : dropping.members)
      if (rank != late) broadcast(rank);
    world.linger(100ms);
    for (const Rank rank : dropping.members)  // who has sent what it had to is over, and gone
      if (rank != late) world.drop_with_operations(rank, group);
    world.linger(10s);
    broadcast(late);
    if (!world.run(3s)) return;
    world.expect_all_ok();
  }
}

// What was sent before is received; and a receive from anybody may be served by others.
TEST(Dropped, communicator_ends_messages_that_it_will_never_send_or_receive) {
  for (const std::uint64_t seed : seeds(30, 5)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(3, seed);
    options.timeout = 60s;
    SimWorld world(options);
    const int group = world.group({0, 1, 2});
    const auto message = [](Collective way, Rank other, std::size_t count) {
      return Request{.count = count, .collective = way, .root = other};
    };
    const std::size_t sent = 1 + chance() % 3;
    for (Rank rank = 0; rank < 3; ++rank) (void)world.communicator(rank, group);
    for (std::size_t i = 0; i < sent; ++i) world.call(1, message(Collective::send, 0, 5), group);
    world.linger(100ms);
    world.drop_with_operations(1, group);
    SimOperations come;
    const bool late = chance() % 2 == 0;
    for (std::size_t i = 0; i < sent; ++i) {
      if (late) world.linger(4s);
      come.push_back(world.call(0, message(Collective::recv, 1, 5), group));
    }
    world.linger(4s);
    for (const auto& operation : come) {
      ASSERT_TRUE(operation->done()) << world.replay();
      EXPECT_TRUE(operation->status().ok()) << operation->status().to_string() << world.replay();
    }
    world.drop_with_operations(1, group);  // those that waited for their receives keep it until now
    const bool sends = chance() % 2 == 0;
    const auto waits = world.call(0, message(sends ? Collective::send : Collective::recv, 1, 100'000), group);
    world.linger(4s);
    ASSERT_TRUE(waits->done()) << (sends ? "a send" : "a receive") << world.replay();
    expect_named(*waits, 1, world);
  }
}

TEST(Dropped, rank_is_asked_ever_more_seldom) {
  SimWorldOptions options{.ranks = 2};
  options.timeout = 400s;
  SimWorld world(options);
  world.call(0, {.count = 10});
  world.linger(130s);
  const std::size_t asked = world.control().letters();
  EXPECT_GE(asked, 5u);
  EXPECT_LE(asked, 10u);  // after 1, 2, 4 ... s
  world.call(1, {.count = 10});
  if (!world.run(3s)) return;
  world.expect_all_ok();
}

TEST(Dropped, letters_that_are_none_are_no_letters) {
  const DroppedLetter answer{true, 7, 9, true, 3};
  const std::string bytes = answer.encode();
  const auto again = DroppedLetter::decode(bytes);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->answers && again->counted);
  EXPECT_EQ(again->id, 7u);
  EXPECT_EQ(again->sequence, 9u);
  EXPECT_EQ(again->messages, 3u);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(DroppedLetter::decode(std::string_view(bytes).substr(0, length)));
  EXPECT_FALSE(DroppedLetter::decode(bytes + "x"));
  for (const std::size_t flag : {std::size_t{0}, std::size_t{9}}) {
    std::string wrong = bytes;
    wrong[flag] = 2;
    EXPECT_FALSE(DroppedLetter::decode(wrong));
  }
}

TEST(Dropped, answers_are_kept_by_rank_and_communicator_and_the_oldest_are_forgotten) {
  DroppedElsewhere elsewhere;
  elsewhere.heard(1, {true, 7, 2});
  elsewhere.heard(1, {true, 7, 3});
  elsewhere.heard(2, {true, 7, 5});
  EXPECT_EQ(elsewhere.of(1, 7)->sequence, 3u);
  EXPECT_EQ(elsewhere.of(2, 7)->sequence, 5u);
  EXPECT_FALSE(elsewhere.of(1, 8));
  for (std::uint32_t id = 100; id < 100 + DroppedElsewhere::most_answers; ++id) elsewhere.heard(3, {true, id, 1});
  EXPECT_FALSE(elsewhere.of(1, 7));
  EXPECT_TRUE(elsewhere.of(3, 100));
}

}  // namespace
}  // namespace fabring::fixture
