// Right results over the simulated fabric: every algorithm and rank count, element counts around every edge, all types
// and operations, in place and not, with limits, nodes and weather from the seed.

#include <gtest/gtest.h>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

class AllreduceOf : public ::testing::TestWithParam<std::tuple<Algorithm, int>> {};

TEST_P(AllreduceOf, any_count_is_right_on_every_rank) {
  const auto [algorithm, ranks] = GetParam();
  const auto n = static_cast<std::size_t>(ranks);
  for (const std::uint64_t seed : seeds(1, 1)) {
    std::mt19937_64 chance(seed);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, n - 1, n, n + 1, std::size_t{97}, std::size_t{2503}}) {
      SimWorldOptions options = any_world(ranks, seed + count * 1000003);
      options.algorithm = algorithm;
      SimWorld world(options);
      world.everyone_calls_soon(any_allreduce(count, chance), std::chrono::microseconds(200));
      if (!world.run()) return;
      world.expect_all_ok();
    }
  }
}

TEST_P(AllreduceOf, every_type_and_operation_is_right_one_after_the_other) {
  const auto [algorithm, ranks] = GetParam();
  for (const std::uint64_t seed : seeds(1, 1)) {
    SimWorldOptions options = any_world(ranks, seed);
    options.algorithm = algorithm;
    SimWorld world(options);
    std::mt19937_64 chance(seed);
    for (int type = 0; type < data_type_count; ++type)
      for (int op = 0; op < reduce_op_count; ++op)
        if (supports(static_cast<DataType>(type), static_cast<ReduceOp>(op)))
          world.everyone_calls_soon({.count = chance() % 300,
                                     .type = static_cast<DataType>(type),
                                     .op = static_cast<ReduceOp>(op),
                                     .in_place = chance() % 2 == 0,
                                     .salt = chance()},
                                    std::chrono::microseconds(300));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST_P(AllreduceOf, all_ranks_have_the_same_bits_even_when_sums_round) {
  const auto [algorithm, ranks] = GetParam();
  for (const DataType type : {DataType::float64, DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      SimWorldOptions options = any_world(ranks, 5 + static_cast<std::uint64_t>(type));
      options.algorithm = algorithm;
      SimWorld world(options);
      const auto called = world.everyone_calls({.count = 777, .type = type, .op = op, .rough = true});
      if (!world.run()) return;
      world.expect_all_ok();
      for (const auto& operation : called)
        ASSERT_TRUE(std::ranges::equal(operation->out->span(), called[0]->out->span()))
            << "rank " << operation->rank << " differs from rank 0, " << name(type) << " " << name(op) << "\n"
            << world.replay();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AllreduceOf,
                         ::testing::Combine(::testing::ValuesIn(algorithms_of(Collective::allreduce)),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 16)),
                         [](const auto& of) {
                           return std::string(name(std::get<0>(of.param))) + "_on_" +
                                  std::to_string(std::get<1>(of.param)) + "_ranks";
                         });

TEST(Allreduce, of_megabytes_goes_through_the_limits_used_in_earnest) {
  SimWorldOptions options{.ranks = 4, .nodes = {2, 2}, .seed = 3};
  options.eager_bytes = eager_bytes;
  options.segment_bytes = 0;
  options.depth = 0;
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::hierarchical}) {
    options.algorithm = algorithm;
    SimWorld world(options);
    world.everyone_calls({.count = 1'000'003});
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Allreduce, over_nodes_of_unequal_size_is_cut_alike_on_all_ranks) {
  for (const std::vector<int>& nodes : {std::vector<int>{2, 3}, {1, 4}, {4, 1}, {3, 1, 2}, {1, 1, 5}}) {
    SimWorldOptions options;
    options.ranks = 0;
    for (int ranks : nodes) options.ranks += ranks;
    options.nodes = nodes;
    options.algorithm = Algorithm::hierarchical;
    SimWorld world(options);
    for (const std::size_t count : {std::size_t{5}, std::size_t{500}, std::size_t{5000}})
      world.everyone_calls({.count = count});
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Allreduce, on_one_rank_copies) {
  SimWorld world({.ranks = 1});
  for (int op = 0; op < reduce_op_count; ++op)
    if (supports(DataType::int32, static_cast<ReduceOp>(op)))
      world.call(0, {.count = 1000, .type = DataType::int32, .op = static_cast<ReduceOp>(op)});
  world.call(0, {.count = 0});
  world.call(0, {.count = 10, .in_place = true});
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
  EXPECT_EQ(world.engine(0).traffic().payload_bytes_sent, 0u);
}

TEST(Simulation, same_seed_gives_the_same_run) {
  const auto trace = [](std::uint64_t seed) {
    SimWorld world(any_world(5, seed));
    for (int i = 0; i < 10; ++i) world.everyone_calls_soon({.count = 300}, std::chrono::microseconds(100));
    world.pause_at(1, std::chrono::microseconds(50), std::chrono::milliseconds(2));
    world.kill_at(3, std::chrono::microseconds(400));
    EXPECT_TRUE(world.run());
    return world.timeline().trace();
  };
  EXPECT_EQ(trace(11), trace(11));
  EXPECT_NE(trace(11), trace(12));
}

}  // namespace
}  // namespace fabring::fixture
