#include "collectives/cost/message_length.hpp"

#include <gtest/gtest.h>

#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t gibi = std::uint64_t{1} << 30;

WorldShape nodes_of_8(int nodes) { return {8 * nodes, nodes, 8, 8}; }

std::size_t length(std::string_view machine, int nodes, std::uint64_t bytes,
                   Algorithm algorithm = Algorithm::hierarchical) {
  return message_length(Collective::allreduce, name(algorithm), bytes, nodes_of_8(nodes), *find_machine(machine));
}

TEST(MessageLength, IsLongerWhereMoreRoundsOrFasterCardsHaveToBeHidden) {
  for (const std::string_view machine : {"efa-400", "efa-3200"})
    EXPECT_LE(length(machine, 8, gibi), length(machine, 2048, gibi)) << machine;
  for (const int nodes : {8, 64, 2048}) EXPECT_LE(length("efa-400", nodes, gibi), length("efa-3200", nodes, gibi));
  EXPECT_GE(length("efa-400", 2048, gibi), std::size_t{512} << 10);
  EXPECT_EQ(length("efa-3200", 2048, gibi), std::size_t{2048} << 10);
  EXPECT_LT(length("efa-400", 8, 8 << 20), length("efa-400", 2048, gibi)) << "what is short is cut to overlap";
}

TEST(MessageLength, OfAPriceThatIsNoHigherThanThatOfTheUsualCut) {
  for (const std::string_view named : {"efa-400", "efa-3200"}) {
    const Machine machine = *find_machine(named);
    Machine usual = machine;
    usual.tiling.long_segment_bytes = 0;
    for (const Algorithm algorithm :
         {Algorithm::ring, Algorithm::circulant, Algorithm::halving_doubling, Algorithm::hierarchical}) {
      for (const int nodes : {2, 3, 8, 64, 2048}) {
        for (std::uint64_t bytes = 1024; bytes <= gibi; bytes *= 4) {
          const auto price = predict(Collective::allreduce, algorithm, bytes, nodes_of_8(nodes), machine);
          const auto before = predict(Collective::allreduce, algorithm, bytes, nodes_of_8(nodes), usual);
          ASSERT_TRUE(price && before);
          EXPECT_LE(*price, *before + *before / 10) << name(algorithm) << " of " << bytes << " on " << nodes;
        }
      }
    }
  }
}

TEST(MessageLength, StaysWithinWhatMemoryAllows) {
  Machine machine = *find_machine("efa-3200");
  for (const std::size_t most : {std::size_t{1024} << 10, std::size_t{700} << 10, std::size_t{300} << 10}) {
    machine.tiling.long_segment_bytes = most;
    const std::size_t chosen = message_length(Collective::allreduce, "hierarchical", gibi, nodes_of_8(512), machine);
    EXPECT_LE(chosen, most);
    EXPECT_GT(chosen, most / 2);
  }
  machine.tiling.long_segment_bytes = 0;
  EXPECT_EQ(message_length(Collective::allreduce, "hierarchical", gibi, nodes_of_8(512), machine), 0u);
}

TEST(MessageLength, IsTheSameForAllVectorsBetweenTwoPowersOfTwo) {
  for (const std::uint64_t most : {std::uint64_t{8} << 20, std::uint64_t{128} << 20, gibi})
    for (const std::uint64_t bytes : {most / 2 + 1, most / 2 + most / 4, most})
      EXPECT_EQ(length("efa-400", 64, bytes), length("efa-400", 64, most)) << bytes;
}

TEST(MessageLength, IsTheUsualOneWhereAProcessorCopiesOrNothingIsGained) {
  for (const std::string_view machine : {"1g", "10g", "100g", "loopback-tcp", "shared-memory", "cuda-ipc"}) {
    Machine any = *find_machine(machine);
    any.tiling.long_segment_bytes = std::size_t{8192} << 10;
    if (machine == "cuda-ipc") any.between = find_machine("100g")->between;
    EXPECT_EQ(message_length(Collective::allreduce, "hierarchical", gibi, nodes_of_8(8), any), 0u) << machine;
  }
  EXPECT_EQ(length("efa-400", 1, gibi), 0u) << "one node";
  EXPECT_EQ(length("efa-400", 8, std::size_t{512} << 10), 0u) << "few tiles in any case";
  EXPECT_EQ(length("efa-400", 8, gibi, Algorithm::direct_two_shot), 0u) << "it keeps a message of every rank";
  const Machine efa = *find_machine("efa-400");
  EXPECT_EQ(message_length(Collective::all_gather, "hierarchical", gibi, nodes_of_8(8), efa), 0u) << "blocks";
  EXPECT_EQ(message_length(Collective::allreduce, "made by somebody", gibi, nodes_of_8(8), efa), 0u);
}

TEST(MessageLength, IsThatOfEqualNodesWhereARankIsMissing) {
  const Machine machine = *find_machine("efa-3200");
  for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::broadcast})
    EXPECT_EQ(message_length(collective, "hierarchical", gibi, {63, 8, 7, 8}, machine),
              message_length(collective, "hierarchical", gibi, nodes_of_8(8), machine))
        << name(collective);
}

}  // namespace
}  // namespace fabring
