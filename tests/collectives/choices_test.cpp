// Which algorithms are chosen where it has been measured which is fastest, or is known for another reason.

#include "collectives/choice/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t kibi = 1 << 10;
constexpr std::uint64_t mebi = 1 << 20;

Machine loopback() { return *find_machine("loopback-tcp"); }
ChoiceTable table(const WorldShape& shape) { return ChoiceTable::make(shape, loopback()); }
Algorithm chosen(const ChoiceTable& from, std::uint64_t bytes) {
  return choose(from, Collective::allreduce, bytes).algorithm;
}

TEST(Choices, TakesFewRoundsForSmallVectorsAndFewBytesForLongOnes) {
  for (const int ranks : {3, 4, 8}) {
    const ChoiceTable made = table({ranks, 1, ranks, ranks});
    for (const std::uint64_t bytes : {std::uint64_t{4}, 1 * kibi}) {
      const Algorithm small = chosen(made, bytes);
      EXPECT_THAT((std::initializer_list<Algorithm>{Algorithm::direct_one_shot, Algorithm::recursive_doubling}),
                  testing::Contains(small))
          << name(small) << " for " << ranks;
    }
    for (const std::uint64_t bytes : {2 * mebi, 64 * mebi}) {
      const Algorithm large = chosen(made, bytes);
      const auto fewest = {Algorithm::ring, Algorithm::direct_two_shot, Algorithm::hierarchical, Algorithm::circulant,
                           Algorithm::halving_doubling};
      EXPECT_THAT(fewest, testing::Contains(large)) << name(large) << " for " << ranks;
    }
  }
  const ChoiceTable many = table({64, 1, 64, 64});
  EXPECT_EQ(chosen(many, 4), Algorithm::recursive_doubling);
  EXPECT_EQ(chosen(ChoiceTable::make({64, 8, 8, 8}, *find_machine("efa-400")), 64 * mebi), Algorithm::hierarchical);
}

// The ranks of the root's node share what comes in or goes out only if each has a card for it.
TEST(Choices, SharesWhatARootTakesInWhereItsNodeHasCardsForIt) {
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    for (const std::uint64_t bytes : {16 * mebi, 256 * mebi}) {
      for (const char* machine : {"efa-400", "efa-3200"}) {
        const ChoiceTable made = ChoiceTable::make({64, 8, 8, 8}, *find_machine(machine));
        EXPECT_EQ(choose(made, collective, bytes).algorithm, Algorithm::hierarchical) << machine << " " << bytes;
      }
      const ChoiceTable one_card = ChoiceTable::make({64, 8, 8, 8}, *find_machine("10g"));
      EXPECT_NE(choose(one_card, collective, bytes).algorithm, Algorithm::hierarchical) << bytes;
    }
  }
}

TEST(Choices, TakesOneRoundBetweenGpusUntilReadingAllDataCostsMoreThanALaunch) {
  for (const auto& [ranks, last_of_one] : {std::pair{2, 8 * mebi}, {4, 512 * kibi}, {8, 256 * kibi}}) {
    Machine gpus = *find_machine("cuda-ipc");
    gpus.tiling.segment_bytes = 16 * mebi / static_cast<std::uint64_t>(ranks);  // as such a job has them
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, gpus);
    for (std::uint64_t bytes = 4; bytes <= 64 * mebi; bytes *= 2)
      EXPECT_EQ(chosen(made, bytes), bytes <= last_of_one ? Algorithm::direct_one_shot : Algorithm::direct_two_shot)
          << bytes << " of " << ranks << " ranks";
    EXPECT_EQ(choose(made, Collective::reduce_scatter, 256 * kibi).algorithm, Algorithm::direct_one_shot);
  }
}

// Over sockets alltoall of 32 KiB blocks took 99 us directly and 218 as hierarchical, whose messages are cut.
TEST(Choices, OnOneNodeTakesHierarchicalOnlyIfNothingElseIsAsFast) {
  for (const int ranks : {2, 4, 8}) {
    const WorldShape shape{ranks, 1, ranks, ranks};
    EXPECT_EQ(choose(table(shape), Collective::alltoall, 128 * kibi, {}).algorithm, Algorithm::direct_one_shot);
    for (std::uint64_t bytes = 1; bytes <= 64 * mebi; bytes *= 2) {
      const auto all = candidates(Collective::alltoall, bytes, shape, loopback());
      if (all[0].algorithm == Algorithm::hierarchical) {
        EXPECT_LT(*all[0].predicted, *all[1].predicted) << bytes;
      }
    }
  }
}

Machine two_cores_of_sockets() {
  Machine machine = loopback();
  machine.cores = 2;
  return machine;
}

Machine two_cores_of_shared_memory(std::size_t eager_bytes) {
  Machine machine = *find_machine("shared-memory");
  machine.cores = 2;
  machine.tiling.reduced_together_bytes = 1 * mebi;
  machine.tiling.eager_bytes = eager_bytes;
  return machine;
}

// Measured, us: 4 ranks, 16 KiB 8.7 by recursive doubling, two shots 10.9; 16 MiB 3.8 ms and by a tree 5.3, 64 MiB 16.6
// and 21.9. 3 ranks, 16 MiB 4.0 ms and by a tree 3.6, but 2.1 and 3.6 of mapped memory.
TEST(Choices, TakesFewRoundsThroughSharedMemoryWhereRanksShareCores) {
  const Machine machine = two_cores_of_shared_memory(64 * kibi);
  const ChoiceTable made = ChoiceTable::make({4, 1, 4, 4}, machine);
  EXPECT_EQ(chosen(made, 4), Algorithm::direct_one_shot);
  EXPECT_EQ(chosen(made, 16 * kibi), Algorithm::recursive_doubling);
  for (const std::uint64_t bytes : {1 * mebi, 4 * mebi, 16 * mebi, 64 * mebi})
    EXPECT_EQ(chosen(made, bytes), Algorithm::direct_two_shot) << bytes;
  EXPECT_EQ(chosen(ChoiceTable::make({3, 1, 3, 3}, machine), 16 * mebi), Algorithm::direct_two_shot);
}

// A round takes as long as all four ranks of a core need for their turns, and a grant more of them. Measured, us: 1 KiB
// 14 at once and 18 by recursive doubling, 16 KiB 31 by two shots, 34 by a tree and 40 by two; 256 KiB 160 by two
// shots, 263 by a tree; 16 MiB 10.2 ms and 13.3.
TEST(Choices, OfManyRanksOnACoreTakesFewerRounds) {
  const ChoiceTable made = ChoiceTable::make({8, 1, 8, 8}, two_cores_of_shared_memory(32 * kibi));
  EXPECT_EQ(chosen(made, 1 * kibi), Algorithm::direct_one_shot);
  for (const std::uint64_t bytes : {16 * kibi, 128 * kibi, 256 * kibi, 512 * kibi, 1 * mebi, 16 * mebi})
    EXPECT_EQ(chosen(made, bytes), Algorithm::direct_two_shot) << bytes;
}

// Messages that wait for grants cost turns of the cores: in parts that are sent unasked more bytes go faster. Measured,
// us, a single one and one of many in a row. Broadcast, 4 ranks: 256 KiB 39 and 40, by two trees 70 and 57, by one 65
// and 55; 1 MiB 178 and 173 so, 196 and 167, 165 and 153. 8 ranks: 128 KiB 71 and 53, 139 and 118, 128 and 98; 1 MiB
// 478 and 440, 522 and 454, 446 and 421. Reduce, 4 ranks: 128 KiB 30 and 32, by a tree 39 and 36; 8 ranks: 128 KiB 88
// and 98, 132 and 122, directly 108 and 106; 1 MiB 704 and 676, 480 and 439, 432 and 429.
TEST(Choices, GoesAroundGrantsBetweenARootAndRanksThatShareCores) {
  for (const auto& [ranks, eager, granted] : {std::tuple{4, 64 * kibi, 256 * kibi}, {8, 32 * kibi, 128 * kibi}}) {
    Machine machine = two_cores_of_shared_memory(eager);
    machine.tiling.eager_in_tiles_bytes = 32 * kibi;
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, machine);
    const auto of = [&](Collective collective, std::uint64_t bytes) {
      return choose(made, collective, bytes).algorithm;
    };
    EXPECT_EQ(of(Collective::broadcast, granted), Algorithm::ring) << ranks;
    EXPECT_EQ(of(Collective::reduce, 128 * kibi), Algorithm::ring) << ranks;
    for (std::uint64_t bytes = 4; bytes <= 1 * mebi; bytes *= 2) {
      EXPECT_NE(of(Collective::broadcast, bytes), Algorithm::double_tree) << ranks << " " << bytes;
      EXPECT_NE(of(Collective::reduce, bytes), Algorithm::chain) << ranks << " " << bytes;
    }
    EXPECT_NE(of(Collective::broadcast, 1 * mebi), Algorithm::ring) << ranks;
    EXPECT_NE(of(Collective::reduce, 1 * mebi), Algorithm::ring) << ranks;
  }
}

// Measured, ms: 4 MiB 0.49 down from the root and 0.61 along a chain, 0.45 up to it and 0.68 along a chain.
TEST(Choices, KnowsThatARootOnlySendsOrOnlyReduces) {
  const ChoiceTable made = ChoiceTable::make({3, 1, 3, 3}, two_cores_of_shared_memory(64 * kibi));
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (const std::uint64_t bytes : {512 * kibi, 1 * mebi, 4 * mebi, 16 * mebi}) {
      const Algorithm found = choose(made, collective, bytes).algorithm;
      EXPECT_TRUE(found == Algorithm::binomial || found == Algorithm::direct_one_shot) << name(found) << " " << bytes;
    }
}

// Measured, us: 4 ranks on 2 cores through shared memory 4.0 and in two rounds 5.2, over TCP 46 and 43; 8 ranks 12.6
// and 16, 210 and 142 (up and down a tree 105).
TEST(Choices, ABarrierTakesOneRoundWhereMessagesCostLessThanRounds) {
  for (const int ranks : {3, 4, 8}) {
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, two_cores_of_shared_memory(32 * kibi));
    EXPECT_EQ(choose(made, Collective::barrier, 0).algorithm, Algorithm::direct_one_shot) << ranks;
  }
  for (const int ranks : {4, 8}) {
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, two_cores_of_sockets());
    EXPECT_NE(choose(made, Collective::barrier, 0).algorithm, Algorithm::direct_one_shot) << ranks;
  }
}

TEST(Choices, KnowsThatOperationsOfSeveralTilesSendLessUnasked) {
  Machine machine = two_cores_of_shared_memory(64 * kibi);
  const WorldShape shape{4, 1, 4, 4};
  const auto price = [&](std::uint64_t bytes) {
    return *predict(Collective::allreduce, Algorithm::ring, bytes, shape, machine);
  };
  const Nanoseconds one_tile = price(256 * kibi), two_tiles = price(512 * kibi);
  machine.tiling.eager_in_tiles_bytes = 32 * kibi;
  EXPECT_EQ(price(256 * kibi), one_tile);
  EXPECT_GT(price(512 * kibi), two_tiles) << "its messages of 64 KiB wait for grants";
}

// Measured, ms: 4 ranks, 1 MiB 0.98 and by halving and doubling 1.15, 16 MiB 14.8 and 16.4, by a ring 16.5; 3 ranks, 4
// MiB 3.2 and 3.7; 8 ranks, 64 MiB 140 and 165. With a core for each rank a tree's root is what all wait for.
TEST(Choices, SumsOverSocketsUpATreeWhereRanksShareCores) {
  Machine machine = loopback();
  for (const int ranks : {3, 4, 8}) {
    machine.cores = 2;
    const ChoiceTable shared = ChoiceTable::make({ranks, 1, ranks, ranks}, machine);
    machine.cores = 8;
    const ChoiceTable apart = ChoiceTable::make({ranks, 1, ranks, ranks}, machine);
    for (const std::uint64_t bytes : {256 * kibi, 1 * mebi, 16 * mebi, 64 * mebi})
      EXPECT_EQ(chosen(shared, bytes), Algorithm::binomial) << ranks << " " << bytes;
    for (const std::uint64_t bytes : {1 * mebi, 16 * mebi, 64 * mebi})
      EXPECT_NE(chosen(apart, bytes), Algorithm::binomial) << ranks << " " << bytes;
  }
}

// Blocks that travel together are copied once more, and a rank that waits for another than the one that waits for it
// takes turns. Measured over TCP on 2 cores, us: reduce_scatter, 4 ranks, 16 B by halving 35, on a circle 48; 1 MiB
// directly 548, by halving 632, on a circle 669; 8 ranks, 4 MiB 7.0 ms, 8.9 and 8.7; all_gather, 8 ranks, 4 MiB
// directly 5.4 ms, by doubling 7.2, by Bruck's 7.5.
TEST(Choices, PacksBlocksOverSocketsOnlyWhileTheyAreShort) {
  for (const int ranks : {4, 8}) {
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, two_cores_of_sockets());
    for (const std::uint64_t bytes : {std::uint64_t{16}, 16 * kibi, 64 * kibi}) {
      EXPECT_EQ(choose(made, Collective::reduce_scatter, bytes).algorithm, Algorithm::halving_doubling) << bytes;
      EXPECT_EQ(choose(made, Collective::all_gather, bytes).algorithm, Algorithm::recursive_doubling) << bytes;
    }
    for (const std::uint64_t bytes : {4 * mebi, 16 * mebi})
      for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
        const Algorithm found = choose(made, collective, bytes).algorithm;
        EXPECT_TRUE(found == Algorithm::direct_one_shot || found == Algorithm::ring) << name(found) << " " << bytes;
      }
  }
}

// Two ranks alone exchange all they have in one round for which nobody asks. Measured over TCP on one host, us: 1 MiB
// 166 and by halving and doubling 182, 4 MiB 676 and 736, 16 MiB 3627 and 3676; between hosts on a fast link 256 KiB 77
// and 117, 1 MiB 240 and 281. There longer vectors keep more messages under way.
TEST(Choices, ExchangesAllBetweenTwoRanksThatKeepLandings) {
  const auto best = [](std::string_view machine, const WorldShape& shape, std::uint64_t bytes) {
    return candidates(Collective::allreduce, bytes, shape, *find_machine(machine)).front().algorithm;
  };
  for (const std::string_view machine : {"loopback-tcp", "loopback-fabric"})
    for (const std::uint64_t bytes : {64 * kibi, 1 * mebi, 4 * mebi, 64 * mebi})
      EXPECT_EQ(best(machine, {2, 1, 2, 2}, bytes), Algorithm::recursive_doubling) << machine << " " << bytes;
  for (const std::string_view machine : {"10g", "100g"}) {
    for (const std::uint64_t bytes : {64 * kibi, 256 * kibi, 1 * mebi})
      EXPECT_EQ(best(machine, {2, 2, 1, 1}, bytes), Algorithm::recursive_doubling) << machine << " " << bytes;
    for (const std::uint64_t bytes : {16 * mebi, 64 * mebi})
      EXPECT_NE(best(machine, {2, 2, 1, 1}, bytes), Algorithm::recursive_doubling) << machine << " " << bytes;
  }
}

// Measured over TCP on 2 cores, us: 4 ranks 4 MiB directly 2396 to 2700, as a ring 1637 to 2394; 8 ranks 4 MiB 7159 to
// 10020 and 5156 to 6681. Through libfabric the two are level.
TEST(Choices, PassesLongBlocksOnInARingOverSocketsWhereRanksShareCores) {
  for (const int ranks : {3, 4, 6, 8}) {
    const WorldShape shape{ranks, 1, ranks, ranks};
    Machine machine = two_cores_of_sockets();
    for (const std::uint64_t bytes : {4 * mebi, 16 * mebi})
      EXPECT_EQ(choose(ChoiceTable::make(shape, machine), Collective::all_gather, bytes).algorithm, Algorithm::ring)
          << ranks << " " << bytes;
    machine = *find_machine("loopback-fabric");
    machine.cores = 2;
    for (const std::uint64_t bytes : {4 * mebi, 16 * mebi})
      EXPECT_EQ(choose(ChoiceTable::make(shape, machine), Collective::all_gather, bytes).algorithm,
                Algorithm::direct_one_shot)
          << ranks << " " << bytes;
  }
}

// Measured through libfabric on 2 cores, us: 4 ranks, all_gather of 64 KiB 84 directly and 63 by recursive doubling,
// 128 KiB 108 and 148; scatter of 2 KiB 18 directly and 13 down a tree.
TEST(Choices, SendsFewMessagesOfShortBlocksThroughLibfabricWhereRanksShareCores) {
  Machine machine = *find_machine("loopback-fabric");
  machine.cores = 2;
  const ChoiceTable made = ChoiceTable::make({4, 1, 4, 4}, machine);
  for (const std::uint64_t bytes : {16 * kibi, 64 * kibi})
    EXPECT_EQ(choose(made, Collective::all_gather, bytes).algorithm, Algorithm::recursive_doubling) << bytes;
  EXPECT_EQ(choose(made, Collective::all_gather, 128 * kibi).algorithm, Algorithm::direct_one_shot);
  EXPECT_EQ(choose(made, Collective::scatter, 2 * kibi).algorithm, Algorithm::binomial);
}

// Measured likewise: scatter, 4 ranks, 16 B 12.4 down a tree and 17.5 directly, 1 MiB 200 and 201, 4 MiB 790 and 699; 8
// ranks, 16 KiB 33 and 54, 256 KiB 309 and 121. Gather, 4 ranks, 16 B 15 and 12, 256 KiB 155 and 94.
TEST(Choices, ScattersShortBlocksOverSocketsDownATreeWhereRanksShareCores) {
  for (const int ranks : {4, 8}) {
    const ChoiceTable made = ChoiceTable::make({ranks, 1, ranks, ranks}, two_cores_of_sockets());
    for (const std::uint64_t bytes : {std::uint64_t{16}, 1 * kibi, 16 * kibi})
      EXPECT_EQ(choose(made, Collective::scatter, bytes).algorithm, Algorithm::binomial) << ranks << " " << bytes;
    for (const std::uint64_t bytes : {256 * kibi, 1 * mebi, 16 * mebi}) {
      EXPECT_EQ(choose(made, Collective::scatter, bytes).algorithm, Algorithm::direct_one_shot)
          << ranks << " " << bytes;
      EXPECT_EQ(choose(made, Collective::gather, bytes).algorithm, Algorithm::direct_one_shot) << ranks << " " << bytes;
    }
  }
}

// Sockets of 4 ranks on 2 cores, near each other, us, medians of 8 launches: 1 KiB binomial 14.6, directly 21.9, 64 KiB
// 117 (two trees 125), 256 KiB directly 195 (binomial 253, chain 225), 16 MiB binomial 10029, chain 9418. Far from each
// other what the root sends directly takes twice as long as a tree from 1 MiB on.
TEST(Choices, BroadcastsDownATreeWhereRanksShareCores) {
  const ChoiceTable made = ChoiceTable::make({4, 1, 4, 4}, two_cores_of_sockets());
  for (std::uint64_t bytes = 4; bytes <= 64 * mebi; bytes *= 4) {
    const Algorithm found = choose(made, Collective::broadcast, bytes).algorithm;
    EXPECT_TRUE(found == Algorithm::binomial || (found == Algorithm::direct_one_shot && bytes == 256 * kibi))
        << name(found) << " " << bytes;
  }
}

// On one node a root's two shots are taken only for what is rounded once, which nothing else but one shot does.
TEST(Choices, ARootTakesTwoShotsOverLinksBetweenManyHosts) {
  const ChoiceTable hosts = ChoiceTable::make({16, 16, 1, 1}, *find_machine("10g"));
  for (const std::uint64_t bytes : {64 * kibi, 256 * kibi, 1 * mebi}) {
    EXPECT_EQ(choose(hosts, Collective::broadcast, bytes).algorithm, Algorithm::direct_two_shot) << bytes;
    for (const Constraints& each : {Constraints{}, Constraints{.ordered = true}, Constraints{.reproducible = true},
                                    Constraints{.reproducible = true, .rounds_once = true}})
      EXPECT_EQ(choose(hosts, Collective::reduce, bytes, each).algorithm, Algorithm::direct_two_shot) << bytes;
  }
  for (const std::string_view machine : {"shared-memory", "loopback-tcp", "loopback-fabric", "cuda-ipc"}) {
    const ChoiceTable node = ChoiceTable::make({8, 1, 8, 8}, *find_machine(machine));
    for (std::uint64_t bytes = 4; bytes <= 64 * mebi; bytes *= 2) {
      for (const Constraints& each : {Constraints{}, Constraints{.ordered = true}, Constraints{.reproducible = true}}) {
        EXPECT_NE(choose(node, Collective::reduce, bytes, each).algorithm, Algorithm::direct_two_shot) << machine;
        EXPECT_NE(choose(node, Collective::broadcast, bytes, each).algorithm, Algorithm::direct_two_shot) << machine;
      }
    }
    EXPECT_EQ(choose(node, Collective::reduce, 16 * mebi, {.reproducible = true, .rounds_once = true}).algorithm,
              Algorithm::direct_two_shot)
        << machine;
  }
}

// Measured over links of 1 Gbit/s: a double tree took twice, halving and doubling 1.06 times as long.
TEST(Choices, PrefersWhatKeepsLinksBusyOfWhatIsPricedAlike) {
  const Machine machine = *find_machine("10g");
  EXPECT_EQ(chosen(ChoiceTable::make({4, 2, 2, 2}, machine), 16 * mebi), Algorithm::hierarchical);
  const Algorithm on_four_hosts = chosen(ChoiceTable::make({4, 4, 1, 1}, machine), 16 * mebi);
  EXPECT_TRUE(on_four_hosts == Algorithm::ring || on_four_hosts == Algorithm::hierarchical) << name(on_four_hosts);
  for (const WorldShape& unequal : {WorldShape{4, 3, 1, 2}, {4, 2, 1, 3}, {3, 2, 1, 2}, {7, 3, 1, 4}})
    EXPECT_EQ(chosen(ChoiceTable::make(unequal, machine), 16 * mebi), Algorithm::hierarchical) << unequal.ranks;
}

}  // namespace
}  // namespace fabring
