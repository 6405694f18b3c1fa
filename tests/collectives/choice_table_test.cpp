#include "collectives/choice/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/cost/predict.hpp"
#include "tests/support/override_text.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kibi = 1 << 10;
constexpr std::uint64_t mebi = 1 << 20;

Machine loopback() { return *find_machine("loopback-tcp"); }
ChoiceTable table(const WorldShape& shape, const std::string& overrides = {}) {
  auto rules = parse_overrides(overrides);
  EXPECT_TRUE(rules.has_value()) << rules.error().message();
  return ChoiceTable::make(shape, loopback(), rules ? *rules : std::vector<Override>{});
}
Algorithm chosen(const ChoiceTable& from, std::uint64_t bytes, const Constraints& constraints = {}) {
  return choose(from, Collective::allreduce, bytes, constraints).algorithm;
}

TEST(ChoiceTable, ChoosesWhatHasTheLowestPrice) {
  for (const std::string_view machine_name : machine_names()) {
    const Machine machine = *find_machine(machine_name);
    for (const WorldShape& shape : {WorldShape{2, 1, 2, 2}, {12, 3, 4, 4}, {7, 2, 3, 4}, {1024, 128, 8, 8}}) {
      const ChoiceTable made = ChoiceTable::make(shape, machine);
      for (std::uint64_t bytes = 1; bytes <= std::uint64_t{1} << 40; bytes *= 2) {
        const auto price = predict(Collective::allreduce, chosen(made, bytes), bytes, shape, machine);
        for (const Algorithm other : all_algorithms()) {
          if (other == Algorithm::star || other == Algorithm::fold) continue;  // never chosen for any order
          const auto others = predict(Collective::allreduce, other, bytes, shape, machine);
          if (!others || *price <= *others) continue;
          const Algorithm steady = chosen(made, bytes);
          EXPECT_TRUE(shape.nodes > 1 && (steady == Algorithm::hierarchical || steady == Algorithm::ring))
              << name(other) << " " << bytes;
          EXPECT_LE(*price, *others + *others / 100 * steady_percent(Collective::allreduce, bytes, shape))
              << name(other) << " " << bytes;
        }
      }
    }
  }
}

TEST(ChoiceTable, KeepsToWhatTheCallNeeds) {
  const ChoiceTable made = table({8, 2, 4, 4});
  for (int c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (std::uint64_t bytes = 1; bytes < 1024 * mebi; bytes *= 3) {
      const Chosen ordered = choose(made, collective, bytes, {.ordered = true});
      const Chosen reproducible = choose(made, collective, bytes, {.reproducible = true});
      if (collective != Collective::allreduce) continue;
      EXPECT_TRUE(keeps_order(collective, ordered.algorithm));
      EXPECT_TRUE(is_reproducible(collective, reproducible.algorithm));
      EXPECT_NE(ordered.reason, ChoiceReason::nothing_fits);
    }
  }
}

// On a node or between many hosts the direct forms have the same fold; between a few hosts they send a node's bytes L
// times. What a step rounds to two bytes or one is another sum.
TEST(ChoiceTable, FoldsFromNodeToNodeWhereResultsMustBeReproducible) {
  const WorldShape shape{16, 2, 8, 8};
  for (const std::string_view machine : {"10g", "100g", "efa-400"}) {
    const ChoiceTable made = ChoiceTable::make(shape, *find_machine(machine));
    for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::reduce_scatter}) {
      const auto chosen_for = [&](const Constraints& constraints) {
        return choose(made, collective, 64 * mebi, constraints).algorithm;
      };
      EXPECT_NE(chosen_for({}), Algorithm::fold) << machine;
      EXPECT_TRUE(rounds_once(collective, chosen_for({.reproducible = true, .rounds_once = true}))) << machine;
    }
    const Constraints reproducible{.reproducible = true};
    EXPECT_EQ(choose(made, Collective::allreduce, 64 * mebi, reproducible).algorithm, Algorithm::fold) << machine;
  }
  const ChoiceTable on_one = ChoiceTable::make({8, 1, 8, 8}, *find_machine("shared-memory"));
  EXPECT_EQ(choose(on_one, Collective::allreduce, 64 * mebi, {.reproducible = true}).algorithm,
            Algorithm::direct_two_shot);
}

std::vector<int> full_nodes(int nodes, int ranks_of_each) {
  std::vector<int> node_of;
  for (int node = 0; node < nodes; ++node) node_of.insert(node_of.end(), static_cast<std::size_t>(ranks_of_each), node);
  return node_of;
}

// Some forms exist for powers of two only, and were chosen for other worlds where their price was the lowest.
TEST(ChoiceTable, EveryChoiceCanBeBuilt) {
  std::vector<std::vector<int>> worlds{{0, 0, 1, 1, 1}, {0, 1, 2, 0, 1}};
  for (int ranks = 1; ranks <= 33; ranks += ranks < 17 ? 1 : 8) worlds.push_back(full_nodes(1, ranks));
  for (const auto& [nodes, each] : {std::pair{3, 8}, {5, 4}, {9, 8}, {12, 1}, {12, 8}, {24, 8}})
    worlds.push_back(full_nodes(nodes, each));
  for (const std::string_view machine_name : machine_names()) {
    for (const std::vector<int>& node_of : worlds) {
      for (const std::uint32_t cores : {0u, 2u, 4u}) {
        Machine machine = *find_machine(machine_name);
        machine.cores = cores;
        const ChoiceTable made = ChoiceTable::make(shape_of(node_of), machine);
        for (int c = 0; c < collective_count; ++c) {
          for (int v = 0; v < 16; ++v) {
            const Constraints constraints{.ordered = (v & 1) != 0,
                                          .reproducible = (v & 2) != 0,
                                          .rounds_once = (v & 4) != 0,
                                          .unequal_blocks = (v & 8) != 0};
            std::optional<Algorithm> last;
            for (std::uint64_t bytes = 1; bytes < 1024 * mebi; bytes *= 2) {
              const Chosen found = choose(made, static_cast<Collective>(c), bytes, constraints);
              if (found.reason == ChoiceReason::nothing_fits || found.algorithm == last) continue;
              last = found.algorithm;
              EXPECT_FALSE(constraints.unequal_blocks &&
                           needs_equal_blocks(static_cast<Collective>(c), found.algorithm));
              PlanRequest request;
              request.algorithm = found.algorithm;
              request.collective = static_cast<Collective>(c);
              request.node_of = node_of;
              const auto plan = make_plan(request);
              ASSERT_TRUE(plan) << machine_name << ", " << cores << " cores, " << bytes
                                << " bytes: " << plan.error().message();
            }
          }
        }
      }
    }
  }
}

// Measured to be worth it over nodes of one rank.
TEST(Candidates, NoRingOverFullNodesIsPreferredToWhatIsCheaper) {
  for (const std::string_view links : {"1g", "10g", "100g"}) {
    Machine machine = *find_machine(links);
    machine.inside = find_machine("shared-memory")->inside;
    for (const WorldShape& shape : {WorldShape{32, 4, 8, 8}, {24, 3, 8, 8}, {16, 4, 4, 4}, {4, 2, 2, 2}}) {
      for (std::uint64_t bytes = 16 << 10; bytes <= 1 << 20; bytes *= 2) {
        const auto all = candidates(Collective::allreduce, bytes, shape, machine);
        const auto ring = std::ranges::find(all, Algorithm::ring, &Candidate::algorithm);
        for (auto behind = ring; behind != all.end() && behind->excluded.empty(); ++behind)
          EXPECT_GE(behind->predicted, ring->predicted)
              << name(behind->algorithm) << " of " << bytes << ", " << shape.nodes << " nodes on " << links;
      }
    }
  }
}

TEST(ChoiceTable, SizeClassesEndAtPowersOfTwo) {
  EXPECT_EQ(ChoiceTable::size_class(0), ChoiceTable::size_class(1));
  EXPECT_EQ(ChoiceTable::size_class(16384), 14u);
  EXPECT_EQ(ChoiceTable::size_class(16385), 15u);
  EXPECT_EQ(ChoiceTable::size_class(~std::uint64_t{0}), ChoiceTable::size_classes - 1);
}

TEST(Overrides, DecideWhereTheyCoverTheCallAndCanDoIt) {
  const ChoiceTable made = table({4, 1, 4, 4}, "allreduce:64K-1M:ring,2M:auto,1M-:recursive_doubling");
  EXPECT_EQ(choose(made, Collective::allreduce, 64 * kibi), (Chosen{Algorithm::ring, ChoiceReason::asked_for}));
  EXPECT_EQ(choose(made, Collective::allreduce, mebi), (Chosen{Algorithm::ring, ChoiceReason::asked_for}));
  EXPECT_EQ(choose(made, Collective::allreduce, 4 * mebi),
            (Chosen{Algorithm::recursive_doubling, ChoiceReason::asked_for}));
  EXPECT_EQ(choose(made, Collective::allreduce, 2 * mebi).reason, ChoiceReason::fastest);
  EXPECT_EQ(choose(made, Collective::allreduce, 64 * kibi - 1).reason, ChoiceReason::fastest);
  const Chosen ordered = choose(made, Collective::allreduce, 64 * kibi, {.ordered = true});
  EXPECT_EQ(ordered.reason, ChoiceReason::asked_for_unfit);
  EXPECT_TRUE(keeps_order(Collective::allreduce, ordered.algorithm));
}

// "recursive_doubling" is for allreduce of any number of ranks, but for all_gather of a power of two only.
TEST(Overrides, OneThatHasNoPlanForSoManyRanksIsPassedOver) {
  for (const std::string rule : {"recursive_doubling", "halving_doubling"}) {
    const Algorithm asked = *parse_algorithm(rule, Collective::allreduce);
    const Collective other =
        asked == Algorithm::recursive_doubling ? Collective::all_gather : Collective::reduce_scatter;
    for (const int ranks : {3, 6}) {
      const ChoiceTable made = table({ranks, 1, ranks, ranks}, rule);
      EXPECT_EQ(choose(made, Collective::allreduce, kibi), (Chosen{asked, ChoiceReason::asked_for}));
      const Chosen chosen = choose(made, other, kibi);
      EXPECT_EQ(chosen.reason, ChoiceReason::asked_for_unfit);
      EXPECT_TRUE(takes_ranks(other, chosen.algorithm, ranks)) << name(chosen.algorithm);
    }
    EXPECT_EQ(choose(table({4, 1, 4, 4}, rule), other, kibi), (Chosen{asked, ChoiceReason::asked_for}));
  }
}

// Each rank knows only its own lengths, so there is no size that all would find in the same rule.
TEST(Overrides, ForSizesAreNotForAnAlltoallOfUnequalBlocks) {
  const auto reason = [](const char* rules, Collective collective) {
    return choose(table({4, 1, 4, 4}, rules), collective, 0, {.unequal_blocks = true}).reason;
  };
  for (const char* rules : {"alltoall:-64K:pairwise", "0-64K:pairwise", "alltoall:0:pairwise"})
    EXPECT_EQ(reason(rules, Collective::alltoall), ChoiceReason::fastest) << rules;
  for (const char* rules : {"alltoall:pairwise", "-64K:auto,pairwise"})
    EXPECT_EQ(reason(rules, Collective::alltoall), ChoiceReason::asked_for) << rules;
  EXPECT_EQ(reason("all_gather:-64K:ring", Collective::all_gather), ChoiceReason::asked_for);
}

// The first rule for the size ended the search, though it cannot do the call.
TEST(Overrides, OneThatCannotDoTheCallIsPassedOverForTheNext) {
  const WorldShape shape{4, 1, 4, 4};
  const ChoiceTable made = table(shape, "allreduce:64K-1M:ring,2M:ring,2M:auto,1M-:recursive_doubling");
  EXPECT_EQ(choose(made, Collective::allreduce, mebi, {.ordered = true}),
            (Chosen{Algorithm::recursive_doubling, ChoiceReason::asked_for}));
  EXPECT_EQ(choose(made, Collective::allreduce, mebi), (Chosen{Algorithm::ring, ChoiceReason::asked_for}));
  EXPECT_EQ(choose(made, Collective::allreduce, 2 * mebi, {.ordered = true}).reason, ChoiceReason::fastest);
}

TEST(Overrides, AreReadAndWritten) {
  for (const char* text : {"ring", "allreduce:ring", "allreduce:65536-4194304:hierarchical", "1024-:ring,0-16:direct",
                           "4096:ring,auto", "allreduce:auto"}) {
    const auto rules = parse_overrides(text);
    ASSERT_TRUE(rules) << rules.error().message();
    EXPECT_EQ(fixture::to_text(*rules), text);
  }
  EXPECT_EQ(parse_overrides("allreduce:-4M:ring")->front().most, 4 * mebi);
  EXPECT_EQ(parse_overrides("64K-:ring")->front().least, 64 * kibi);
  EXPECT_TRUE(parse_overrides("")->empty());
  const auto spaced = parse_overrides("allreduce: 64K-4M : ring");
  ASSERT_TRUE(spaced) << spaced.error().message();
  EXPECT_EQ(fixture::to_text(*spaced), fixture::to_text(*parse_overrides("allreduce:64K-4M:ring")));
  EXPECT_EQ(parse_overrides("direct")->front().algorithm_for(Collective::allreduce), Algorithm::direct_two_shot);
  for (const Collective rooted : {Collective::reduce, Collective::broadcast})
    EXPECT_EQ(parse_overrides("direct")->front().algorithm_for(rooted), Algorithm::direct_one_shot);
}

TEST(Overrides, SayWhatIsWrongWithThem) {
  const std::pair<const char*, const char*> cases[] = {
      {"rign", "did you mean 'ring'?"},
      {"alreduce:ring", "did you mean 'allreduce'?"},
      {"allreduce:64X:ring", "64X"},
      {"allreduce:4M-64K:ring", "ends before it begins"},
      {"64K:allreduce:ring", "the collective comes before"},
      {"allreduce:64K:1M:ring", "too many ':'"},
      {"allreduce:", "is not an algorithm"},
      {"broadcast:binomial_tree", "is not an algorithm; broadcast has ring, hierarchical, direct_one_shot"},
      {"butterfly", "this is not an algorithm; there are "},
      {"ring,,ring", ""},
      {":ring", "neither a collective nor a size"},
      {"barrier:ring", "has no algorithm"},
  };
  for (const auto& [text, expected] : cases) {
    const auto rules = parse_overrides(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_EQ(rules.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(rules.error().message(), HasSubstr(expected));
  }
  std::string many = "ring";
  for (int i = 0; i < 100; ++i) many += ",ring";
  EXPECT_FALSE(parse_overrides(many));
}

TEST(Candidates, ShowEveryAlgorithmWithItsPriceOrWhyNot) {
  const WorldShape shape{8, 2, 4, 4};
  const auto all = candidates(Collective::allreduce, mebi, shape, loopback(), {.ordered = true});
  bool left_out = false;
  Nanoseconds before = 0;
  for (const Candidate& each : all) {
    left_out = left_out || !each.excluded.empty();
    EXPECT_EQ(each.excluded.empty(), !left_out);
    if (left_out) continue;
    EXPECT_GE(*each.predicted, before);
    before = *each.predicted;
  }
  EXPECT_TRUE(left_out);
  const Chosen found = choose(ChoiceTable::make(shape, loopback()), Collective::allreduce, mebi, {.ordered = true});
  EXPECT_EQ(all.front().algorithm, found.algorithm);
  EXPECT_THAT(reason_text(found, Collective::allreduce, mebi, shape),
              HasSubstr("allreduce of 1 MiB over 8 ranks on 2 nodes: " + std::string(name(found.algorithm))));
  EXPECT_THAT(reason_text(found, Collective::allreduce, mebi, shape), testing::Not(HasSubstr("priced as")));
  EXPECT_THAT(reason_text(found, Collective::allreduce, 40 * kibi, shape),
              HasSubstr("for sizes up to 64 KiB, priced as 64 KiB, give or take 3%"));
  EXPECT_THAT(reason_text(found, Collective::allreduce, mebi << 40, shape), HasSubstr("for sizes above 2 TiB"));
  const Chosen barrier = choose(ChoiceTable::make(shape, loopback()), Collective::barrier, 0);
  EXPECT_EQ(reason_text(barrier, Collective::barrier, 0, shape).find("barrier over 8 ranks on 2 nodes: "), 0u);
  EXPECT_THAT(reason_text(barrier, Collective::barrier, 0, shape), testing::Not(HasSubstr("sizes")));
}

}  // namespace
}  // namespace fabring
