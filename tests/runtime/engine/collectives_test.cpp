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

struct Unlike {
  std::string name;
  Request most, one;                    // what one rank calls instead
  std::optional<std::size_t> odd = {};  // which; none: any
};

std::vector<Unlike> unlike_calls() {
  std::vector<Unlike> all;
  const auto unlike = [&](std::string name, const Request& most, const std::function<void(Request&)>& change) {
    all.push_back({std::move(name), most, most, {}});
    change(all.back().one);
  };
  const auto lengths = [](std::vector<std::size_t> counts) { return [counts](Request& one) { one.counts = counts; }; };
  unlike("another_collective", {.count = 40, .collective = Collective::reduce_scatter},
         [](Request& one) { one.collective = Collective::alltoall; });
  unlike("no_barrier", {.count = 1, .collective = Collective::barrier},
         [](Request& one) { one.collective = Collective::allreduce; });
  unlike("another_root", {.count = 9, .collective = Collective::broadcast}, [](Request& one) { one.root = 1; });
  for (const Collective collective :
       {Collective::all_gather, Collective::reduce_scatter, Collective::gather, Collective::scatter}) {
    const std::string of = std::string(name(collective)) + "_v_";
    for (const std::size_t times : {1, 300}) {
      const Request three{.collective = collective, .counts = {5 * times, 6 * times, 7 * times}};
      const std::string size = times == 1 ? "" : "_of_long_blocks";
      unlike(of + "swapped_behind" + size, three, lengths({5 * times, 7 * times, 6 * times}));
      unlike(of + "swapped_before" + size, three, lengths({6 * times, 5 * times, 7 * times}));
      unlike(of + "turned" + size, three, lengths({7 * times, 5 * times, 6 * times}));
      unlike(of + "empty" + size, three, lengths({5 * times, 0, 7 * times}));
      unlike(of + "nothing" + size, three, lengths({0, 0, 0}));
    }
    unlike(of + "without_lengths", {.collective = collective, .counts = {5, 5, 5}}, [](Request& one) {
      one.counts.clear();
      one.count = 5;
    });
  }
  // Lengths between two of the others a rank does not give.
  const Request nine{.collective = Collective::alltoall, .counts = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  unlike("alltoall_v_longer", nine, [](Request& one) { one.counts[5] = 7; });
  unlike("alltoall_v_empty", nine, [](Request& one) { one.counts[2] = 0; });
  unlike("alltoall_v_shorter", {.collective = Collective::alltoall, .counts = {1, 2, 3000, 4, 5, 6, 7, 8, 9}},
         [](Request& one) { one.counts[2] = 2000; });
  for (Unlike& each : all)
    if (each.most.collective == Collective::alltoall) each.odd = 2;
  return all;
}

class CollectivesUnlike : public ::testing::TestWithParam<Unlike> {};

// Whether a rank had to wait for the odd one or was done before, in the world or in a group of some of its ranks.
TEST_P(CollectivesUnlike, are_known_to_every_rank) {
  for (const std::uint64_t seed : seeds(12, 2)) {
    std::mt19937_64 chance(seed);
    const bool in_group = chance() % 2 == 0;
    SimWorldOptions options = any_world(in_group ? 5 : 3, seed);
    options.algorithm = chance() % 2 == 0 ? std::optional(Algorithm::direct_one_shot) : std::nullopt;
    SimWorld world(options);
    const std::vector<Rank> members = in_group ? std::vector<Rank>{3, 0, 4} : std::vector<Rank>{0, 1, 2};
    const int group = in_group ? world.group(members) : 0;
    const std::size_t any = chance() % members.size(), odd = GetParam().odd.value_or(any);
    for (std::size_t i = 0; i < members.size(); ++i)
      world.call(members[i], i == odd ? GetParam().one : GetParam().most, group);
    const auto known_to_all = [&] {
      return std::ranges::all_of(members, [&](Rank rank) {
        return Communicator(world.communicator(rank, group)).health().code() == ErrorCode::mismatch;
      });
    };
    ASSERT_TRUE(world.run_until(known_to_all, std::chrono::seconds(5))) << "odd: member " << odd << "\n"
                                                                        << world.replay();
    if (!world.run(std::chrono::seconds(3))) return;
    for (const auto& operation : world.operations()) {
      if (operation->status().ok()) continue;  // it needed nothing of the odd one
      EXPECT_EQ(operation->status().code(), ErrorCode::mismatch) << operation->status().to_string() << world.replay();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(As, CollectivesUnlike, ::testing::ValuesIn(unlike_calls()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace fabring::fixture
