// The formulas of docs/algorithms.md, held against the plans.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "collectives/check.hpp"
#include "collectives/cost/phases.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

constexpr std::size_t element_bytes = 4;

std::uint64_t total(const std::vector<std::uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::size_t sends_of(const Plan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                                [](const Step& step) { return step.kind == StepKind::send; }));
}

/// Elements of scratch for `count` elements.
std::size_t scratch_of(const Plan& plan, std::size_t count) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, count, extents);
  std::vector<std::size_t> areas(plan.scratch.size());
  scratch_lengths(plan, extents, areas);
  return std::accumulate(areas.begin(), areas.end(), std::size_t{0});
}

CheckReport report_of(const std::vector<Plan>& plans, std::size_t count) {
  const auto report = check_plans(plans, count, ReduceOp::sum);
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report.value_or(CheckReport{});
}

TEST(Cost, RingSendsTwiceNMinusOneNthsInAsManyRoundsToOneNeighbour) {
  for (int n = 2; n <= 24; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const std::size_t count = 10 * ranks;
    const auto plans = test::plans_of(Algorithm::ring, test::flat(n));
    for (const Plan& plan : plans) {
      const auto bytes = bytes_sent_to(plan, count, element_bytes);
      EXPECT_EQ(total(bytes), 2 * (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(bytes[static_cast<std::size_t>((plan.rank + 1) % n)], total(bytes));
      EXPECT_EQ(sends_of(plan), 2 * (ranks - 1));
      EXPECT_TRUE(plan.scratch.empty());
    }
    EXPECT_EQ(report_of(plans, count).critical_path, 2 * (ranks - 1));
  }
}

TEST(Cost, RingChunksOfUnevenCountsStillSumToTheFormula) {
  const auto plans = test::plans_of(Algorithm::ring, test::flat(7));
  std::uint64_t all = 0;
  for (const Plan& plan : plans) all += total(bytes_sent_to(plan, 100, element_bytes));
  EXPECT_EQ(all, 2u * 6 * 100 * element_bytes);
}

TEST(Cost, RecursiveDoublingSendsTheWholeInLogarithmicRounds) {
  for (int n = 2; n <= 24; ++n) {
    const auto m = std::bit_floor(static_cast<unsigned>(n));
    const auto rounds = static_cast<std::size_t>(std::countr_zero(m)) + (m == static_cast<unsigned>(n) ? 0 : 2);
    const auto plans = test::plans_of(Algorithm::recursive_doubling, test::flat(n));
    EXPECT_EQ(report_of(plans, 10).critical_path, rounds) << n;
    for (const Plan& plan : plans) {
      EXPECT_LE(total(bytes_sent_to(plan, 10, element_bytes)), rounds * 10 * element_bytes);
      EXPECT_LE(scratch_of(plan, 10), 20u);
    }
    if (m == static_cast<unsigned>(n)) {
      EXPECT_EQ(total(bytes_sent_to(plans[0], 10, element_bytes)), rounds * 10 * element_bytes);
    }
  }
}

TEST(Cost, DirectOneShotSendsTheWholeToEverybodyInOneRound) {
  for (int n = 2; n <= 12; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(n));
    EXPECT_EQ(report_of(plans, 10).critical_path, 1u);
    for (const Plan& plan : plans) {
      EXPECT_EQ(total(bytes_sent_to(plan, 10, element_bytes)), (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(scratch_of(plan, 10), (ranks - 1) * 10);
    }
  }
}

TEST(Cost, DirectTwoShotSendsAsManyBytesAsRingInTwoRounds) {
  for (int n = 2; n <= 12; ++n) {
    const auto ranks = static_cast<std::size_t>(n);
    const auto plans = test::plans_of(Algorithm::direct_two_shot, test::flat(n));
    EXPECT_EQ(report_of(plans, 10 * ranks).critical_path, 2u);
    for (const Plan& plan : plans) {
      EXPECT_EQ(total(bytes_sent_to(plan, 10 * ranks, element_bytes)), 2 * (ranks - 1) * 10 * element_bytes);
      EXPECT_EQ(scratch_of(plan, 10 * ranks), (ranks - 1) * 10);
      EXPECT_EQ(sends_of(plan), 2 * (ranks - 1));
    }
  }
}

TEST(Cost, EverybodyStartsAtAnotherPeer) {
  const auto plans = test::plans_of(Algorithm::direct_one_shot, test::flat(6));
  for (const Plan& plan : plans) EXPECT_EQ(plan.steps[0].peer, (plan.rank + 1) % 6);
}

// One row of docs/algorithms.md. Bytes and scratch in n-ths of the vector, or in blocks; root 0, all ranks on one node.
struct Costs {
  test::Form form;
  std::size_t rounds;
  std::size_t total;    // sent by all
  std::size_t busiest;  // sent by the rank that sends most
  std::size_t scratch;  // of the rank that has most
};

/// Chains of messages may be shorter than the row says: some parts skip a round.
bool at_most(Algorithm algorithm) {
  using enum Algorithm;
  return algorithm == circulant || algorithm == bruck || algorithm == binomial || algorithm == double_tree;
}

std::size_t log2_up(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n - 1)); }
std::size_t log2_down(std::size_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }

std::vector<Costs> table(std::size_t n) {
  using enum Algorithm;
  const std::size_t up = log2_up(n);
  const std::size_t m = std::bit_floor(n);
  const std::size_t folded = n == m ? 0 : 1;
  const std::size_t all = n * (n - 1);
  const std::size_t in_ring = n > 2 ? std::min<std::size_t>(n - 2, 2) : 0;
  std::size_t subtrees = 0;  // all blocks that binomial gathers and scatters move
  for (std::size_t i = 1; i < n; ++i) subtrees += std::min(i & (~i + 1), n - i);
  std::size_t largest_child = 1;
  for (std::size_t i = 1; i < n; i *= 2) largest_child = std::max(largest_child, std::min(i, n - i));
  return {
      {{Collective::allreduce, ring}, 2 * (n - 1), 2 * all, 2 * (n - 1), 0},
      {{Collective::allreduce, direct_one_shot}, 1, all * n, all, all},
      {{Collective::allreduce, direct_two_shot}, 2, 2 * all, 2 * (n - 1), n - 1},
      {{Collective::allreduce, circulant}, 2 * up, 2 * all, 2 * (n - 1), 0},
      {{Collective::allreduce, halving_doubling},
       2 * log2_down(n) + 2 * folded,
       2 * all,
       (2 * (m - 1) * n + m - 1) / m + folded * n,
       0},
      {{Collective::allreduce, binomial}, 2 * up, 2 * all, up * n, 0},
      {{Collective::allreduce, double_tree}, 4 * up, 2 * all, 2 * n, 0},
      {{Collective::allreduce, star}, 2, 2 * all, all, all},
      {{Collective::allreduce, fold}, 2, 2 * all, 2 * (n - 1), n - 1},
      {{Collective::reduce, ring}, n, all + n - 1, n, in_ring + 1},
      {{Collective::reduce, direct_one_shot}, 1, all, n, all},
      {{Collective::reduce, direct_two_shot}, 2, n * n, n, n + 2},
      {{Collective::reduce, binomial}, up, all, n, n},
      {{Collective::reduce, chain}, n - 1, all, n, n},
      {{Collective::reduce, fold}, 2, all + n - 1, n, n},
      {{Collective::reduce_scatter, ring}, n - 1, all, n - 1, in_ring},
      {{Collective::reduce_scatter, direct_one_shot}, 1, all, n - 1, n - 1},
      {{Collective::reduce_scatter, circulant}, up, all, n - 1, n},
      {{Collective::reduce_scatter, halving_doubling}, up, all, n - 1, n},
      {{Collective::reduce_scatter, fold}, 1, all, n - 1, n - 1},
      {{Collective::all_gather, ring}, n - 1, all, n - 1, 0},
      {{Collective::all_gather, direct_one_shot}, 1, all, n - 1, 0},
      {{Collective::all_gather, circulant}, up, all, n - 1, n},
      {{Collective::all_gather, bruck}, up, all, n - 1, n},
      {{Collective::all_gather, recursive_doubling}, up, all, n - 1, n},
      {{Collective::broadcast, ring}, n - 1, all, 2 * (n - 1), 0},
      {{Collective::broadcast, direct_one_shot}, 1, all, all, 0},
      {{Collective::broadcast, direct_two_shot}, std::min<std::size_t>(n - 1, 2), all, n, 0},
      {{Collective::broadcast, binomial}, up, all, up * n, 0},
      {{Collective::broadcast, double_tree}, 1 + 2 * up, all, n, 0},
      {{Collective::broadcast, chain}, n - 1, all, n, 0},
      {{Collective::gather, direct_one_shot}, 1, n - 1, 1, 0},
      {{Collective::gather, binomial}, up, subtrees, largest_child, n},
      {{Collective::scatter, direct_one_shot}, 1, n - 1, n - 1, 0},
      {{Collective::scatter, binomial}, up, subtrees, n - 1, n},
      {{Collective::alltoall, direct_one_shot}, 1, all, n - 1, 0},
      {{Collective::alltoall, pairwise}, n - 1, all, n - 1, 0},
      {{Collective::alltoall, bruck}, up, n / 2 * up * n, n / 2 * up, n / 2 * (up + 2)},
      {{Collective::barrier, direct_one_shot}, 1, 0, 0, 0},
      {{Collective::barrier, dissemination}, up, 0, 0, 0},
      {{Collective::barrier, binomial}, 2 * up, 0, 0, 0},
  };
}

TEST(Cost, EveryFormKeepsToItsRowOfTheDocument) {
  constexpr std::size_t unit = 16;
  for (const std::size_t n : {2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17}) {
    for (const Costs& row : table(n)) {
      const auto plans = test::plans_of(row.form, test::flat(static_cast<int>(n)));
      if (plans.empty()) continue;  // not for this number
      const std::size_t count = plans[0].blocks == 0 ? unit * n : unit;
      const std::string where = test::text(row.form) + ", " + std::to_string(n) + " ranks";
      const std::size_t rounds = report_of(plans, count).critical_path;
      EXPECT_LE(rounds, row.rounds) << where;
      if (!at_most(row.form.algorithm)) {
        EXPECT_EQ(rounds, row.rounds) << where;
      }
      std::uint64_t all = 0;
      std::uint64_t busiest = 0;
      std::uint64_t scratch = 0;
      for (const Plan& plan : plans) {
        const std::uint64_t sent = total(bytes_sent_to(plan, count, 1));
        all += sent;
        busiest = std::max(busiest, sent);
        scratch = std::max<std::uint64_t>(scratch, scratch_of(plan, count));
      }
      EXPECT_LE(busiest, row.busiest * unit) << where;
      EXPECT_LE(scratch, row.scratch * unit) << where;
      if (row.form.collective == Collective::alltoall && row.form.algorithm == Algorithm::bruck) {
        EXPECT_LE(all, row.total * unit) << where;
      } else {
        EXPECT_EQ(all, row.total * unit) << where;
      }
      if (std::has_single_bit(n) && row.form.algorithm != Algorithm::double_tree) {
        EXPECT_EQ(rounds, row.rounds) << where;
        EXPECT_EQ(busiest, row.busiest * unit) << where;
      }
    }
  }
}

TEST(Cost, EveryFormHasARow) {
  const auto rows = table(4);
  for (const test::Form form : test::all_forms()) {
    const bool has_row = std::any_of(rows.begin(), rows.end(), [&](const Costs& row) {
      return row.form.collective == form.collective && row.form.algorithm == form.algorithm;
    });
    // Held by tests of their own: recursive doubling above, the hierarchical forms in hierarchy_test.cpp.
    const bool own_test = form.algorithm == Algorithm::hierarchical ||
                          (form.collective == Collective::allreduce && form.algorithm == Algorithm::recursive_doubling);
    EXPECT_NE(has_row, own_test) << test::text(form);
  }
}

/// Elements that a rank's copies move.
std::size_t copied_by(const Plan& plan, std::size_t count) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, count, extents);
  std::size_t copied = 0;
  for (const Step& step : plan.steps)
    if (step.kind == StepKind::copy) copied += extents[step.from.range].count;
  return copied;
}

// What is packed is in the price: to within a rank's own block, which an operation that is not in place copies too.
TEST(Cost, PricesCountWhatFormsOfBlocksCopy) {
  constexpr std::size_t unit = 16;
  std::size_t packing = 0;
  for (const int n : {3, 4, 5, 8}) {
    for (const test::Form form : test::all_forms()) {
      if (form.collective != Collective::reduce_scatter && form.collective != Collective::all_gather) continue;
      const auto plans = test::plans_of(form, test::flat(n));
      if (plans.empty()) continue;  // not for this number
      std::size_t copied = 0;
      for (const Plan& plan : plans) copied = std::max(copied, copied_by(plan, unit));
      const std::uint64_t bytes = unit * static_cast<std::uint64_t>(n) * element_bytes;
      const std::uint64_t kept = cost::phases_of(form.collective, form.algorithm, bytes, {n, 1, n, n}).kept;
      EXPECT_LE(copied * element_bytes, kept + unit * element_bytes) << test::text(form) << ", " << n << " ranks";
      EXPECT_GE((copied + unit) * element_bytes, kept) << test::text(form) << ", " << n << " ranks";
      if (copied > unit) ++packing;
    }
  }
  EXPECT_GE(packing, 12u);
}

// A price that takes messages for longer or shorter than they are cuts the vector into other tiles than the engine.
TEST(Cost, PricesKnowTheLongestMessageOfAPlan) {
  const std::vector<std::vector<int>> shapes{
      {4},       {7},      {8},          {1, 1, 1, 1},           std::vector<int>(16, 1),
      {2, 2},    {8, 8},   {4, 4, 4, 4}, {3, 3, 3, 3, 3},        {8, 1},
      {8, 8, 1}, {8, 7},   {4, 2, 1},    std::vector<int>(8, 8), {1, 8},
      {6, 5, 6}, {8, 8, 3}};
  constexpr std::uint64_t bytes = 1 << 24;
  for (const std::vector<int>& ranks : shapes) {
    const test::NodeOf node_of = test::nodes_of(ranks);
    for (const test::Form form : test::all_forms()) {
      // Priced as if all were as long as those on the longest way on average.
      const bool grows = form.algorithm == Algorithm::binomial &&
                         (form.collective == Collective::gather || form.collective == Collective::scatter);
      const auto plan = make_plan({form.algorithm, 0, node_of, ReduceOp::sum, form.collective});
      if (grows || !plan || plan->largest_message == 0) continue;  // a barrier, or not for this number
      const double blocks = plan->blocks == 0 ? 1 : static_cast<double>(node_of.size());
      const double cut_by = static_cast<double>(plan->largest_message) / static_cast<double>(message_unit) / blocks;
      const cost::Phases phases = cost::phases_of(form.collective, form.algorithm, bytes, shape_of(node_of));
      const double priced = static_cast<double>(phases.longest_message()) / static_cast<double>(bytes);
      EXPECT_GT(priced, 0.7 * cut_by) << test::text(form) << ", " << testing::PrintToString(ranks);
      EXPECT_LT(priced, 1.5 * cut_by) << test::text(form) << ", " << testing::PrintToString(ranks);
    }
  }
}

TEST(Cost, PricesCountTheRoundsOfPairwiseThatLeaveTheNode) {
  for (const std::vector<int>& ranks :
       std::vector<std::vector<int>>{{8}, {4, 4}, {1, 1, 1}, {8, 1}, {8, 7}, {4, 2, 1}}) {
    const test::NodeOf node_of = test::nodes_of(ranks);
    std::int64_t most = 0;
    for (const Plan& plan : test::plans_of({Collective::alltoall, Algorithm::pairwise}, node_of)) {
      most = std::max<std::int64_t>(most, std::count_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) {
                                      return step.kind == StepKind::send &&
                                             node_of[static_cast<std::size_t>(step.peer)] !=
                                                 node_of[static_cast<std::size_t>(plan.rank)];
                                    }));
    }
    const auto phases = cost::phases_of(Collective::alltoall, Algorithm::pairwise, 1 << 20, shape_of(node_of));
    EXPECT_EQ(phases.list.front().between_rounds, most) << testing::PrintToString(ranks);
  }
}

TEST(Cost, DoubleTreesShareTheWork) {
  // Whoever is inside one tree is a leaf of the other: nobody sends more than two vectors, and all but the roots of the
  // trees receive two.
  for (const int n : {4, 5, 8, 13, 32, 33}) {
    for (const Plan& plan : test::plans_of(Algorithm::double_tree, test::flat(n))) {
      EXPECT_LE(total(bytes_sent_to(plan, 100, 1)), 200u) << n;
      EXPECT_GE(total(bytes_sent_to(plan, 100, 1)), 100u) << n;
    }
  }
}

}  // namespace
}  // namespace fabring
