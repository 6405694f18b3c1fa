#include "simulation/simulate.hpp"

#include <bit>
#include <numeric>

#include "tests/simulation/worlds.hpp"

namespace fabring::simulation {
namespace {

using test::equal_nodes;

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;

void expect_within_one_percent(Nanoseconds time, double expected) {
  EXPECT_NEAR(static_cast<double>(time), expected, expected / 100);
}

TEST(Simulate, RingOnAnIdealNetworkTakesTwoNMinusOneNthsOfTheBytes) {
  for (const int n : {2, 3, 4, 8, 16}) {
    const auto ring = test::schedule(Algorithm::ring, equal_nodes(n, 1));
    const auto bytes = static_cast<std::uint64_t>(n) * mebi;
    const Outcome result = test::outcome(ring, test::bytes_only(), {.bytes = bytes});
    expect_within_one_percent(result.time_ns, 2.0 * (n - 1) / n * static_cast<double>(bytes));
    EXPECT_EQ(result.bytes_between, 2 * (static_cast<std::uint64_t>(n) - 1) * mebi);  // of the one rank simulated
  }
}

// The plan counts the blocks of the input and of the output; the bytes of a call are those of one of them.
TEST(Simulate, AnAlltoallHasAsManyBytesAsItsPriceIsFor) {
  PlanRequest wanted = test::request(Algorithm::direct_one_shot, equal_nodes(2, 1));
  wanted.collective = Collective::alltoall;
  const auto plans = make_schedule(wanted);
  ASSERT_TRUE(plans) << plans.error().message();
  const Outcome result = test::outcome(*plans, test::bytes_only(), {.bytes = mebi, .every_rank = true});
  EXPECT_EQ(result.bytes_between, mebi) << "half a vector each way";
  expect_within_one_percent(result.time_ns, static_cast<double>(mebi) / 2);
}

TEST(Simulate, RoundsDecideWhereOnlyMessagesCost) {
  const Machine machine = test::latency_only();
  const Job job{.bytes = 4096};
  for (const int n : {2, 4, 16, 32}) {
    EXPECT_EQ(test::outcome(test::schedule(Algorithm::ring, equal_nodes(n, 1)), machine, job).time_ns, 2000 * (n - 1));
    EXPECT_EQ(test::outcome(test::schedule(Algorithm::direct_one_shot, equal_nodes(n, 1)), machine, job).time_ns, 1000);
    EXPECT_EQ(test::outcome(test::schedule(Algorithm::direct_two_shot, equal_nodes(n, 1)), machine, job).time_ns, 2000);
    const int rounds = std::countr_zero(static_cast<unsigned>(n));
    EXPECT_EQ(test::outcome(test::schedule(Algorithm::recursive_doubling, equal_nodes(n, 1)), machine, job).time_ns,
              1000 * rounds);
  }
  EXPECT_EQ(test::outcome(test::schedule(Algorithm::hierarchical, equal_nodes(4, 8)), machine, job).time_ns,
            1000 * (2 * 7 + 2 * 3));
}

TEST(Simulate, ALargeMessageWaitsForItsGrant) {
  const auto doubling = test::schedule(Algorithm::recursive_doubling, equal_nodes(2, 1));
  EXPECT_EQ(test::outcome(doubling, test::latency_only(), {.bytes = eager_message_bytes}).time_ns, 1000);
  EXPECT_EQ(test::outcome(doubling, test::latency_only(), {.bytes = eager_message_bytes + 4}).time_ns, 2000);
}

TEST(Simulate, HierarchyUsesAllCardsOfANodeAndARingOne) {
  Machine machine = test::bytes_only();
  machine.inside = {};  // free
  machine.nics = 4;
  const std::uint64_t bytes = 64 * mebi;
  const Outcome lanes =
      test::outcome(test::schedule(Algorithm::hierarchical, equal_nodes(4, 4)), machine, {.bytes = bytes});
  const Outcome ring = test::outcome(test::schedule(Algorithm::ring, equal_nodes(4, 4)), machine, {.bytes = bytes});
  expect_within_one_percent(lanes.time_ns, 2.0 * 3 / 4 * static_cast<double>(bytes) / 4);
  EXPECT_GT(ring.time_ns, 3 * lanes.time_ns);
}

TEST(Simulate, AMessageTakesOneOfARanksCardsAndSeveralTakeAll) {
  Machine machine = test::bytes_only();
  machine.between = {};
  machine.nics = 4;
  const std::uint64_t bytes = 64 * mebi;
  const auto ring = test::schedule(Algorithm::ring, equal_nodes(4, 1));
  const auto vectors = [&](std::uint32_t tiles) {
    machine.tiling = {bytes / 4 / tiles, bytes / 4 / tiles, tiles};
    return static_cast<double>(test::outcome(ring, machine, {.bytes = bytes}).time_ns) / static_cast<double>(bytes);
  };
  EXPECT_NEAR(vectors(1), 6.0 / 4, 0.02) << "six rounds, each a quarter of the vector over one card";
  EXPECT_LT(vectors(4), 6.0 / 4 / 3) << "four tiles, each over a card of its own";
}

// On 64 nodes and more the usual tiles leave cards idle for half of the time.
TEST(Simulate, LongMessagesKeepTheCardsBusy) {
  const std::uint64_t bytes = 1024 * mebi;
  for (const int nodes : {8, 64, 512}) {
    const auto plans = test::schedule(Algorithm::hierarchical, equal_nodes(nodes, 8));
    Machine machine = *find_machine("efa-400");
    const Outcome chosen = test::outcome(plans, machine, {.bytes = bytes});
    EXPECT_GT(chosen.busiest_card_ns, chosen.time_ns - chosen.time_ns / 20) << nodes;
    EXPECT_EQ(chosen.depth, machine.tiling.long_depth);
    machine.tiling.long_segment_bytes = 0;
    EXPECT_LT(chosen.time_ns, test::outcome(plans, machine, {.bytes = bytes}).time_ns * (nodes > 8 ? 65 : 80) / 100);
  }
}

TEST(Simulate, OneUnitGivesTheTimesOfTheWholeWorldToTheNanosecond) {
  for (const std::string_view machine_name : machine_names()) {
    const Machine machine = *find_machine(machine_name);
    for (const auto& [nodes, local] : {std::pair{2, 1}, {4, 1}, {4, 2}, {8, 4}, {3, 3}, {5, 8}}) {
      for (const Algorithm algorithm : all_algorithms()) {
        const auto made = make_schedule(test::request(algorithm, equal_nodes(nodes, local)));
        if (!made) continue;
        const auto parts = static_cast<std::uint64_t>(nodes * local * 4 * 720);
        for (const std::uint64_t bytes : {parts, 16 * parts, 200 * parts}) {
          Job job{.bytes = bytes};
          const Outcome unit = test::outcome(*made, machine, job);
          job.every_rank = true;
          const Outcome whole = test::outcome(*made, machine, job);
          ASSERT_EQ(unit.time_ns, whole.time_ns)
              << name(algorithm) << " " << nodes << "x" << local << " " << bytes << " " << machine_name;
          for (std::size_t rank = 0; rank < whole.finished_ns.size(); ++rank)
            ASSERT_EQ(whole.finished_ns[rank], unit.finished_ns[rank % unit.finished_ns.size()]);
        }
      }
    }
  }
}

TEST(Simulate, SharedPlansGiveTheTimesOfPlansOfTheirOwn) {
  ScheduleOptions own;
  own.use_symmetry = false;
  const Machine machine = *find_machine("100g");
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::hierarchical, Algorithm::direct_two_shot}) {
    const Job job{.bytes = 24 * 4 * 3000, .every_rank = true};
    const Outcome shared = test::outcome(test::schedule(algorithm, equal_nodes(6, 4)), machine, job);
    const Outcome separate = test::outcome(test::schedule(algorithm, equal_nodes(6, 4), own), machine, job);
    EXPECT_NEAR(static_cast<double>(shared.time_ns), static_cast<double>(separate.time_ns),
                static_cast<double>(separate.time_ns) / 100)
        << name(algorithm);
  }
}

TEST(Simulate, IsNeverFasterThanItsBytes) {
  for (const std::string_view machine_name : machine_names()) {
    const Machine machine = *find_machine(machine_name);
    if (machine.nic_bytes_per_second == 0) continue;
    for (const Algorithm algorithm : all_algorithms()) {
      const auto made = make_schedule(test::request(algorithm, equal_nodes(4, 8)));
      if (!made) continue;
      for (const std::uint64_t bytes : {mebi, 64 * mebi}) {
        const Outcome result = test::outcome(*made, machine, {.bytes = bytes});
        // Each node must send 2(N-1)/N of the vector.
        EXPECT_GE(result.time_ns, transfer_ns(bytes * 6 / 4, machine.nic_bytes_per_second * machine.nics))
            << name(algorithm) << " on " << machine_name;
        EXPECT_GE(result.time_ns, result.busiest_card_ns);
        EXPECT_GE(result.time_ns, result.busiest_rank_ns);
      }
    }
  }
}

TEST(Simulate, TakesLongerForMoreBytesAndOnAWorseMachine) {
  const auto plans = test::schedule(Algorithm::hierarchical, equal_nodes(4, 8));
  const Machine machine = *find_machine("efa-400");
  Nanoseconds before = 0;
  for (std::uint64_t bytes = 1024; bytes <= 256 * mebi; bytes *= 4) {
    const Nanoseconds time = test::outcome(plans, machine, {.bytes = bytes}).time_ns;
    EXPECT_GE(time, before) << bytes;
    before = time;
  }
  for (const auto worse :
       {+[](Machine& m) { m.nic_bytes_per_second /= 2; }, +[](Machine& m) { m.between.latency_ns *= 4; },
        +[](Machine& m) { m.between.send_ns *= 20; }, +[](Machine& m) { m.reduce_bytes_per_second /= 100; },
        +[](Machine& m) { m.nodes_per_leaf = 2, m.oversubscription_percent = 400; }}) {
    Machine changed = machine;
    worse(changed);
    const auto again = test::schedule(Algorithm::hierarchical, equal_nodes(4, 8), options_for(changed));
    EXPECT_GT(test::outcome(again, changed, {.bytes = 64 * mebi}).time_ns,
              test::outcome(plans, machine, {.bytes = 64 * mebi}).time_ns);
  }
}

TEST(Simulate, OversubscribedLeavesLimitWhatCrossesThem) {
  Machine machine = test::bytes_only();
  machine.nics = 1;
  machine.nodes_per_leaf = 4;
  machine.oversubscription_percent = 400;  // one node's bandwidth for four
  const auto direct = test::schedule(Algorithm::direct_two_shot, equal_nodes(8, 1), options_for(machine));
  EXPECT_EQ(direct.classes.size(), 4u);
  const std::uint64_t bytes = 64 * mebi;
  const Outcome result = test::outcome(direct, machine, {.bytes = bytes});
  expect_within_one_percent(result.time_ns, 4 * 2.0 * 7 / 8 * static_cast<double>(bytes));
}

TEST(Simulate, RanksThatShareACoreTakeTurns) {
  Machine machine;
  machine.name = "busy";
  machine.reduce_bytes_per_second = 1'000'000'000;
  machine.tiling = {std::size_t{1} << 40, std::size_t{1} << 40, 1};
  const auto plans = test::schedule(Algorithm::direct_one_shot, equal_nodes(1, 4));
  const Job job{.bytes = mebi};
  const Nanoseconds alone = test::outcome(plans, machine, job).time_ns;
  machine.cores = 2;
  expect_within_one_percent(test::outcome(plans, machine, job).time_ns, 2.0 * static_cast<double>(alone));
  machine.switch_ns = 500'000;
  EXPECT_GT(test::outcome(plans, machine, job).time_ns, 2 * alone + 500'000);
}

TEST(Simulate, StragglersFollowFromTheSeed) {
  const auto plans = test::schedule(Algorithm::hierarchical, equal_nodes(4, 4));
  const Machine machine = *find_machine("100g");
  Job job{.bytes = mebi, .stragglers = {0.2, 3'000'000, 7}};
  const Outcome first = test::outcome(plans, machine, job);
  EXPECT_EQ(first.finished_ns, test::outcome(plans, machine, job).finished_ns);
  EXPECT_EQ(first.finished_ns.size(), 16u);
  job.stragglers.seed = 8;
  const Outcome other = test::outcome(plans, machine, job);
  EXPECT_NE(first.finished_ns, other.finished_ns);
  const Nanoseconds quiet = test::outcome(plans, machine, {.bytes = mebi}).time_ns;
  EXPECT_GT(first.time_ns, 3'000'000);
  EXPECT_LE(first.time_ns, 2 * quiet + 3'000'000);  // everybody waits, but only once
  job.stragglers = {1.0, 3'000'000, 1};
  EXPECT_EQ(test::outcome(plans, machine, job).time_ns, quiet + 3'000'000);
}

TEST(Simulate, NobodyHasASumBeforeTheLastRankCame) {
  Job job{.bytes = 48 * 4096, .stragglers = {0.05, 50'000'000, 3}};
  for (const Algorithm algorithm : all_algorithms()) {
    // 48: in direct forms a step waits for more than a StepState counts at once.
    const auto made = make_schedule(test::request(algorithm, equal_nodes(6, 8)));
    if (!made) continue;
    for (const std::string_view machine : {"100g", "efa-400"}) {
      const Outcome late = test::outcome(*made, *find_machine(machine), job);
      ASSERT_GE(late.time_ns, job.stragglers.late_ns);
      for (const Nanoseconds finished : late.finished_ns)
        ASSERT_GE(finished, job.stragglers.late_ns) << name(algorithm) << " " << machine;
    }
  }
}

TEST(Simulate, LeftOutTilesAreAddedAtThePaceOfTheOthers) {
  const auto plans = test::schedule(Algorithm::hierarchical, equal_nodes(4, 4));
  for (const std::string_view machine_name : machine_names()) {
    if (machine_name == "cuda-ipc") continue;  // it has one node, and few tiles
    const Machine machine = *find_machine(machine_name);
    const Outcome whole = test::outcome(plans, machine, {.bytes = 2048 * mebi});
    const Outcome some = test::outcome(plans, machine, {.bytes = 2048 * mebi, .most_messages = whole.messages / 3});
    EXPECT_FALSE(whole.extrapolated());
    EXPECT_TRUE(some.extrapolated());
    EXPECT_LE(some.messages, whole.messages / 2);
    EXPECT_NEAR(static_cast<double>(some.time_ns), static_cast<double>(whole.time_ns),
                static_cast<double>(whole.time_ns) / 20)
        << machine_name;
    EXPECT_NEAR(static_cast<double>(some.bytes_between), static_cast<double>(whole.bytes_between),
                static_cast<double>(whole.bytes_between) / 100);
  }
}

// The first tiles come faster than the ranks can go on: they were taken for the pace, and 64 MiB for less than the
// processors' work.
TEST(Simulate, WhatIsLeftOutTakesAtLeastTheWorkThatItHas) {
  const Machine machine = *find_machine("100g");
  const std::uint64_t bytes = 64 * mebi;
  for (const Algorithm algorithm : {Algorithm::hierarchical, Algorithm::recursive_doubling, Algorithm::circulant}) {
    const auto plans = test::schedule(algorithm, equal_nodes(algorithm == Algorithm::hierarchical ? 2048 : 64, 8));
    const Outcome whole = test::outcome(plans, machine, {.bytes = bytes});
    const Outcome some = test::outcome(plans, machine, {.bytes = bytes, .most_messages = 1});
    EXPECT_FALSE(whole.extrapolated());
    ASSERT_TRUE(some.extrapolated()) << name(algorithm);
    EXPECT_EQ(some.tiles_simulated, 8 * some.depth);
    EXPECT_GE(some.time_ns, some.busiest_rank_ns);
    EXPECT_GE(some.time_ns, some.busiest_card_ns);
    EXPECT_GE(some.time_ns, whole.time_ns - whole.time_ns / 50) << name(algorithm);
    EXPECT_LE(some.time_ns, whole.time_ns + whole.time_ns / 4) << name(algorithm);
  }
}

TEST(Simulate, HierarchyOf16384RanksIsMatterOfSeconds) {
  const auto plans = test::schedule(Algorithm::hierarchical, equal_nodes(2048, 8));
  const Outcome result = test::outcome(plans, *find_machine("efa-400"), {.bytes = 64 * mebi});
  EXPECT_EQ(result.finished_ns.size(), 8u);
  EXPECT_GE(result.time_ns, transfer_ns(2 * 64 * mebi * 2047 / 2048, 50'000'000'000));
}

TEST(Simulate, TimesOfEveryRankAreThoseOfAWorldThatIsHandledByTime) {
  // Sums of the times of all ranks, reckoned when the events of all nodes were handled by time, in one queue.
  const auto sum = [](Algorithm algorithm, std::string_view machine, std::uint64_t seed) {
    const Job job{.bytes = 4 * mebi, .stragglers = {0.1, 500'000, seed}};
    Machine priced = *find_machine(machine);
    priced.tiling.scratch_bytes = std::size_t{1} << 30;  // no message was shorter for it then
    const Outcome result = test::outcome(test::schedule(algorithm, equal_nodes(16, 4)), priced, job);
    return std::accumulate(result.finished_ns.begin(), result.finished_ns.end(), Nanoseconds{0});
  };
  EXPECT_EQ(sum(Algorithm::hierarchical, "efa-400", 1), 55'654'656);
  EXPECT_EQ(sum(Algorithm::circulant, "100g", 2), 248'969'183);
  EXPECT_EQ(sum(Algorithm::halving_doubling, "1g", 3), 4'395'874'016);
  EXPECT_EQ(sum(Algorithm::direct_one_shot, "loopback-tcp", 4), 5'928'971'692);
}

TEST(Simulate, RefusesMoreStepsThanMemoryIsFor) {
  const auto plans = test::schedule(Algorithm::ring, equal_nodes(512, 8));
  ASSERT_TRUE(simulate(plans, *find_machine("efa-400"), {.bytes = 1024}));
  Job job{.bytes = 1024};
  job.stragglers.probability = 0.1;
  const auto result = simulate(plans, *find_machine("efa-400"), job);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::unsupported);
  EXPECT_NE(result.error().message().find("4096 ranks have"), std::string::npos);
}

/// As slow as a machine may be, with messages as long as may be.
Machine slowest_machine() {
  Machine machine = *find_machine("1g");
  for (Tier* tier : {&machine.inside, &machine.between})
    tier->copy_bytes_per_second = tier->place_bytes_per_second = tier->lane_bytes_per_second = 1000;
  machine.nic_bytes_per_second = machine.memory_bytes_per_second = machine.reduce_bytes_per_second = 1000;
  machine.tiling.segment_bytes = machine.tiling.smallest_bytes = std::size_t{1} << 40;
  return machine;
}

// Sums of nanoseconds went below zero, and the call was over at once.
TEST(Simulate, RefusesWhatTakesLongerThanItCanCount) {
  const Machine machine = slowest_machine();
  for (const Algorithm algorithm : {Algorithm::star, Algorithm::direct_one_shot, Algorithm::ring}) {
    const auto plans = test::schedule(algorithm, equal_nodes(1, 4));
    const auto result = simulate(plans, machine, {.bytes = std::uint64_t{1} << 40});
    ASSERT_FALSE(result) << name(algorithm) << ": " << result->time_ns << " ns";
    EXPECT_EQ(result.error().code(), ErrorCode::unsupported);
    EXPECT_NE(result.error().message().find("too long to be simulated"), std::string::npos);
    EXPECT_NE(result.error().message().find("years"), std::string::npos);
    const auto bearable = simulate(plans, machine, {.bytes = std::uint64_t{1} << 30});
    ASSERT_TRUE(bearable) << bearable.error().message();
    EXPECT_GT(bearable->time_ns, transfer_ns(std::uint64_t{1} << 30, 1000));
  }
}

TEST(Simulate, RefusesWhatTakesTooLongInAllOfItsTiles) {
  Machine machine = slowest_machine();
  machine.tiling.segment_bytes = machine.tiling.smallest_bytes = std::size_t{1} << 20;
  const auto plans = test::schedule(Algorithm::ring, equal_nodes(4, 1));
  const auto result = simulate(plans, machine, {.bytes = std::uint64_t{1} << 50, .most_messages = 1});
  ASSERT_FALSE(result) << result->time_ns << " ns";
  EXPECT_NE(result.error().message().find("too long to be simulated"), std::string::npos);
}

TEST(Simulate, RefusesWhatItCannotMean) {
  const auto plans = test::schedule(Algorithm::ring, equal_nodes(2, 1));
  Machine machine = *find_machine("10g");
  machine.nics = 0;
  const auto result = simulate(plans, machine, {.bytes = 4});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("nics"), std::string::npos);
  EXPECT_FALSE(simulate(plans, *find_machine("10g"), {.bytes = 4, .element_bytes = 0}));
}

}  // namespace
}  // namespace fabring::simulation
