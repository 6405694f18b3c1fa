// What an engine holds: how it is told, and that it stays within what docs/memory.md says.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "runtime/engine/call/make_call.hpp"
#include "runtime/engine/memory_account.hpp"
#include "tests/support/sim_world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

TEST(MemoryAccount, says_what_there_is_and_nothing_of_the_rest) {
  MemoryAccount memory{.peers = 3, .posted = 2 * mebibyte, .scratch = mebibyte, .scratch_most = 4 * mebibyte};
  memory.scratch_limit = 32 * mebibyte;
  EXPECT_EQ(memory.held(), 3 * mebibyte);
  EXPECT_EQ(memory_text(memory),
            "3.0 MiB held; for 3 peers 2.0 MiB (posted 2.0 MiB); scratch 1.0 MiB of 32.0 MiB (most 4.0 MiB)");
  memory.pinned = 1536;
  memory.mapped = 5 * mebibyte;
  EXPECT_EQ(memory.held(), 3 * mebibyte + 1536) << "what the program has is its own";
  EXPECT_THAT(memory_text(memory),
              AllOf(HasSubstr("; pinned 1.5 KiB, mapped by the program 5.0 MiB"), Not(HasSubstr("copies"))));
}

// Of tcp, to ranks that all have a host of their own.
std::uint64_t buffers_of_connections(int ranks) {
  EndpointOptions options;
  options.self = ranks - 1;
  options.world_size = ranks;
  options.bind_address = "127.0.0.1";
  auto endpoint = make_tcp_transport()->open(options);
  EXPECT_TRUE(endpoint) << endpoint.error().to_string();
  for (Rank peer = 0; peer < options.self; ++peer)  // the highest rank dials nobody
    EXPECT_TRUE((*endpoint)->add_peer(peer, fmt::format("tcp 10.1.{}.{}:9", peer / 256, peer % 256)).ok());
  return (*endpoint)->most_held_bytes();
}

TEST(MemoryAccount, connections_are_part_of_the_budget_but_for_64_KiB_a_peer_and_up_to_a_half) {
  EXPECT_EQ(scratch_beside(32 * mebibyte, 0, 3), 32 * mebibyte);
  EXPECT_EQ(scratch_beside(32 * mebibyte, 3 * 65536, 3), 32 * mebibyte);
  EXPECT_EQ(scratch_beside(32 * mebibyte, 4 * mebibyte, 1), 28 * mebibyte + 65536);
  EXPECT_EQ(scratch_beside(32 * mebibyte, 40 * mebibyte, 1), 16 * mebibyte);
  for (const int ranks : {2, 3, 5, 9, 17, 32, 33, 64, 129, 257, 1024, 4096}) {
    const ParcelRules parcels = parcels_over_network(ranks, 32 * mebibyte);
    const LandingRules landings = landings_over_network(ranks, false, 32 * mebibyte);
    const auto peers = static_cast<std::uint64_t>(ranks - 1);
    const std::uint64_t connections =
        peers * (parcels.slots * parcels.longest + landings.count * landings.bytes) + buffers_of_connections(ranks);
    EXPECT_LE(connections + scratch_beside(32 * mebibyte, connections, ranks - 1), 32 * mebibyte + 65536 * peers)
        << ranks << " ranks";
  }
}

struct Crowd {
  static constexpr int ranks = 3, communicators = 12;
  static constexpr std::size_t segment = 64 << 10, budget = 1 << 20, count = 300'000;

  explicit Crowd(std::uint64_t seed) : world(options(seed)) {
    for (int i = 0; i < communicators; ++i) groups.push_back(world.group({0, 1, 2}));
    data.assign(ranks * communicators, std::vector<std::int32_t>(count, 1));
  }
  static SimWorldOptions options(std::uint64_t seed) {
    SimWorldOptions options{.ranks = ranks, .seed = seed};
    options.segment_bytes = segment;
    options.scratch_bytes = budget;
    return options;
  }
  // Rank 1 in the reverse order: whatever ranks wait for, it must not be each other.
  void start() {
    for (Rank rank = 0; rank < ranks; ++rank)
      for (int i = 0; i < communicators; ++i) call(rank, rank == 1 ? communicators - 1 - i : i);
  }
  void call(Rank rank, int group) {
    const auto core = world.communicator(rank, groups[static_cast<std::size_t>(group)]);
    auto& at = data[static_cast<std::size_t>(rank * communicators + group)];
    auto made = make_call(Operation::allreduce(at.data(), at.data(), count, DataType::int32, ReduceOp::sum), *core,
                          choices_for(core->shape()), world.engine(rank).config());
    ASSERT_TRUE(made) << made.error().to_string();
    made->algorithm = Algorithm::ring;
    works.push_back(world.engine(rank).submit(core, std::move(*made), false));
  }

  SimWorld world;
  std::vector<int> groups;
  std::vector<std::vector<std::int32_t>> data;
  std::vector<std::shared_ptr<Execution>> works;
};

// The budget, and beyond it one least for each communicator: the ring needs one message.
TEST(MemoryAccount, many_communicators_hold_the_budget_and_one_least_each_at_most) {
  for (const std::uint64_t seed : seeds(3, 1)) {
    Crowd crowd(seed);
    crowd.start();
    if (testing::Test::HasFatalFailure()) return;
    std::size_t most = 0, lent = 0;
    ASSERT_TRUE(crowd.world.run_until(
        [&] {
          const MemoryAccount memory = crowd.world.engine(0).memory();
          most = std::max<std::size_t>(most, memory.scratch);
          lent = std::max<std::size_t>(lent, memory.scratch_lent);
          return std::all_of(crowd.works.begin(), crowd.works.end(), [](const auto& work) { return work->done(); });
        },
        std::chrono::seconds(1000)))
        << crowd.world.replay();
    for (const auto& work : crowd.works) ASSERT_TRUE(work->status().ok()) << work->status().to_string();
    for (const auto& each : crowd.data) ASSERT_EQ(each, std::vector<std::int32_t>(Crowd::count, Crowd::ranks));
    const MemoryAccount after = crowd.world.engine(0).memory();
    EXPECT_GT(lent, after.scratch_limit * 3 / 4) << "this test is about nothing";
    EXPECT_LE(most, after.scratch_limit + Crowd::communicators * Crowd::segment) << crowd.world.replay();
    EXPECT_GE(after.scratch_most, most);
    EXPECT_EQ(after.scratch_lent, 0u);
    EXPECT_LE(after.scratch, after.scratch_limit) << "what was beyond is given back";
    EXPECT_LE(after.scratch_limit, Crowd::budget);
    EXPECT_EQ(after.peers, 2u);
    EXPECT_EQ(after.posted, 2 * std::uint64_t{eager_slots} * parcel_bytes);
  }
}

TEST(MemoryAccount, a_rank_says_what_it_holds_and_copies_of_inputs_count_while_they_are_needed) {
  SimWorld world({.ranks = 2, .seed = 3});
  std::vector<std::int32_t> data(20'000, 1);
  const auto call = [&](Rank rank, std::vector<std::int32_t>& at) {
    const auto of = world.communicator(rank);
    auto made = make_call(Operation::alltoall(at.data(), at.data(), 10'000, DataType::int32), *of,
                          choices_for(of->shape()), world.engine(rank).config());
    EXPECT_TRUE(made);
    return world.engine(rank).submit(of, std::move(*made), false);
  };
  const auto work = call(0, data);
  RankState state = world.engine(0).state();
  ASSERT_TRUE(state.memory.has_value());
  EXPECT_EQ(state.memory->copies, 80'000u);
  std::vector<std::int32_t> other(20'000, 2);
  const auto theirs = call(1, other);
  ASSERT_TRUE(world.run_until([&] { return work->done() && theirs->done(); }, std::chrono::seconds(100)));
  EXPECT_EQ(world.engine(0).state().memory->copies, 0u);
}

// As Prepared does, which keeps the call.
TEST(MemoryAccount, starts_of_one_prepared_call_share_a_copy_that_counts_as_long_as_it_is_kept) {
  SimWorld world({.ranks = 2, .seed = 5});
  std::array<std::vector<std::int32_t>, 2> data{std::vector<std::int32_t>(20'000, 1),
                                                std::vector<std::int32_t>(20'000, 2)};
  const auto prepare = [&](Rank rank) {
    const auto of = world.communicator(rank);
    auto& at = data[static_cast<std::size_t>(rank)];
    auto made = make_call(Operation::alltoall(at.data(), at.data(), 10'000, DataType::int32), *of,
                          choices_for(of->shape()), world.engine(rank).config());
    EXPECT_TRUE(made);
    return std::make_unique<Call>(std::move(*made));
  };
  const auto copies = [&] { return world.engine(0).state().memory->copies; };
  auto ours = prepare(0), theirs = prepare(1);
  EXPECT_EQ(copies(), 80'000u);
  std::vector<std::shared_ptr<Execution>> works;
  for (int start = 0; start < 2; ++start) {
    works.push_back(world.engine(0).submit(world.communicator(0), Call(*ours), false));
    EXPECT_EQ(copies(), 80'000u);
  }
  for (int start = 0; start < 2; ++start)
    works.push_back(world.engine(1).submit(world.communicator(1), Call(*theirs), false));
  ASSERT_TRUE(world.run_until(
      [&] { return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); }); },
      std::chrono::seconds(100)));
  for (const auto& work : works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
  EXPECT_EQ(copies(), 80'000u) << "it may be started again";
  ours.reset();
  EXPECT_EQ(copies(), 0u);
}

TEST(MemoryAccount, scratch_is_limited_to_what_the_connections_leave) {
  SimWorldOptions options{.ranks = 2, .seed = 4};
  options.scratch_bytes = 32 * mebibyte;
  options.parcels = parcels_over_network(2, options.scratch_bytes);
  SimWorld world(options);
  const MemoryAccount memory = world.engine(1).memory();
  EXPECT_GT(memory.connections(), 2 * mebibyte);
  EXPECT_EQ(memory.channels, 0u);
  EXPECT_EQ(memory.scratch_limit + memory.connections() + SimFabric::held_once_connected, 32 * mebibyte + 65536);
}

}  // namespace
}  // namespace fabring::fixture
