// The bytes that a collective moves are those of the textbook, counted by the transfer layer.

#include <gtest/gtest.h>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

class Ring : public ::testing::TestWithParam<int> {};

TEST_P(Ring, sends_exactly_its_share_from_every_rank) {
  const int n = GetParam();
  for (const std::size_t eager : {std::size_t{0}, std::size_t{8000}}) {
    SimWorldOptions options{.ranks = n};
    options.eager_bytes = eager;
    SimWorld world(options);
    const std::size_t count = static_cast<std::size_t>(n) * 840;
    const std::size_t bytes = count * sizeof(float);
    world.everyone_calls({.count = count});
    ASSERT_TRUE(world.run());
    world.linger(std::chrono::milliseconds(50));
    const std::uint64_t tiles = world.operations()[0]->execution->tiles();
    ASSERT_GT(tiles, 1u);
    std::uint64_t all = 0, received = 0;
    for (Rank rank = 0; rank < n; ++rank) {
      const Traffic traffic = world.engine(rank).traffic();
      const std::uint64_t share = 2 * static_cast<std::uint64_t>(n - 1) * bytes / static_cast<std::uint64_t>(n);
      // Each tile's parts differ by one element at most.
      EXPECT_NEAR(static_cast<double>(traffic.payload_bytes_sent), static_cast<double>(share),
                  static_cast<double>(tiles * 8));
      EXPECT_GE(traffic.wire_bytes_sent, traffic.payload_bytes_sent);
      all += traffic.payload_bytes_sent;
      received += traffic.payload_bytes_received;
    }
    EXPECT_EQ(received, all);
    EXPECT_EQ(all, 2 * static_cast<std::uint64_t>(n - 1) * bytes);
  }
}

TEST_P(Ring, in_one_tile_sends_to_the_byte_what_the_formula_says) {
  const int n = GetParam();
  SimWorldOptions options{.ranks = n};
  options.segment_bytes = 1 << 20;
  options.depth = 1;
  SimWorld world(options);
  const std::uint64_t bytes = static_cast<std::uint64_t>(n) * 4096;
  world.everyone_calls({.count = static_cast<std::size_t>(bytes) / sizeof(float)});
  ASSERT_TRUE(world.run());
  for (Rank rank = 0; rank < n; ++rank)
    EXPECT_EQ(world.engine(rank).traffic().payload_bytes_sent, 2 * static_cast<std::uint64_t>(n - 1) * 4096);
}

INSTANTIATE_TEST_SUITE_P(Of, Ring, ::testing::Range(2, 10),
                         [](const auto& of) { return std::to_string(of.param) + "_ranks"; });

TEST(Traffic, goes_unasked_up_to_the_limit_that_is_given_whatever_the_endpoint_could) {
  SimWorldOptions options{.ranks = 2};
  options.parcels = parcels_over_network(2, std::size_t{32} << 20);
  for (const std::size_t limit : {eager_bytes - 8, eager_bytes, eager_bytes + 8}) {
    options.eager_bytes = limit;
    SimWorld world(options);
    EXPECT_EQ(world.engine(0).eager_limit(), limit);
  }
}

TEST(Traffic, has_no_announcement_where_the_grant_comes_soon) {
  std::uint64_t sent[2] = {};
  for (const bool late : {false, true}) {
    SimWorldOptions options{.ranks = 2};
    options.algorithm = Algorithm::direct_one_shot;
    options.eager_bytes = 0;
    SimWorld world(options);
    Request what{.count = 100};
    what.collective = Collective::broadcast;
    world.call(0, what);
    const auto sent_by_root = [&] { return world.engine(0).traffic().messages_sent; };
    if (late) {
      ASSERT_TRUE(world.run_until([&] { return sent_by_root() > 0; }, std::chrono::seconds(1)))
          << "rank 1 may have called something else";
    }
    world.call(1, what);
    ASSERT_TRUE(world.run());
    sent[late ? 1 : 0] = sent_by_root();
  }
  EXPECT_EQ(sent[0] + 1, sent[1]);
}

TEST(Traffic, of_every_algorithm_is_what_its_plan_says) {
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) {
    SimWorldOptions options{.ranks = 6, .nodes = {2, 4}};
    options.algorithm = algorithm;
    options.segment_bytes = 1 << 20;
    options.depth = 1;
    SimWorld world(options);
    world.everyone_calls({.count = 1001});
    ASSERT_TRUE(world.run());
    for (Rank rank = 0; rank < 6; ++rank) {
      const auto plan = make_plan({algorithm, rank, {0, 0, 1, 1, 1, 1}, ReduceOp::sum});
      std::uint64_t expected = 0;
      for (const std::uint64_t bytes : bytes_sent_to(*plan, 1001, sizeof(float))) expected += bytes;
      EXPECT_EQ(world.engine(rank).traffic().payload_bytes_sent, expected) << name(algorithm) << " rank " << rank;
    }
  }
}

// Slots are numbered as they are granted: what comes for the first of them must be the beginning of the vector.
TEST(Traffic, of_tiles_that_begin_together_is_granted_from_the_first_on) {
  SimWorldOptions options{.ranks = 2};
  options.algorithm = Algorithm::chain;
  options.weather.refusals = 0;
  SimWorld world(options);
  world.fabric().excuse(0);
  world.mute(0);
  const auto root = world.fabric().open(0);
  const std::size_t tile_elements = options.segment_bytes / sizeof(float);
  const auto operation = world.call(1, {.count = 10 * tile_elements, .collective = Collective::broadcast});
  world.linger(std::chrono::milliseconds(1));
  const std::vector<std::byte> message(options.segment_bytes, std::byte{0x5a});
  for (Slot tile = 0; tile < 3; ++tile) {
    (void)root->post_send(1, Transfer::first_granted_slot + tile, message, SimFabric::hostile_contexts - 1 - tile);
    world.linger(std::chrono::milliseconds(10));
    const std::byte* const at = operation->out->data() + tile * message.size();
    EXPECT_TRUE(std::equal(message.begin(), message.end(), at)) << "tile " << tile;
  }
}

// A peer that has called before waits for nothing but this rank's grant: it has that before this rank sends at length.
TEST(Traffic, of_who_comes_last_begins_with_its_grants) {
  for (const Collective collective : {Collective::all_gather, Collective::alltoall, Collective::reduce_scatter}) {
    SimWorldOptions options{.ranks = 2};
    options.algorithm.reset();
    options.segment_bytes = 1 << 20;
    options.depth = 1;
    options.weather.refusals = 0;
    SimWorld world(options);
    const Request what{.count = 1000, .collective = collective};
    world.call(1, what);
    world.linger(std::chrono::milliseconds(10));
    std::vector<Slot> slots;
    world.fabric().watch_sends(0, slots);
    world.call(0, what);
    ASSERT_TRUE(world.run());
    world.expect_all_ok();
    ASSERT_EQ(slots.size(), 2u) << name(collective);
    EXPECT_LT(slots[0], Transfer::first_granted_slot) << name(collective) << ": a record";
    EXPECT_GE(slots[1], Transfer::first_granted_slot) << name(collective) << ": the message";
  }
}

}  // namespace
}  // namespace fabring::fixture
