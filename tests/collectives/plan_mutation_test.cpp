#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>

#include "collectives/check.hpp"
#include "collectives/every_count.hpp"
#include "collectives/ownership.hpp"
#include "tests/collectives/plan_mutations.hpp"
#include "tests/collectives/plan_oracle.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring {
namespace {

using test::Fault;

struct Count {
  int mutants = 0;
  int caught = 0;
  int equivalent = 0;
};

bool oracle_agrees(const std::vector<Plan>& plans, const Counts& counts, bool avg) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    if (!test::run_oracle(plans, counts, seed % 2 == 0, avg, seed).empty()) return false;
  }
  return true;
}

/// Where every operand of a plan lies; scratch areas by number.
std::vector<std::size_t> places(const Plan& plan, const Counts& counts) {
  std::vector<Extent> extents(plan.ranges.size());
  if (plan.blocks == 0 || counts.blocks.empty()) {
    bind(plan, counts.uniform, extents);
  } else if (plan.collective != Collective::alltoall) {
    bind(plan, counts.blocks, extents);
  }
  std::vector<std::size_t> result;
  const auto add = [&](const Block& block) {
    if (block.range >= extents.size() || (block.space == Space::scratch && block.scratch >= plan.scratch.size()))
      return;
    const Extent extent = block.space == Space::scratch ? scratch_extent(plan, extents, block) : extents[block.range];
    result.insert(result.end(), {static_cast<std::size_t>(block.space), block.scratch, extent.offset, extent.count});
  };
  for (const Step& step : plan.steps) {
    for (const Block& block : reads(plan, step)) add(block);
    for (const Block& block : writes(step)) add(block);
  }
  return result;
}

/// Survivors that do no harm: a dependency that another path implies; another order of operands that is as right
/// because one rank computes it for all and the algorithm claims no order; a range that lies in the same place as the
/// one before; a dependency that only paces (exchanges in pairs, receives of a barrier). The first is proved, the
/// others are left to the oracle.
bool provably_equivalent(Fault fault, const std::vector<Plan>& plans, const Plan& original, const Counts& counts,
                         bool avg) {
  const Plan& changed = plans[static_cast<std::size_t>(original.rank)];
  const bool paced = original.collective == Collective::alltoall || original.collective == Collective::barrier;
  switch (fault) {
    case Fault::drop_dependency:
      return test::orders_at_least(changed, original) || (paced && oracle_agrees(plans, counts, avg));
    case Fault::flip_operands:
      return oracle_agrees(plans, counts, avg);
    case Fault::swap_space:
      return original.collective == Collective::barrier && oracle_agrees(plans, counts, avg);
    case Fault::change_range:
    case Fault::shift_range:
      if (original.collective == Collective::barrier) return oracle_agrees(plans, counts, avg);
      return places(changed, counts) == places(original, counts) && oracle_agrees(plans, counts, avg);
    default:
      return false;
  }
}

TEST(PlanMutation, TheCheckCatchesEverySingleFaultThatMatters) {
  constexpr std::size_t count = 61;  // no part of any range is empty
  constexpr int mutants_each = 5;
  const std::vector<test::NodeOf> worlds{test::flat(2),
                                         test::flat(3),
                                         test::flat(4),
                                         test::flat(5),
                                         test::flat(8),
                                         test::nodes_of({2, 2}),
                                         test::nodes_of({3, 1, 2}),
                                         test::nodes_of({1, 4}),
                                         {0, 1, 0, 1},
                                         test::nodes_of({4, 3})};
  std::array<Count, test::fault_count> tallies{};
  std::map<std::string, Count> by_form;
  std::mt19937_64 random(20250101);
  for (const auto& nodes : worlds) {
    for (const test::Form form : test::all_forms()) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
        if (op == ReduceOp::avg && !reduces(form.collective)) continue;
        auto plans = test::plans_of(form, nodes, op, static_cast<Rank>(random() % nodes.size()));
        if (plans.empty()) continue;
        Counts counts(count);
        if (plans[0].blocks != 0 && !needs_equal_blocks(form.collective, form.algorithm)) {
          counts = Counts(test::different_lengths(plans[0]));
        }
        ASSERT_TRUE(check_plans(plans, counts, op).has_value()) << test::text(form);
        for (int i = 0; i < mutants_each * test::fault_count; ++i) {
          const auto fault = static_cast<Fault>(i % test::fault_count);
          Plan& victim = plans[random() % plans.size()];
          const Plan original = victim;
          const auto mutation = test::mutate(victim, fault, random);
          if (!mutation) continue;
          Count& tally = tallies[static_cast<std::size_t>(fault)];
          Count& of_form = by_form[test::text(form)];
          ++tally.mutants;
          ++of_form.mutants;
          const auto report = check_plans(plans, counts, op);
          if (!report) {
            ++tally.caught;
            ++of_form.caught;
            EXPECT_FALSE(report.error().message().empty());
          } else if (provably_equivalent(fault, plans, original, counts, op == ReduceOp::avg)) {
            ++tally.equivalent;
          } else {
            ADD_FAILURE() << "survived: " << mutation->what << " of " << test::text(form) << ", " << name(op) << ", "
                          << test::text(nodes) << ", root " << original.root;
          }
          victim = original;
        }
      }
    }
  }
  int mutants = 0;
  for (int i = 0; i < test::fault_count; ++i) {
    const Count& tally = tallies[static_cast<std::size_t>(i)];
    mutants += tally.mutants;
    std::printf("[ %-16s %5d mutants, %5d caught, %4d equivalent ]\n",
                std::string(test::name(static_cast<Fault>(i))).c_str(), tally.mutants, tally.caught, tally.equivalent);
    EXPECT_GT(tally.caught, 0) << test::name(static_cast<Fault>(i));
  }
  EXPECT_GT(mutants, 5000);
  EXPECT_EQ(by_form.size(), test::all_forms().size());
  for (const auto& [form, tally] : by_form) EXPECT_GT(tally.caught, tally.mutants / 2) << form;
}

// A fault shows at every count, at some, or at none: what is proved of all counts is what they say one by one.
TEST(PlanMutation, ProofsOfEveryCountAreWhatTheCountsOneByOneSay) {
  std::mt19937_64 random(20250102);
  std::array<int, 3> seen{};  // right; wrong at every count but small ones; wrong at some
  for (const auto& nodes : {test::flat(3), test::flat(4), test::nodes_of({2, 2}), test::nodes_of({3, 1, 2})})
    for (const test::Form form : test::all_forms()) {
      if (form.collective == Collective::barrier) continue;
      auto plans = test::plans_of(form, nodes);
      for (int i = 0; i < 2 * test::fault_count && !plans.empty(); ++i) {
        Plan& victim = plans[random() % plans.size()];
        const Plan original = victim;
        const auto mutation = test::mutate(victim, static_cast<Fault>(i % test::fault_count), random);
        if (!mutation) continue;
        const std::size_t last = 4 * period_of_bounds(plans, 1000) + 20;
        std::size_t wrong = 0;
        for (std::size_t count = 0; count <= last; ++count) wrong += check_plans(plans, count, ReduceOp::sum) ? 0U : 1U;
        const auto found = prove_every_count(plans, ReduceOp::sum);
        EXPECT_EQ(found.has_value(), wrong == 0) << mutation->what << " of " << test::text(form);
        EXPECT_TRUE(!found || found->proved) << mutation->what << " of " << test::text(form);
        ++seen[wrong == 0 ? 0 : wrong >= last - 6 ? 1 : 2];
        victim = original;
      }
    }
  std::printf("[ %d right, %d wrong, %d wrong at some counts ]\n", seen[0], seen[1], seen[2]);
  for (const int number : seen) EXPECT_GE(number, 10);
}

}  // namespace
}  // namespace fabring
