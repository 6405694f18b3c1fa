// Into what calls are cut, and where the operands of a tile lie.

#include <gmock/gmock.h>

#include <memory>

#include "collectives/cost/machine.hpp"
#include "runtime/engine/execution/operands.hpp"
#include "runtime/engine/execution/tiling.hpp"
#include "tests/runtime/engine/prepared.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring {
namespace {

using fixture::prepared;

Call vector_of(std::size_t count, std::size_t element_bytes) {
  Call call;
  call.count = count;
  call.type = element_bytes == 4 ? DataType::float32 : DataType::float64;
  return call;
}

TEST(Tiling, is_the_same_on_all_ranks_whatever_their_own_plans_hold) {
  const std::vector<std::vector<int>> worlds{
      {0, 0, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 0, 0, 0, 1}, {0, 0, 0}, {0, 1, 2, 2}};
  for (const auto& node_of : worlds) {
    for (const Algorithm algorithm : all_algorithms()) {
      if (!has_algorithm(Collective::allreduce, algorithm)) continue;
      for (const std::size_t count : {1u, 63u, 1000u, 4097u, 100'000u}) {
        std::vector<std::uint32_t> tiles;
        for (Rank rank = 0; rank < static_cast<Rank>(node_of.size()); ++rank)
          tiles.push_back(
              choose_tiling(prepared(algorithm, rank, node_of), vector_of(count, 4), {4096, 1024, 3}).tiles);
        EXPECT_THAT(tiles, ::testing::Each(tiles[0])) << name(algorithm) << " " << count;
      }
    }
  }
}

TEST(Tiling, of_what_two_ranks_exchange_by_records_has_short_messages) {
  TilingRules rules;
  rules.pair_bytes = 32 << 10;
  EXPECT_EQ(choose_tiling(prepared(Algorithm::ring, 0, {0, 0}), vector_of(1 << 16, 4), rules).tiles, 4u);
  EXPECT_EQ(choose_tiling(prepared(Algorithm::recursive_doubling, 0, {0, 0}), vector_of(1 << 16, 4), rules).tiles, 8u);
  EXPECT_EQ(choose_tiling(prepared(Algorithm::ring, 0, {0, 0}), vector_of(1 << 20, 4), rules).tiles, 32u)
      << "longer vectors go by messages of 64 KiB";
  const PreparedPlan four = prepared(Algorithm::ring, 0, {0, 0, 0, 0});
  EXPECT_EQ(choose_tiling(four, vector_of(1 << 20, 4), rules).tiles,
            choose_tiling(four, vector_of(1 << 20, 4), {}).tiles);
  Call broadcast = vector_of(1 << 20, 4);
  broadcast.collective = Collective::broadcast;
  const PreparedPlan one_way = prepared(Algorithm::ring, 0, {0, 0});
  EXPECT_EQ(choose_tiling(one_way, broadcast, rules).tiles, choose_tiling(one_way, broadcast, {}).tiles);
}

// What two ranks of one host move goes unasked, in messages as long as a record may be, or shorter where it goes one
// way.
TEST(Tiling, of_what_two_ranks_of_a_host_move_is_by_long_records) {
  TilingRules rules;
  rules.eager_bytes = 64 << 10;
  rules.pair_bytes = 32 << 10;
  rules.pair_moved_bytes = 256 << 10;
  const auto expect_messages = [&](Collective collective, std::size_t bytes, int ranks = 2,
                                   std::uint64_t vector = 1 << 20) {
    const TilingRules own = rules_for(rules, collective, "direct_one_shot", ranks, vector);
    EXPECT_EQ(own.segment_bytes, bytes) << name(collective) << " of " << ranks << " ranks, " << vector;
    EXPECT_EQ(own.smallest_bytes, bytes) << name(collective);
    EXPECT_GE(longest_eager(own, 8), bytes) << name(collective);
  };
  for (const Collective whole : {Collective::all_gather, Collective::scatter}) expect_messages(whole, 256 << 10);
  for (const Collective cut : {Collective::broadcast, Collective::gather, Collective::alltoall})
    expect_messages(cut, 128 << 10);
  expect_messages(Collective::reduce, 64 << 10);
  expect_messages(Collective::all_gather, 256 << 10, 2, std::uint64_t{64} << 20);
  const auto eager = [&](Collective collective, int ranks, std::uint64_t vector) {
    return longest_eager(rules_for(rules, collective, "direct_one_shot", ranks, vector), 8);
  };
  EXPECT_EQ(eager(Collective::alltoall, 2, std::uint64_t{16} << 20), 64u << 10) << "tiles side by side are quicker";
  EXPECT_EQ(eager(Collective::alltoall, 2, 0), 64u << 10) << "nor where nobody knows how much it is";
  EXPECT_EQ(eager(Collective::allreduce, 2, 1 << 20), 64u << 10) << "what is reduced for both is answered in its place";
  EXPECT_EQ(eager(Collective::all_gather, 3, 1 << 20), 64u << 10);
}

// More ranks send each other a message unasked if it is the only one, and all together are not too much.
TEST(Tiling, of_what_ranks_of_a_host_send_each_other_at_once_asks_for_nothing_if_it_is_one_tile) {
  TilingRules rules;
  rules.eager_bytes = 64 << 10;
  rules.eager_in_tiles_bytes = 32 << 10;
  rules.pair_bytes = 16 << 10;
  rules.readable_bytes = 256 << 10;
  const auto eager = [&](int ranks, std::size_t tiles, Collective collective = Collective::alltoall) {
    return longest_eager(rules_for(rules, collective, "pairwise", ranks, 1 << 20), tiles);
  };
  EXPECT_EQ(eager(4, 1), 256u << 10);
  EXPECT_EQ(eager(8, 1), 128u << 10);
  EXPECT_EQ(eager(9, 1), 64u << 10);
  EXPECT_EQ(eager(4, 2), 32u << 10);
  EXPECT_EQ(eager(4, 1, Collective::gather), 64u << 10);
}

// If one rank cut the vector otherwise than another, sums would be wrong.
TEST(Tiling, by_parts_is_the_same_on_all_ranks) {
  TilingRules rules{4096, 1024, 3};
  rules.by_parts = true;
  for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33}) {
    const std::vector<int> node_of(static_cast<std::size_t>(ranks), 0);
    for (const Algorithm algorithm : all_algorithms()) {
      if (!has_algorithm(Collective::allreduce, algorithm)) continue;
      const bool by_parts = algorithm == Algorithm::direct_two_shot ||
                            (ranks == 2 && (algorithm == Algorithm::ring || algorithm == Algorithm::halving_doubling));
      for (Rank rank = 0; rank < ranks; ++rank) {
        const Tiling tiling = choose_tiling(prepared(algorithm, rank, node_of), vector_of(100'003, 4), rules);
        EXPECT_GT(tiling.tiles, 1u);
        EXPECT_EQ(tiling.parts, by_parts ? static_cast<std::uint32_t>(ranks) : 0u)
            << name(algorithm) << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(Tiling, is_not_by_parts_where_a_tile_has_to_lie_in_one_piece) {
  TilingRules rules{4096, 1024, 3};
  rules.by_parts = true;
  const PreparedPlan two_shot = prepared(Algorithm::direct_two_shot, 0, {0, 0, 0});
  Call call = vector_of(100'003, 4);
  call.op = ReduceOp::premul_sum;  // the scaled input is made in scratch
  EXPECT_EQ(choose_tiling(two_shot, call, rules).parts, 0u);
  call.op = ReduceOp::sum;
  call.wire_type = DataType::bfloat16;  // packed
  EXPECT_EQ(choose_tiling(two_shot, call, rules).parts, 0u);
}

TEST(Operands, of_tiles_by_parts_are_each_element_once_and_in_the_order_of_their_part) {
  TilingRules rules{4096, 1024, 3};
  rules.by_parts = true;
  for (const int ranks : {2, 3, 4, 7})
    for (const std::size_t count : {9'000u, 10'007u, 50'001u}) {
      const PreparedPlan plan =
          prepared(Algorithm::direct_two_shot, 0, std::vector<int>(static_cast<std::size_t>(ranks), 0));
      std::vector<float> values(count);
      Call call = vector_of(count, 4);
      call.in = call.out = reinterpret_cast<std::byte*>(values.data());
      const Tiling tiling = choose_tiling(plan, call, rules);
      ASSERT_GT(tiling.tiles, 1u);
      Operands operands(plan, call);
      std::vector<std::size_t> next(static_cast<std::size_t>(ranks));  // of each part, the element that comes next
      for (std::uint32_t i = 0; i < tiling.parts; ++i) next[i] = part({0, count}, i, i + 1, tiling.parts).offset;
      Placement placement;
      for (std::uint32_t tile = 0; tile < tiling.tiles; ++tile) {
        operands.bind(placement, tiling, tile);
        for (RangeId range = 1; range < plan.plan.ranges.size(); ++range) {
          const auto bytes = operands.at(placement, {Space::output, 0, range});
          const auto first = static_cast<std::size_t>(reinterpret_cast<float*>(bytes.data()) - values.data());
          std::size_t& due = next[plan.part_of[range]];
          ASSERT_EQ(first, due) << "tile " << tile << ", part " << plan.part_of[range];
          due += bytes.size() / sizeof(float);
        }
      }
      for (std::uint32_t i = 0; i < tiling.parts; ++i)
        EXPECT_EQ(next[i], part({0, count}, i, i + 1, tiling.parts).end()) << "part " << i << " of " << ranks;
    }
}

TEST(Tiling, keeps_messages_below_a_segment_and_cuts_no_finer_than_needed) {
  const PreparedPlan ring = prepared(Algorithm::ring, 0, {0, 0, 0, 0});
  const TilingRules rules{1 << 16, 1 << 14, 3};
  EXPECT_EQ(choose_tiling(ring, vector_of(0, 4), rules).tiles, 1u);
  EXPECT_EQ(choose_tiling(ring, vector_of(1, 4), rules).tiles, 1u);
  EXPECT_EQ(choose_tiling(ring, vector_of(16 << 10, 4), rules).tiles, 1u);          // messages of 16 KiB
  EXPECT_EQ(choose_tiling(ring, vector_of(64 << 10, 4), rules).tiles, 3u);          // of 64 KiB: cut for overlap
  EXPECT_EQ(choose_tiling(ring, vector_of(640 << 10, 4), rules).tiles, 10u);        // of 640 KiB: by segments
  EXPECT_EQ(choose_tiling(ring, vector_of((640 << 10) + 4, 4), rules).tiles, 11u);  // none is a bit longer than that
  EXPECT_EQ(choose_tiling(ring, vector_of(640 << 10, 4), rules).depth, 3u);
  EXPECT_EQ(choose_tiling(ring, vector_of(5, 4), {1, 1, 3}).tiles, 5u);  // never more than elements
  EXPECT_GT(choose_tiling(ring, vector_of(std::size_t{1} << 33, 8), rules).tiles, 200'000u);
  EXPECT_EQ(ring.plan.collective, Collective::allreduce);
  TilingRules longer = rules;
  longer.moved_segment_bytes = 1 << 18;
  EXPECT_EQ(choose_tiling(ring, vector_of(640 << 10, 4), longer).tiles, 10u);  // what is reduced is cut as before
}

TEST(Tiling, packs_only_tensors_whose_messages_would_be_short) {
  const PreparedPlan plan = prepared(Algorithm::direct_two_shot, 0, {0, 0, 0, 0});  // a message is a quarter
  Call call = vector_of(0, 4);
  std::vector<Tensor> list;
  for (const std::size_t count : {100u, 16384u, 16000u, 65536u, 7u}) list.push_back({nullptr, nullptr, count});
  for (const Tensor& tensor : list) call.count += tensor.count;
  call.tensors = std::make_shared<const std::vector<Tensor>>(list);
  TilingRules rules;
  const auto packed = [&] { return choose_tiling(plan, call, rules).cuts->short_ones; };
  EXPECT_EQ(packed(), (std::vector<std::uint32_t>{0, 1, 2, 4})) << "a segment and more lies where it is";
  rules.apart_bytes = 16 << 10;
  EXPECT_EQ(packed(), (std::vector<std::uint32_t>{0, 2, 4}));
}

TEST(Tiling, of_several_tiles_sends_less_unasked) {
  const PreparedPlan ring = prepared(Algorithm::ring, 0, {0, 0, 0, 0});
  TilingRules rules{1 << 16, 1 << 14, 3, 1 << 16};
  EXPECT_EQ(choose_tiling(ring, vector_of(64 << 10, 4), rules).eager_bytes, 1u << 16) << "where nothing is said of it";
  rules.eager_in_tiles_bytes = 1 << 13;
  EXPECT_EQ(choose_tiling(ring, vector_of(16 << 10, 4), rules).eager_bytes, 1u << 16);
  const Tiling cut = choose_tiling(ring, vector_of(64 << 10, 4), rules);
  EXPECT_EQ(cut.tiles, 3u);
  EXPECT_EQ(cut.eager_bytes, 1u << 13);
  rules.eager_bytes = 1 << 10;
  EXPECT_EQ(choose_tiling(ring, vector_of(64 << 10, 4), rules).eager_bytes, 1u << 10) << "never more than at once";
}

// A rank knows only what it sends and receives itself, so that its peer may have more tiles.
TEST(Tiling, where_only_pairs_know_lengths_sends_the_same_unasked_whatever_a_rank_has) {
  const PreparedPlan plan = prepared(Algorithm::ring, 0, {0, 0, 0, 0});
  TilingRules rules{1 << 16, 1 << 14, 3, 1 << 16};
  rules.eager_in_tiles_bytes = 1 << 13;
  Call little = vector_of(0, 4), much = little;
  little.collective = much.collective = Collective::alltoall;
  little.counts.assign(8, 16);
  much.counts.assign(8, 1 << 20);
  EXPECT_EQ(choose_tiling(plan, little, rules).tiles, 1u);
  EXPECT_GT(choose_tiling(plan, much, rules).tiles, 1u);
  EXPECT_EQ(choose_tiling(plan, little, rules).eager_bytes, 1u << 13);
  EXPECT_EQ(choose_tiling(plan, much, rules).eager_bytes, 1u << 13);
}

TEST(Tiling, where_only_pairs_know_lengths_cuts_them_alike_whatever_a_rank_has) {
  const PreparedPlan plan = prepared(Algorithm::ring, 0, {0, 0});
  TilingRules rules;
  rules.pair_bytes = 32 << 10;
  Call little = vector_of(0, 4), much = little;
  little.collective = much.collective = Collective::alltoall;
  little.counts.assign(4, 40'000);
  much.counts.assign(4, 100'000);
  EXPECT_EQ(choose_tiling(plan, little, rules).slice, choose_tiling(plan, much, rules).slice);
}

TEST(Tiling, has_more_under_way_of_what_is_reduced_where_that_is_said) {
  TilingRules rules{1 << 16, 1 << 14, 3};
  const auto depth = [&](Collective collective) {
    return rules_for(rules, collective, name(Algorithm::ring), 4, 1 << 24).depth;
  };
  EXPECT_EQ(depth(Collective::allreduce), 3u);
  rules.reducing_depth = 6;
  EXPECT_EQ(depth(Collective::allreduce), 6u);
  EXPECT_EQ(depth(Collective::reduce_scatter), 6u);
  EXPECT_EQ(depth(Collective::all_gather), 3u);
  EXPECT_EQ(depth(Collective::broadcast), 3u);

  Call several = vector_of(1 << 20, 4);
  several.tensors = std::make_shared<const std::vector<Tensor>>(std::vector<Tensor>{{nullptr, nullptr, 1 << 20}});
  const auto ring = prepared(Algorithm::ring, 0, {0, 0, 0, 0});
  EXPECT_EQ(choose_tiling(ring, several, rules).depth, 6u);
  rules.reducing_depth = 0;
  EXPECT_EQ(choose_tiling(ring, several, rules).depth, 3u);
}

// The machine is the same on all ranks, so what follows from it is, too.
TEST(Tiling, has_more_under_way_between_hosts_that_are_slow_to_answer) {
  const auto depth = [](std::vector<int> nodes, std::int64_t latency_ns, int asked = 0) {
    fixture::SimWorldOptions options{.ranks = 2, .seed = 1};
    options.nodes = std::move(nodes);
    options.depth = asked;
    fixture::SimWorld world(options);
    Machine machine = *find_machine("10g");
    machine.between.latency_ns = latency_ns;
    world.engine(0).take_machine(machine);
    return world.engine(0).pricing_machine().tiling.reducing_depth;
  };
  EXPECT_EQ(depth({1, 1}, slow_answer_ns), depth_over_slow_answers);
  EXPECT_EQ(depth({1, 1}, slow_answer_ns - 1), 0u);
  EXPECT_EQ(depth({2}, slow_answer_ns), 0u) << "one host";
  EXPECT_EQ(depth({1, 1}, slow_answer_ns, 4), 0u) << "the user's depth counts";
}

TEST(Tiling, of_what_two_ranks_swap_has_short_messages_up_to_a_length) {
  TilingRules rules;
  rules.pair_bytes = 32 << 10;
  const auto segment = [&](int ranks, std::uint64_t bytes) {
    return rules_for(rules, Collective::alltoall, "direct_one_shot", ranks, bytes).segment_bytes;
  };
  EXPECT_EQ(segment(2, 256 << 10), rules.segment_bytes);
  EXPECT_EQ(segment(2, 512 << 10), 64u << 10);
  EXPECT_EQ(segment(2, 2 << 20), 64u << 10);
  EXPECT_EQ(segment(2, 4 << 20), rules.segment_bytes);
  EXPECT_EQ(segment(3, 512 << 10), rules.segment_bytes);
}

TEST(Tiling, of_what_two_ranks_gather_has_long_messages_from_one_length_to_another) {
  TilingRules rules;
  rules.pair_bytes = 32 << 10;
  const auto segment = [&](Collective collective, std::uint64_t bytes) {
    return rules_for(rules, collective, "direct_one_shot", 2, bytes).segment_bytes;
  };
  EXPECT_EQ(segment(Collective::all_gather, (4 << 20) - 1), 64u << 10);
  EXPECT_EQ(segment(Collective::all_gather, 4 << 20), rules.segment_bytes);
  EXPECT_EQ(segment(Collective::all_gather, 32 << 20), rules.segment_bytes);
  EXPECT_EQ(segment(Collective::all_gather, (32 << 20) + 1), 64u << 10);
  EXPECT_EQ(segment(Collective::reduce_scatter, 4 << 20), 64u << 10);
}

TEST(Tiling, of_what_two_ranks_gather_by_records_has_no_shorter_ones_to_gain_overlap) {
  TilingRules rules;
  rules.pair_bytes = 32 << 10;
  const auto smallest = [&](Collective collective) {
    return rules_for(rules, collective, "ring", 2, 64 << 10).smallest_bytes;
  };
  EXPECT_EQ(smallest(Collective::all_gather), rules.pair_bytes);
  EXPECT_EQ(smallest(Collective::allreduce), 16u << 10);
}

TEST(Tiling, does_not_cut_what_several_ranks_may_read_to_gain_overlap) {
  TilingRules rules;
  const auto smallest = [&](Collective collective, Algorithm algorithm, int ranks) {
    return rules_for(rules, collective, name(algorithm), ranks, 1 << 20).smallest_bytes;
  };
  rules.pair_bytes = 32 << 10;
  for (const Collective moved : {Collective::all_gather, Collective::alltoall, Collective::scatter})
    EXPECT_EQ(smallest(moved, Algorithm::direct_one_shot, 4), rules.segment_bytes) << name(moved);
  EXPECT_EQ(smallest(Collective::all_gather, Algorithm::ring, 4), rules.smallest_bytes) << "it is passed on";
  EXPECT_EQ(smallest(Collective::scatter, Algorithm::direct_one_shot, 2), rules.smallest_bytes);
  rules.pair_bytes = 0;
  EXPECT_EQ(smallest(Collective::alltoall, Algorithm::direct_one_shot, 4), rules.smallest_bytes)
      << "memory is not shared";
}

// What a root has of all others it would read alone, and a broadcast goes one way.
TEST(Tiling, lets_read_where_the_sender_is_as_busy_as_the_receiver) {
  EXPECT_TRUE(is_readable(Collective::all_gather, "ring", 2));
  EXPECT_TRUE(is_readable(Collective::all_gather, "direct_one_shot", 4));
  EXPECT_FALSE(is_readable(Collective::all_gather, "ring", 4)) << "it is passed on";
  EXPECT_TRUE(is_readable(Collective::alltoall, "pairwise", 8));
  EXPECT_TRUE(is_readable(Collective::scatter, "direct_one_shot", 4));
  EXPECT_TRUE(is_readable(Collective::broadcast, "direct_one_shot", 2));
  for (const Collective other : {Collective::broadcast, Collective::gather, Collective::allreduce, Collective::send})
    EXPECT_FALSE(is_readable(other, "direct_one_shot", 4));
}

TEST(Tiling, is_coarser_for_what_only_moves) {
  TilingRules rules{1 << 16, 1 << 14, 3};
  const auto segment = [&](Collective collective, Algorithm algorithm, int ranks) {
    return rules_for(rules, collective, name(algorithm), ranks, 1 << 24).segment_bytes;
  };
  EXPECT_EQ(segment(Collective::broadcast, Algorithm::chain, 2), 1u << 16) << "not where nothing is said of it";
  rules.moved_segment_bytes = 1 << 20;
  EXPECT_EQ(segment(Collective::all_gather, Algorithm::direct_one_shot, 2), 1u << 20);
  EXPECT_EQ(segment(Collective::broadcast, Algorithm::chain, 2), 1u << 22) << "it goes one way only";
  EXPECT_EQ(segment(Collective::broadcast, Algorithm::chain, 3), 1u << 16) << "it is passed on";
  EXPECT_EQ(segment(Collective::alltoall, Algorithm::direct_one_shot, 3), 1u << 19);
  EXPECT_EQ(segment(Collective::all_gather, Algorithm::ring, 4), 1u << 16);
  EXPECT_EQ(segment(Collective::reduce_scatter, Algorithm::direct_one_shot, 2), 1u << 16) << "it is reduced";
}

TEST(Tiling, is_coarser_through_the_loopback_as_far_as_scratch_memory_reaches) {
  const TilingRules few = rules_through_loopback({}, 2);
  EXPECT_EQ(few.segment_bytes, 512u << 10);
  EXPECT_EQ(few.depth, 2u);
  EXPECT_EQ(few.moved_segment_bytes, 0u) << "or FABRING_SEGMENT_BYTES would not hold for what only moves";
  const PreparedPlan exchange = prepared(Algorithm::recursive_doubling, 0, {0, 0});
  EXPECT_EQ(choose_tiling(exchange, vector_of(128 << 10, 4), few).tiles, 1u) << "two that send each other";
  EXPECT_EQ(choose_tiling(exchange, vector_of(256 << 10, 4), few).tiles, 2u);
  const PreparedPlan four = prepared(Algorithm::recursive_doubling, 0, {0, 0, 0, 0});
  EXPECT_EQ(choose_tiling(four, vector_of(128 << 10, 4), few).tiles, 2u) << "more ranks overlap";
  const TilingRules many = rules_through_loopback({}, 17);
  EXPECT_EQ(many.segment_bytes, TilingRules().segment_bytes);
  EXPECT_EQ(many.depth, TilingRules().depth);
}

// Where the messages of all ranks are kept until they are reduced together, so many of the usual length do not fit.
TEST(Tiling, of_many_ranks_needs_no_more_scratch_memory_than_there_is) {
  const auto on_nodes = [](int ranks, int nodes) {
    std::vector<int> node_of(static_cast<std::size_t>(ranks));
    for (std::size_t rank = 0; rank < node_of.size(); ++rank) node_of[rank] = static_cast<int>(rank) * nodes / ranks;
    return node_of;
  };
  std::vector<int> unequal = on_nodes(130, 1);
  std::fill(unequal.begin() + 100, unequal.end(), 1);
  std::vector<int> one_large(24, 16);  // behind 16 nodes of one rank
  for (int node = 0; node < 16; ++node) one_large[static_cast<std::size_t>(node)] = node;
  std::vector<int> dealt;  // to nodes of 16 and of 8 ranks, in turn until one is full
  for (int rank = 0; rank < 24; ++rank) dealt.push_back(rank < 16 ? rank % 2 : 0);
  struct Nodes {
    std::vector<int> of;
    std::vector<Rank> ranks = {0};  // whose plans are tried
  };
  std::vector<Nodes> worlds{{on_nodes(130, 1)}, {on_nodes(130, 65)}, {on_nodes(600, 75)}, {on_nodes(1024, 1)}};
  worlds.push_back({unequal, {0, 100}});
  worlds.push_back({one_large, {0, 16, 17, 23}});
  worlds.push_back({dealt, {0, 15, 16, 23}});
  const TilingRules rules;
  int tried = 0;
  for (const auto& [node_of, ranks] : worlds) {
    for (const Rank rank : ranks) {
      for (int collective = 0; collective < collective_count; ++collective) {
        for (const Algorithm algorithm : all_algorithms()) {
          PlanRequest request{algorithm, rank, node_of, ReduceOp::sum, static_cast<Collective>(collective)};
          auto plan = make_plan(request);
          if (!plan) continue;
          const PreparedPlan made(std::move(*plan));
          Call call = vector_of((std::size_t{1} << 30) / (made.plan.blocks == 0 ? 1 : made.plan.blocks), 4);
          call.collective = request.collective;
          call.data_blocks = std::max<std::size_t>(made.plan.blocks, 1);
          const Tiling tiling = choose_tiling(made, call, rules);
          Operands operands(made, call);
          Placement largest;
          operands.bind(largest, tiling, 0);
          EXPECT_LE(operands.lay_out_scratch(largest), rules.scratch_bytes)
              << name(request.collective) << " by " << name(algorithm) << " over " << node_of.size() << " ranks, on "
              << rank;
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 100);

  Call tensors = vector_of(std::size_t{1} << 28, 4);
  tensors.tensors =
      std::make_shared<const std::vector<Tensor>>(std::vector<Tensor>{{nullptr, nullptr, std::size_t{1} << 28}});
  const PreparedPlan direct = prepared(Algorithm::direct_two_shot, 0, on_nodes(1024, 1));
  const Tiling tiling = choose_tiling(direct, tensors, rules);
  Operands operands(direct, tensors);
  Placement largest;
  operands.bind(largest, tiling, tiling.cuts->largest);
  EXPECT_LE(operands.lay_out_scratch(largest), rules.scratch_bytes);
}

// A rank's whole tile is multiplied into scratch, which of a ring is all ranks' messages.
TEST(Tiling, of_what_is_scaled_needs_little_scratch_memory_however_many_ranks_there_are) {
  const TilingRules rules;
  const auto expect_little = [&](Collective collective, Algorithm algorithm, const std::vector<int>& node_of) {
    auto plan = make_plan({algorithm, 0, node_of, ReduceOp::sum, collective});
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    const PreparedPlan made(std::move(*plan));
    const auto blocks = std::max<std::size_t>(made.plan.blocks, 1);
    Call call = vector_of((std::size_t{4} << 20) * node_of.size() / blocks / 4, 4);  // 4 MiB a rank
    call.collective = collective;
    call.op = ReduceOp::premul_sum;
    call.data_blocks = blocks;
    const Tiling tiling = choose_tiling(made, call, rules);
    Operands operands(made, call);
    Placement largest;
    operands.bind(largest, tiling, 0);
    const std::size_t areas = [&] {
      Call sum = call;
      sum.op = ReduceOp::sum;
      return Operands(made, sum).lay_out_scratch(largest);
    }();
    EXPECT_LE(operands.lay_out_scratch(largest) - areas, 17 * rules.segment_bytes)  // slices are rounded up
        << name(collective) << " by " << name(algorithm) << " over " << node_of.size() << " ranks";
    EXPECT_LE(operands.lay_out_scratch(largest), rules.scratch_bytes / 2);
  };
  for (const int ranks : {160, 512}) {
    std::vector<int> alone(static_cast<std::size_t>(ranks)), by_eight(alone);
    for (int rank = 0; rank < ranks; ++rank) {
      alone[static_cast<std::size_t>(rank)] = rank;
      by_eight[static_cast<std::size_t>(rank)] = rank / 8;
    }
    expect_little(Collective::reduce_scatter, Algorithm::ring, alone);
    expect_little(Collective::reduce_scatter, Algorithm::hierarchical, by_eight);
    expect_little(Collective::allreduce, Algorithm::ring, alone);
  }
}

// What two ranks reduce as it comes goes unasked, one long message after the other; what only moves if it is short
// enough to be copied once more, and is not cut.
TEST(Tiling, between_two_ranks_that_keep_landings_goes_unasked) {
  TilingRules rules = rules_through_loopback({}, 2);
  rules.eager_bytes = 32 << 10;
  rules.moved_segment_bytes = 1 << 20;
  rules.landing_bytes = 1 << 20;
  const auto ruled = [&](Collective collective, Algorithm algorithm, int ranks = 2) {
    return rules_for(rules, collective, name(algorithm), ranks, 1 << 24);
  };
  for (const TilingRules& reduced : {ruled(Collective::allreduce, Algorithm::recursive_doubling),
                                     ruled(Collective::allreduce, Algorithm::direct_one_shot),
                                     ruled(Collective::reduce_scatter, Algorithm::direct_one_shot)}) {
    EXPECT_EQ(longest_eager(reduced, 1), 1u << 20);
    EXPECT_EQ(longest_eager(reduced, 16), 1u << 20);
    EXPECT_EQ(reduced.segment_bytes, 1u << 20);
    EXPECT_EQ(reduced.depth, 1u);
  }
  const TilingRules gathered = ruled(Collective::all_gather, Algorithm::direct_one_shot);
  EXPECT_EQ(longest_eager(gathered, 1), 512u << 10);
  EXPECT_EQ(longest_eager(gathered, 2), 32u << 10);
  EXPECT_EQ(gathered.depth, 2u);
  EXPECT_EQ(longest_eager(ruled(Collective::alltoall, Algorithm::pairwise), 1), 256u << 10);
  for (const TilingRules& granted :
       {ruled(Collective::allreduce, Algorithm::halving_doubling), ruled(Collective::broadcast, Algorithm::binomial),
        ruled(Collective::reduce_scatter, Algorithm::direct_one_shot, 3)}) {
    EXPECT_EQ(longest_eager(granted, 1), 32u << 10);
    EXPECT_EQ(granted.landing_bytes, 0u);
  }
}

// Between hosts several such messages are under way at once, and a vector of more of them waits for grants.
TEST(Tiling, of_landings_between_hosts_is_by_several_messages_of_a_vector_that_is_not_too_long) {
  const LandingRules landings = landings_over_network(2, false, 32 << 20);
  TilingRules rules;
  rules.landing_bytes = landings.bytes;
  rules.landing_depth = landings.depth();
  rules.landing_vector_bytes = landings.longest_vector;
  const PreparedPlan plan = prepared(Algorithm::recursive_doubling, 0, {0, 0});
  const auto tiling = [&](std::size_t bytes) { return choose_tiling(plan, vector_of(bytes / 4, 4), rules); };
  EXPECT_EQ(tiling(512 << 10).tiles, 1u);
  EXPECT_EQ(tiling(1 << 20).tiles, 2u);
  EXPECT_EQ(tiling(1 << 20).depth, 2u);
  EXPECT_EQ(tiling(1 << 20).eager_bytes, 512u << 10);
  EXPECT_EQ(tiling((1 << 20) + 4).eager_bytes, rules.eager_bytes);
  EXPECT_EQ(tiling(2 << 20).tiles, 8u);
  EXPECT_EQ(landings_over_network(3, false, 32 << 20).count, 0u) << "of more ranks";
}

}  // namespace
}  // namespace fabring
