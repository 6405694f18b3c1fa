// Every collective over the simulated fabric with long data, one after the other, and with ranks that differ about it.
// matrix_test.cpp has types, operations, lengths and worlds.

#include <gtest/gtest.h>

#include "tests/support/algorithm_cases.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

class CollectiveBy : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(CollectiveBy, large_data_go_through_the_limits_used_in_earnest) {
  for (const int ranks : {3, 4}) {
    SimWorldOptions options{.ranks = ranks, .nodes = {2, ranks - 2}, .seed = 3};
    options.eager_bytes = eager_bytes;
    options.segment_bytes = 0;
    options.depth = 0;
    options.algorithm = GetParam().algorithm;
    SimWorld world(options);
    std::mt19937_64 chance(7);
    for (int i = 0; i < 2; ++i) {
      Request what = any_request(GetParam().collective, ranks, 200'003, chance);
      if (is_possible(GetParam(), what, ranks)) world.everyone_calls(what);
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveBy, ::testing::ValuesIn(algorithm_cases()), name_of_case<AlgorithmCase>);

TEST(Collectives, of_all_kinds_follow_each_other_in_any_order) {
  for (const std::uint64_t seed : seeds(20, 2)) {
    std::mt19937_64 chance(seed);
    const int ranks = 2 + static_cast<int>(chance() % 6);
    SimWorld world(any_world(ranks, seed));
    for (int i = 0; i < 30; ++i) {
      const auto collective = static_cast<Collective>(chance() % static_cast<std::uint64_t>(Collective::send));
      world.everyone_calls_soon(any_request(collective, ranks, chance() % 300, chance), std::chrono::microseconds(100));
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

// The next one begins while those before it are not over, unless they are long.
TEST(Collectives, that_are_long_take_turns) {
  struct Case {
    std::size_t count;
    std::vector<int> nodes;
    std::size_t most;
  };
  for (const auto& [count, nodes, most] :
       {Case{1000, {2}, CommunicatorCore::most_active}, Case{140'000, {2}, 1},
        Case{140'000, {1, 1}, CommunicatorCore::most_active_long}, Case{40'000, {2}, CommunicatorCore::most_active}}) {
    SimWorldOptions options{.ranks = 2, .nodes = nodes, .seed = 7};
    options.segment_bytes = 16384;
    SimWorld world(options);
    for (int i = 0; i < 8; ++i) world.everyone_calls({.count = count});
    std::size_t seen = 0;
    const auto all_done = [&] {
      for (const Rank rank : {0, 1}) seen = std::max(seen, world.communicator(rank)->active.size());
      return std::ranges::all_of(world.operations(), [](const auto& operation) { return operation->done(); });
    };
    EXPECT_TRUE(world.run_until(all_done, std::chrono::seconds(100)));
    EXPECT_EQ(seen, most) << count << " elements on " << nodes.size() << " nodes";
    ASSERT_TRUE(world.run());
    world.expect_all_ok();
  }
}

TEST(Collectives, that_differ_between_ranks_are_named_on_every_rank) {
  const Request base{.count = 40, .collective = Collective::reduce_scatter};
  std::vector<std::pair<Request, Request>> pairs;
  const auto differing = [&](Request a, const std::function<void(Request&)>& change) {
    Request b = a;
    change(b);
    pairs.emplace_back(a, b);
  };
  differing(base, [](Request& b) { b.collective = Collective::alltoall; });
  differing({.count = 9, .collective = Collective::broadcast, .root = 0}, [](Request& b) { b.root = 1; });
  differing({.collective = Collective::all_gather, .counts = {5, 6, 7}}, [](Request& b) { b.counts = {5, 7, 6}; });
  differing({.collective = Collective::all_gather, .counts = {5, 5, 5}}, [](Request& b) {
    b.counts.clear();
    b.count = 5;
  });
  differing({.count = 1, .collective = Collective::barrier}, [](Request& b) { b.collective = Collective::allreduce; });
  differing({.collective = Collective::alltoall, .counts = {1, 2, 3, 4, 5, 6, 7, 8, 9}},
            [](Request& b) { b.counts = {1, 2, 3, 4, 5, 7, 7, 8, 9}; });
  differing({.collective = Collective::alltoall, .counts = {1, 2, 3000, 4, 5, 6, 7, 8, 9}},
            [](Request& b) { b.counts[2] = 2000; });
  differing({.collective = Collective::alltoall, .counts = {1, 2, 3, 4, 5, 6, 7, 8, 9}},
            [](Request& b) { b.counts[2] = 0; });
  for (const auto& [most, one] : pairs) {
    for (const std::uint64_t seed : seeds(3, 1)) {
      SimWorldOptions options = any_world(3, seed);
      options.algorithm = Algorithm::direct_one_shot;
      SimWorld world(options);
      for (Rank rank = 0; rank < 3; ++rank) world.call(rank, rank == 2 ? one : most);
      ASSERT_TRUE(world.run());
      bool all_done = true;
      std::size_t failed = 0;
      for (const auto& operation : world.operations()) {
        all_done = all_done && operation->done();
        if (operation->status().ok()) continue;
        ++failed;
        EXPECT_EQ(operation->status().code(), ErrorCode::mismatch) << operation->status().to_string();
      }
      // A rank that needs nothing of the odd one may be done before it shows; nobody may be left waiting.
      EXPECT_TRUE(all_done);
      EXPECT_GT(failed, 0u) << world.operations()[0]->execution->call().describe() << " against "
                            << world.operations()[2]->execution->call().describe();
    }
  }
}

}  // namespace
}  // namespace fabring::fixture
