// Buffers in memory of a fake GPU on a fabric that reaches it: what is only moved is sent from there and received
// there, what is reduced goes through memory of the host, and nobody can tell from the result. The fabric holds the
// engine to its side: it names no memory of the GPU that was not admitted, for these peers and now.

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/algorithm_cases.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

std::vector<AlgorithmCase> direct_cases() {
  std::vector<AlgorithmCase> cases = algorithm_cases();
  std::erase_if(cases, [](const AlgorithmCase& one) { return reduces(one.collective); });
  return cases;
}

SimWorldOptions with_cards(SimWorldOptions options, double refused) {
  options.device = true;
  options.cards = refused;
  options.weather.tickets = false;  // ranks of this host read each other's memory otherwise
  return options;
}

class DirectBy : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(DirectBy, any_request_is_right_on_every_rank_also_where_some_memory_is_refused) {
  std::uint64_t from_device = 0;
  for (const int ranks : {2, 3, 5, 8}) {
    for (const std::uint64_t seed : seeds(2, 1)) {
      std::mt19937_64 chance(seed + static_cast<std::uint64_t>(ranks) * 977);
      for (const std::size_t count : {std::size_t{1}, std::size_t{97}, std::size_t{700}}) {
        SimWorldOptions options = with_cards(any_world(ranks, seed + count * 1000003), chance() % 2 == 0 ? 0.0 : 0.3);
        options.algorithm = GetParam().algorithm;
        options.weather.tickets = chance() % 4 == 0;
        SimWorld world(options);
        for (int i = 0; i < 3; ++i)
          if (const Request what = any_request(GetParam().collective, ranks, count, chance);
              is_possible(GetParam(), what, ranks))
            world.everyone_calls_soon(what, std::chrono::microseconds(200));
        if (!world.run()) return;
        world.expect_all_ok();
        from_device += world.fabric().messages_from_device();
      }
    }
  }
  const bool from_scratch = GetParam().collective == Collective::alltoall && GetParam().algorithm == Algorithm::bruck;
  EXPECT_EQ(from_device > 0, GetParam().collective != Collective::barrier && !from_scratch);
}

INSTANTIATE_TEST_SUITE_P(All, DirectBy, ::testing::ValuesIn(direct_cases()), name_of_case<AlgorithmCase>);

// Ranks of a host read each other's memory, and cards do for those of others.
class PartlyDirectBy : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(PartlyDirectBy, any_request_is_right_on_every_rank_also_where_some_memory_is_refused) {
  for (const int ranks : {3, 6}) {
    for (const std::uint64_t seed : seeds(1, 1)) {
      std::mt19937_64 chance(seed + static_cast<std::uint64_t>(ranks) * 977);
      for (const std::size_t count : {std::size_t{1}, std::size_t{97}, std::size_t{700}}) {
        SimWorldOptions options = with_cards(any_world(ranks, seed + count * 1000003), chance() % 2 == 0 ? 0.0 : 0.2);
        options.algorithm = GetParam().algorithm;
        options.weather.tickets = true;
        options.weather.ticket_group = 2 + static_cast<int>(chance() % 2);
        SimWorld world(options);
        if (chance() % 2 == 0) world.device().refuse_to_open(10);
        for (int i = 0; i < 3; ++i)
          if (const Request what = any_request(GetParam().collective, ranks, count, chance);
              is_possible(GetParam(), what, ranks))
            world.everyone_calls_soon(what, std::chrono::microseconds(200));
        if (!world.run()) return;
        world.expect_all_ok();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartlyDirectBy, ::testing::ValuesIn(algorithm_cases()), name_of_case<AlgorithmCase>);

// Two hosts of two ranks each.
struct PartlyDirect {
  static constexpr std::size_t count = 20'000;
  explicit PartlyDirect(double refused, Algorithm algorithm)
      : world([&] {
          SimWorldOptions options = with_cards({.ranks = 4, .seed = 11, .algorithm = algorithm}, refused);
          options.nodes = {2, 2};
          options.weather.tickets = true;
          options.weather.ticket_group = 2;
          return options;
        }()) {
    for (Rank rank = 0; rank < 4; ++rank) {
      buffers.push_back(*world.device().allocate(0, count * 4));
      std::fill_n(see(rank), count, rank + 1);
    }
  }
  std::int32_t* see(Rank rank) {
    return reinterpret_cast<std::int32_t*>(world.device().see(buffers[static_cast<std::size_t>(rank)]));
  }
  void everyone(const std::function<Operation(std::byte*)>& operation) {
    for (Rank rank = 0; rank < 4; ++rank) {
      const auto core = world.communicator(rank);
      auto call = make_call(operation(buffers[static_cast<std::size_t>(rank)]), *core, choices_for(core->shape()), {},
                            &world.device());
      ASSERT_TRUE(call.has_value()) << call.error().to_string();
      works.push_back(world.engine(rank).submit(core, std::move(*call), false));
    }
    ASSERT_TRUE(world.run_until(
        [this] { return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); }); },
        std::chrono::seconds(10)));
    for (const auto& work : works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
  }

  SimWorld world;
  std::vector<std::byte*> buffers;
  std::vector<std::shared_ptr<Execution>> works;
};

TEST(Direct, between_two_hosts_a_broadcast_goes_by_card_and_an_allreduce_sends_what_it_reduced_from_where_it_is) {
  std::uint64_t with_host[2][2] = {};  // copies: by what is called, and whether cards admit memory
  for (const bool cards : {false, true}) {
    PartlyDirect moved(cards ? 0 : 1, Algorithm::chain);
    moved.everyone([](std::byte* at) { return Operation::broadcast(at, at, PartlyDirect::count, DataType::int32, 1); });
    PartlyDirect reduced(cards ? 0 : 1, Algorithm::hierarchical);
    reduced.everyone([](std::byte* at) {
      return Operation::allreduce(at, at, PartlyDirect::count, DataType::int32, ReduceOp::sum);
    });
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(moved.see(rank)[PartlyDirect::count - 1], 2);
      EXPECT_EQ(reduced.see(rank)[PartlyDirect::count - 1], 10);
    }
    PartlyDirect* const jobs[] = {&moved, &reduced};
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(jobs[i]->world.fabric().messages_from_device() > 0, cards);
      EXPECT_EQ(jobs[i]->world.fabric().held(), 0u);
      with_host[i][cards ? 1 : 0] = jobs[i]->world.device().copies_with_host();
    }
  }
  EXPECT_LT(with_host[0][1] * 5, with_host[0][0]) << "some loans were refused, as any may be";
  EXPECT_LT(with_host[1][1] * 4, with_host[1][0] * 3) << "what is received to be reduced comes to the host";
}

TEST(Direct, messages_of_any_size_arrive_also_those_to_oneself) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    std::mt19937_64 chance(seed);
    SimWorld world(with_cards(any_world(3, seed), 0.2));
    for (std::uint64_t i = 0; i < 30; ++i) {
      const auto from = static_cast<Rank>(chance() % 3), to = static_cast<Rank>(chance() % 3);
      const std::size_t count = chance() % 4 == 0 ? chance() % 3000 : chance() % 40;
      world.call(from, {.count = count, .salt = i, .collective = Collective::send, .root = to});
      world.call(to, {.count = count, .salt = i, .collective = Collective::recv, .root = from, .tag = any_tag});
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Direct, a_rank_that_dies_ends_them_all_and_no_memory_is_named_any_more) {
  for (const std::uint64_t seed : seeds(20, 2)) {
    SimWorld world(with_cards(any_world(4, seed), 0.1));
    std::mt19937_64 chance(seed);
    for (const Collective collective : {Collective::all_gather, Collective::broadcast, Collective::alltoall}) {
      Request what = any_request(collective, 4, 3000, chance);
      what.in_place = what.in_place && collective != Collective::alltoall;
      world.everyone_calls(what);
    }
    world.kill_at(static_cast<Rank>(seed % 4), std::chrono::microseconds(chance() % 300));
    if (!world.run()) return;
  }
}

// One buffer of each rank, in memory of the device.
class Gathering {
 public:
  static constexpr std::size_t count = 4096;  // in whole segments
  explicit Gathering(double refused, std::uint64_t seed = 3)
      : world(with_cards({.ranks = ranks, .seed = seed, .algorithm = std::nullopt}, refused)) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      buffers.push_back(*world.device().allocate(0, ranks * count * 4));
      std::fill_n(see(rank) + static_cast<std::size_t>(rank) * count, count, rank + 1);
    }
  }
  std::int32_t* see(Rank rank) {
    return reinterpret_cast<std::int32_t*>(world.device().see(buffers[static_cast<std::size_t>(rank)]));
  }
  void call(Rank rank, const Operation& operation) {
    const auto core = world.communicator(rank);
    auto made = make_call(operation, *core, choices_for(core->shape()), {}, &world.device());
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    works.push_back(world.engine(rank).submit(core, std::move(*made), false));
  }
  void all_gather_in_place() {
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::byte* const out = buffers[static_cast<std::size_t>(rank)];
      call(rank, Operation::all_gather(out + static_cast<std::size_t>(rank) * count * 4, out, count, DataType::int32));
    }
  }
  bool run() {
    return world.run_until(
        [this] { return std::all_of(works.begin(), works.end(), [](const auto& work) { return work->done(); }); },
        std::chrono::seconds(10));
  }
  void expect_gathered() {
    for (const auto& work : works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
    for (Rank rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < ranks * count; ++i)
        ASSERT_EQ(see(rank)[i], static_cast<std::int32_t>(i / count) + 1) << rank;
  }
  std::size_t lines_with(const std::string& part) const {
    return static_cast<std::size_t>(std::count_if(
        world.log().begin(), world.log().end(), [&](const std::string& line) { return line.find(part) != line.npos; }));
  }

  static constexpr int ranks = 3;
  SimWorld world;
  std::vector<std::byte*> buffers;
  std::vector<std::shared_ptr<Execution>> works;
};

TEST(Direct, what_is_only_moved_takes_no_memory_of_the_host_and_no_copy) {
  Gathering job(0);
  job.all_gather_in_place();
  ASSERT_TRUE(job.run());
  job.expect_gathered();
  EXPECT_EQ(job.world.device().pinned_bytes(), 0u);
  EXPECT_EQ(job.world.device().bytes_copied(), 0u);
  EXPECT_GE(job.world.fabric().messages_from_device(), 2u * 3 * 2);
}

TEST(Direct, small_messages_among_large_ones_go_through_places_of_their_own) {
  Gathering job(0);
  for (Rank rank = 0; rank < Gathering::ranks; ++rank) {
    std::byte* const out = job.buffers[static_cast<std::size_t>(rank)];
    const std::size_t counts[] = {Gathering::count, 3, 0};
    const std::size_t offsets[] = {0, Gathering::count, 2 * Gathering::count};
    Operation gather = Operation::all_gather_v(out + offsets[rank] * 4, out, Blocks{counts, offsets}, DataType::int32);
    job.call(rank, gather);
  }
  ASSERT_TRUE(job.run());
  EXPECT_GT(job.world.fabric().messages_from_device(), 0u);
  for (Rank rank = 0; rank < Gathering::ranks; ++rank) {
    EXPECT_EQ(job.see(rank)[Gathering::count - 1], 1);
    EXPECT_EQ(job.see(rank)[Gathering::count + 2], 2);
  }
  EXPECT_LE(job.world.device().bytes_copied(), 3u * 4 * 2 * Gathering::ranks);
}

TEST(Direct, refused_memory_is_staged_with_the_same_result_and_the_reason_is_said_once_by_each_rank) {
  Gathering job(1);
  job.all_gather_in_place();
  ASSERT_TRUE(job.run());
  job.all_gather_in_place();
  ASSERT_TRUE(job.run());
  job.expect_gathered();
  EXPECT_GT(job.world.device().pinned_bytes(), 0u);
  EXPECT_EQ(job.world.fabric().messages_from_device(), 0u);
  EXPECT_EQ(job.lines_with("GPU memory goes through memory of the host: the simulated card is in a bad mood"), 3u);
}

TEST(Direct, what_is_reduced_is_staged) {
  Gathering job(0);
  for (Rank rank = 0; rank < Gathering::ranks; ++rank) {
    std::byte* const buffer = job.buffers[static_cast<std::size_t>(rank)];
    job.call(rank, Operation::allreduce(buffer, buffer, Gathering::count, DataType::int32, ReduceOp::sum));
  }
  ASSERT_TRUE(job.run());
  for (const auto& work : job.works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
  EXPECT_EQ(job.world.fabric().messages_from_device(), 0u);
  EXPECT_GT(job.world.device().bytes_copied(), 0u);
}

TEST(Direct, an_alltoall_in_place_is_staged_since_blocks_come_where_others_are_still_to_be_sent) {
  Gathering job(0);
  for (Rank rank = 0; rank < Gathering::ranks; ++rank) {
    for (std::size_t to = 0; to < Gathering::ranks; ++to)
      std::fill_n(job.see(rank) + to * Gathering::count, Gathering::count, rank * 10 + static_cast<int>(to));
    std::byte* const buffer = job.buffers[static_cast<std::size_t>(rank)];
    job.call(rank, Operation::alltoall(buffer, buffer, Gathering::count, DataType::int32));
  }
  ASSERT_TRUE(job.run());
  EXPECT_EQ(job.world.fabric().messages_from_device(), 0u);
  for (Rank rank = 0; rank < Gathering::ranks; ++rank)
    for (std::size_t from = 0; from < Gathering::ranks; ++from)
      EXPECT_EQ(job.see(rank)[from * Gathering::count + 17], static_cast<int>(from) * 10 + rank);
}

TEST(Direct, memory_is_given_back_when_the_operation_is_over) {
  Gathering job(0);
  job.all_gather_in_place();
  ASSERT_TRUE(job.run());
  EXPECT_GT(job.world.fabric().admitted(), 0u) << "asked";
  EXPECT_EQ(job.world.fabric().held(), 0u);
}

}  // namespace
}  // namespace fabring::fixture
